// Which instruction set the reduction kernels use.
//
// The best one that the processor and the system offer is taken unless SetIsa names another;
// results have the same bits with each. Any thread may call; a reduction that is running keeps the
// kernels it started with.
#ifndef FTAR_REDUCE_ISA_H_
#define FTAR_REDUCE_ISA_H_

#include <span>
#include <string_view>

#include "base/status.h"

namespace ftar::reduce {

// Takes "auto", "scalar", "avx2", "avx512" or "avx512bf16" (the knob `isa`, FTAR_ISA). Fails with
// Code::kConfig, and changes nothing, for another name and for an instruction set that this machine
// or this build lacks.
Status SetIsa(std::string_view name);

// The instruction set in use, for example "avx2".
std::string_view IsaName();

// What SetIsa accepts on this machine beside "auto", slowest first.
std::span<const std::string_view> AvailableIsas();

}  // namespace ftar::reduce

#endif  // FTAR_REDUCE_ISA_H_
