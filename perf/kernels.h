// The ideal's two loops, for the widest vectors that this processor has.
//
// Purpose: written apart from libftar's own kernels, so that a fault of theirs cannot hide here.
// Threads: pure functions.
#ifndef FTAR_PERF_KERNELS_H_
#define FTAR_PERF_KERNELS_H_

#include <cstddef>
#include <cstdint>

namespace ftar::perf {

// out[i] = in[0][i] + in[1][i] + ..., in this order.
void SumFloats(float* out, const float* const* in, int sources, size_t count);

// A copy that goes past the caches; both ends may lie anywhere.
void StreamCopy(void* to, const void* from, size_t bytes);

// Reads all of it, so that it is in the caches of this core afterwards.
uint64_t ReadAll(const void* from, size_t bytes);

// The largest cache, for which sizes the system is asked.
uint64_t CacheBytes();

}  // namespace ftar::perf

#endif  // FTAR_PERF_KERNELS_H_
