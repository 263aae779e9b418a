// How much of the heap is in use, to the byte: every allocation of the process is counted, whoever
// makes it. What the system says of a process is coarser than what a slow leak takes.
#ifndef FTAR_TESTS_CHAOS_HEAP_H_
#define FTAR_TESTS_CHAOS_HEAP_H_

#include <cstdint>

namespace chaos {

int64_t HeapBytes();  // 0 under a sanitizer, which has the heap itself

}  // namespace chaos

#endif  // FTAR_TESTS_CHAOS_HEAP_H_
