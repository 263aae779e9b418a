// Makes a failing seed's weather smaller while it still fails.
#ifndef FTAR_TESTS_SIM_SHRINK_H_
#define FTAR_TESTS_SIM_SHRINK_H_

#include <cstdint>
#include <string>

namespace ftar::sim {

// Prints the smallest weather found and the line that replays it. 0 if the seed fails at all.
// `more` is added to the line: what else the program was started with.
int Shrink(uint64_t seed, const std::string& changes, const std::string& more);

}  // namespace ftar::sim

#endif  // FTAR_TESTS_SIM_SHRINK_H_
