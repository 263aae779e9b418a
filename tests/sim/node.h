// One simulated member: the real engine, pretended memory, and a user's program.
#ifndef FTAR_TESTS_SIM_NODE_H_
#define FTAR_TESTS_SIM_NODE_H_

#include <deque>
#include <map>
#include <memory>
#include <set>

#include "invariants/conduct.h"
#include "invariants/news.h"
#include "in_place.h"
#include "lane.h"
#include "world.h"

namespace ftar::sim {

inline constexpr GroupKey kGroup = 7;
inline constexpr GroupKey kUrgentGroup = 9;

// What one member's user does in one group.
struct World::Use {
  explicit Use(GroupKey key) : group(key) {}

  const GroupKey group;
  Memory memory;
  std::map<Seq, collective::OpSpec> specs;
  std::deque<collective::OpSpec> unnumbered;
  Seq delivered_end = 0;
  Seq step_end = 0;
  TimeNs resting_until = 0;
};

struct World::Node {
  explicit Node(TimeNs heartbeat_ns) : conduct(heartbeat_ns) {}

  wire::MemberCard card;
  uint64_t index = 0;  // from 1
  std::unique_ptr<engine::Engine> engine;
  Use main{kGroup}, urgent{kUrgentGroup};  // urgent: only in weather that has it
  std::unique_ptr<MemberLane> lane;        // null: this weather has none
  Seq fast = kNoSeq;                       // the last operation on the fast path
  collective::LaneLine line;               // its
  FastBlocks blocks;                       // of that one
  collective::Work foreseen;               // of that one, if anything was
  int looks = 0;                           // of its user, at what is shared
  Conduct conduct;
  News news;
  bool told = false;  // its machine, since all was taken that it wanted
  bool alive = true;
  bool stopped = false;
  bool hung = false;      // stopped for good
  bool struck = false;    // something happened to it or its replica for which it may be evicted
  TimeNs away_until = 0;  // the coordinator is out of reach till then
  std::deque<Action> backlog;  // what arrives while stopped
  std::set<MemberId> revoked;
  std::shared_ptr<const wire::View> reported;  // to the last coordinator: installed, or confirmed
  uint16_t introduced_to = 0;  // the coordinator's incarnation that its last Hello went to
  uint64_t links = 0;          // bit i: to the node with index i
  uint64_t connection = 0;     // to the coordinator; 0 none
  // Hosted weather.
  Seat seat;
  std::unique_ptr<membership::Succession> succession;
  TimeNs pursue_at = kNever, heard_at = 0;
  uint64_t dial = 0, meeting_turn = 0;
  TimeNs wake = kNever;
  Rest rest, pursuit;
  bool draining = false;
  // the program
  bool first_known = false;
  bool leaving = false, over = false;
  bool in_step = false, step_pending = false;
  uint64_t step = 0;  // the user's, plus 1
  uint64_t asked = 0;  // how often it has asked for one
  std::map<uint64_t, engine::StepBegun> steps;  // of operations that are not delivered, by `step`

  Use& Of(GroupKey group) { return group == kUrgentGroup ? urgent : main; }
  bool Holds(const Node& peer) const { return links >> peer.index & 1; }
  void SetLink(const Node& peer, bool up) {
    const uint64_t bit = uint64_t{1} << peer.index;
    links = up ? links | bit : links & ~bit;
  }
};

}  // namespace ftar::sim

#endif  // FTAR_TESTS_SIM_NODE_H_
