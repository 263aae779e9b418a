// Is there memory at all where a caller says its buffer is? A buffer that its owner has unmapped is
// the commonest way to hand over a pointer that kills the process much later, on another thread.
// Any thread. What the owner does to the mapping afterwards cannot be seen from here.
//
// A thread remembers the last small ranges that it has found mapped for a while, as the question
// costs more than the operation: who unmaps one of them and calls again at once is killed there and
// then, in its own call, which reads the bytes itself.
#ifndef FTAR_API_MAPPED_H_
#define FTAR_API_MAPPED_H_

#include <cstdint>

namespace ftar::api {

inline constexpr int kRememberedCalls = 256;              // questions
inline constexpr uint64_t kRememberedBytes = 32 * 1024;  // of one question

// False if some page of the range is not mapped. Costs one system call that looks at mappings only,
// not at pages, so its time does not grow with `bytes`; where the answer is remembered, none.
bool IsMapped(const void* data, uint64_t bytes);

// Whether the first byte can be read: not where nothing is mapped, nor in a GPU's memory, whose
// addresses CUDA keeps mapped without access. One system call.
bool IsReadable(const void* data);

// True if both ranges are mapped and lie near each other with nothing unmapped between: one system
// call instead of two. False says nothing.
bool MappedTogether(const void* one, uint64_t one_bytes, const void* other, uint64_t other_bytes);

// The library has given memory back: whatever is remembered may be wrong.
void NoteUnmapped();

}  // namespace ftar::api

#endif  // FTAR_API_MAPPED_H_
