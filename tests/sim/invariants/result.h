// What lies in a caller's buffers when an operation is delivered.
#ifndef FTAR_TESTS_SIM_INVARIANTS_RESULT_H_
#define FTAR_TESTS_SIM_INVARIANTS_RESULT_H_

#include <string>

#include "collective/types.h"
#include "memory.h"

namespace ftar::sim {

// Validity: exactly the participants, each once, in every element of the result; nothing else,
// nowhere else. And the order of additions (rule F6): where the plan adds in member order, the sum
// was made in the order of the attempt's list. `segment_offset`: where a reduce-scatter's segment
// begins in the whole.
std::string CheckResult(GroupKey group, const collective::OpSpec& spec, uint64_t segment_offset,
                        const collective::Outcome& outcome, const Buffer& recv);

// Input safety (contract 3): out of place the input is what it was; after an error in place too,
// and an output of its own is untouched after a mismatch and where nobody was left to give one.
std::string CheckInput(GroupKey group, const collective::OpSpec& spec, int replica,
                       const collective::Outcome& outcome, const Memory::OpBuffers& buffers);

// Called, then complete, then delivered.
std::string CheckMoment(const collective::Outcome& outcome);

// The input of a member for an operation, laid out as its kind wants.
Buffer MakeInput(GroupKey group, const collective::OpSpec& spec, int replica, Seq seq);
uint64_t OutputElements(const collective::OpSpec& spec);
// What an output holds before anything lands there.
inline constexpr Element kUntouched{0xdead, 0xbeef, 0xfeed};

}  // namespace ftar::sim

#endif  // FTAR_TESTS_SIM_INVARIANTS_RESULT_H_
