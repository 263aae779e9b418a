// Memory of this process that runs out when a test says so.
#ifndef FTAR_TESTS_PROCESS_API_SCARCE_MEMORY_H_
#define FTAR_TESTS_PROCESS_API_SCARCE_MEMORY_H_

#include <atomic>
#include <cstdint>

namespace process {

inline constexpr int64_t kPlenty = INT64_MAX / 2;

// Allocations until there is none; and whether that one fails alone, or all that follow, too.
extern std::atomic<int64_t> left;
extern std::atomic<bool> only_one;
// The same of this thread's own, of which one fails.
extern thread_local int64_t mine_left;

}  // namespace process

#endif  // FTAR_TESTS_PROCESS_API_SCARCE_MEMORY_H_
