// A relay speaks for all behind it once all have said it, and not before (design 5 "Scale").
#ifndef FTAR_TESTS_SIM_INVARIANTS_BEHIND_H_
#define FTAR_TESTS_SIM_INVARIANTS_BEHIND_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "wire/messages.h"

namespace ftar::sim {

// Who stands behind a relay, from what its Hello says.
std::vector<MemberId> NamesIn(const std::string& roster);

class Behind {
 public:
  // What a member behind it says, and what it is told of other units.
  void Hears(MemberId from, const wire::Message& message);
  void Learns(const wire::Roster& roster);
  // What it says, on a line of a unit of its own.
  std::string Says(uint64_t line, const wire::Message& message);

 private:
  struct Member {
    Epoch installed = 0;
    bool gone = false;
    std::set<Epoch> decided;
    std::set<MemberId> broken;  // links that it has lost
  };
  std::string LinkIsBack(const std::vector<MemberId>& own, MemberId unit) const;
  const Member& Of(MemberId id) const;

  std::map<MemberId, Member> members_;
  std::map<uint64_t, std::vector<MemberId>> own_;    // by line: who stands behind it
  std::map<MemberId, std::vector<MemberId>> units_;  // behind other relays
};

}  // namespace ftar::sim

#endif  // FTAR_TESTS_SIM_INVARIANTS_BEHIND_H_
