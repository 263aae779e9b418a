// Names and sizes of the library's data types, operators and collectives, as nccl-tests prints
// them.
//
// Purpose: one table each, so that the command line, the report and the verification agree.
// Threads: everything here is constant.  Ownership: nothing is owned.
#ifndef FTAR_PERF_TYPES_H_
#define FTAR_PERF_TYPES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ftar/ftar.h"

namespace ftar::perf {

enum class NumberClass : uint8_t { kFloat, kSigned, kUnsigned };

struct TypeInfo {
  ftarDtype_t dtype;
  std::string_view name;   // as nccl-tests prints it
  std::string_view alias;  // the library's own short name, also accepted
  size_t bytes;
  NumberClass number_class;
  int significant_bits;  // of a float's significand, the hidden bit included; 0 for integers
};

struct OpInfo {
  ftarRedop_t redop;
  std::string_view name;
};

struct CollectiveInfo {
  ftarKind_t kind;
  std::string_view flag;   // on the command line
  std::string_view title;  // in the header of the table
  bool reduces;            // has an operator
  bool typed;              // moves elements at all
};

std::span<const TypeInfo> AllTypes();
std::span<const OpInfo> AllOps();
std::span<const CollectiveInfo> AllCollectives();

// The entry must exist: values come from the tables themselves or from FindX.
const TypeInfo& TypeOf(ftarDtype_t dtype);
const OpInfo& OpOf(ftarRedop_t redop);
const CollectiveInfo& CollectiveOf(ftarKind_t kind);

// A comma-separated list of names, or "all".  Nothing is returned when a name is unknown.
std::optional<std::vector<ftarDtype_t>> ParseTypes(std::string_view text);
std::optional<std::vector<ftarRedop_t>> ParseOps(std::string_view text);
std::optional<std::vector<ftarKind_t>> ParseCollectives(std::string_view text);

// Of the library that runs, as 1.2.3.
std::string LibraryVersion();

// All names of each table in its order, for who asks which there are.
std::string TypeNames();
std::string OpNames();
std::string CollectiveNames();

// A size with the binary suffix K, M or G, as in nccl-tests.
std::optional<uint64_t> ParseSize(std::string_view text);

// False for pairs that the library refuses: a weighted average of integers.
bool Supported(ftarDtype_t dtype, ftarRedop_t redop);

std::vector<std::string_view> Split(std::string_view text, char separator);

}  // namespace ftar::perf

#endif  // FTAR_PERF_TYPES_H_
