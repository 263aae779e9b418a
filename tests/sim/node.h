// One simulated member: the real engine, pretended memory, and a user's program.
#ifndef FTAR_TESTS_SIM_NODE_H_
#define FTAR_TESTS_SIM_NODE_H_

#include <deque>
#include <map>
#include <memory>
#include <set>

#include "world.h"

namespace ftar::sim {

struct World::Node {
  wire::MemberCard card;
  uint64_t index = 0;
  std::unique_ptr<engine::Engine> engine;
  Memory memory;
  bool alive = true;
  bool stopped = false;
  std::deque<std::function<void()>> backlog;  // what arrives while stopped
  std::set<MemberId> revoked;
  std::set<MemberId> links;
  uint64_t connection = 0;  // to the coordinator; 0 none
  TimeNs wake = kNever;
  bool draining = false;
  // the program
  std::map<Seq, collective::OpSpec> specs;
  std::deque<collective::OpSpec> unnumbered;
  Seq next_call = 0;
  bool first_known = false;
  Seq delivered_end = 0;
  bool leaving = false, over = false;
  bool in_step = false, step_pending = false;
  Seq step_end = 0;
  uint64_t step = 0;  // the user's, plus 1
  TimeNs resting_until = 0;

  void Do(std::function<void()> action) {
    if (!alive) return;
    if (stopped) {
      backlog.push_back(std::move(action));
    } else {
      action();
    }
  }
};

}  // namespace ftar::sim

#endif  // FTAR_TESTS_SIM_NODE_H_
