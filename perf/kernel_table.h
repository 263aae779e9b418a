// ftar-perf kernels: starts ftar-kernels, which measures, and shows its rows as ftar-perf shows
// others: a table, JSON, CSV and a page.
//
// Single-threaded.
#ifndef FTAR_PERF_KERNEL_TABLE_H_
#define FTAR_PERF_KERNEL_TABLE_H_

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace ftar::perf {

// The arguments begin with "kernels". Answers the exit code.
int RunKernels(int argc, const char* const* argv);

// The document of all rows that ftar-kernels has printed, one object a line; what is no object is
// left out. A line {"no_device": why} becomes the document's.
nlohmann::json KernelDocument(const std::string& lines);

// One row of the table, or its head.
std::string KernelHead();
std::string KernelRow(const nlohmann::json& row);

}  // namespace ftar::perf

#endif  // FTAR_PERF_KERNEL_TABLE_H_
