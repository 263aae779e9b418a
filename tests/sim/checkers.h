// What must hold whatever happens. Each checker is fed with what members see and compares members
// with each other.
#ifndef FTAR_TESTS_SIM_CHECKERS_H_
#define FTAR_TESTS_SIM_CHECKERS_H_

#include <map>
#include <set>
#include <string>
#include <utility>

#include "collective/types.h"
#include "memory.h"

namespace ftar::sim {

class Checkers {
 public:
  // Agreement (contract 2): all who deliver an operation see the same status, epoch, members and
  // weights. An operation is known by its number and, with step marks, by its step, which is its
  // tag: newcomers that find all others dead may not know which numbers are taken. Tag 0: a
  // stand-in's, of unknown step.
  std::string Agreement(int shard, const collective::Outcome& outcome);
  // Exactly the participants, each once, in every element of the result; nothing else, nowhere
  // else. `segment_offset`: where a reduce-scatter's segment begins in the whole.
  static std::string Result(GroupKey group, const collective::OpSpec& spec, uint64_t segment_offset,
                            const collective::Outcome& outcome, const Buffer& recv);
  // Input safety (contract 3): out of place the input is what it was; after an error in place too,
  // and an output of its own is untouched after a mismatch and where nobody was left to give one.
  static std::string Input(GroupKey group, const collective::OpSpec& spec, int replica,
                           const collective::Outcome& outcome, const Memory::OpBuffers& buffers);
  // One view an epoch, and every member's epochs grow.
  std::string ViewSeen(MemberId member, const wire::View& view);
  // Fencing: nobody outside an operation's participants delivers it as OK, and nobody delivers
  // twice.
  std::string Fencing(MemberId member, int shard, const collective::Outcome& outcome);

 private:
  std::map<std::pair<int, Seq>, std::vector<collective::Outcome>> outcomes_;
  std::map<Epoch, wire::View> views_;
  std::map<MemberId, Epoch> last_epoch_;
  std::set<std::pair<MemberId, Seq>> delivered_;
};

// The input of a member for an operation, laid out as its kind wants.
Buffer MakeInput(GroupKey group, const collective::OpSpec& spec, int replica, Seq seq);
uint64_t OutputElements(const collective::OpSpec& spec);

}  // namespace ftar::sim

#endif  // FTAR_TESTS_SIM_CHECKERS_H_
