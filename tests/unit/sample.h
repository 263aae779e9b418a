// How many cases of a kind a test takes: ThreadSanitizer has nothing to find in what one thread
// computes, and takes it ten times as long.
#ifndef FTAR_TESTS_UNIT_SAMPLE_H_
#define FTAR_TESTS_UNIT_SAMPLE_H_

#include <cstddef>

namespace ftar {

// Every case, or every 29th.
#if defined(__SANITIZE_THREAD__)
constexpr size_t kSampleStep = 29;
#else
constexpr size_t kSampleStep = 1;
#endif

}  // namespace ftar

#endif  // FTAR_TESTS_UNIT_SAMPLE_H_
