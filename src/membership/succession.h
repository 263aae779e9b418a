// Whom a member follows where any member may coordinate (rule Q5), and when it coordinates itself.
//
// Think of a choir whose conductor may fall ill. Everybody knows the list of those who can stand
// in. When the desk is empty all look along the list whether somebody is there already; and the
// first on the list steps up at once, the second if nobody has after a moment, the third a moment
// later. Two may end up at desks of their own: neither gives a sign before most of the choir looks
// at it (rule Q4), and who is not looked at sits down again.
//
// Who finds nobody along the list, when all have had their turn, looks where the choir meets:
// others may have come, and all whom it knows may have gone.
//
// Pure. Driver's contract: answer every `dial` by CoordinatorFound or DialFailed; a dial drops the
// one that is under way; on `take_over` start a hosted CoordinatorMachine. A coordinator that says
// nothing for `timeout` is gone: the connection's business. Single-threaded.
#ifndef FTAR_MEMBERSHIP_SUCCESSION_H_
#define FTAR_MEMBERSHIP_SUCCESSION_H_

#include <optional>
#include <set>
#include <variant>
#include <vector>

#include "base/ids.h"

namespace ftar::membership {

struct SuccessionConfig {
  MemberId self;
  // Of the epochs that it makes (rule Q1): drawn once for the process. Not its place in the list:
  // the second of one view and the second of the next are two members, and may both be at work.
  uint16_t incarnation = 0;
  bool founder = false;  // coordinates from the start: the first view is its to form
  // The i-th successor waits i times so long. Enough for the one before it to start, and for others
  // to find it.
  TimeNs step_ns = 0;
  TimeNs retry_ns = 0;  // between two looks along the list
  // Of a proof of death that comes behind the loss of the coordinator. Less than a coordinator
  // waits for a member whose connection has closed (CoordinatorConfig::cluster_ns).
  TimeNs grace_ns = 0;
  // Of a founder: so many other places it looks at first, for the job may have begun without it: it
  // is the second to be started in the founder's place.
  int64_t looks_first = 0;
  // So long it asks those again who say nothing: they may only be slow, or far away.
  TimeNs asks_again_ns = 0;
};

// The newest view's, in list order (wire::View::Successors); before the first view is installed,
// those of the one that was promised.
struct SuccessorsKnown {
  std::vector<MemberId> list;
};
struct CoordinatorFound {  // a connection to it is open
  MemberId host;
};
struct CoordinatorLeaves {};  // it has handed over and says so; CoordinatorGone follows
struct CoordinatorGone {};
struct DialFailed {  // nobody there, or not coordinating
  bool silent = false;  // or not heard of in time
};
struct JobHasBegun {};  // somebody has said that it holds a view: it is too late to found this job
struct HostExited {  // proof that this process has ended
  MemberId member;
  bool led = false;  // while the coordinator followed, or lost last, had a quorum (Engine::led)
};
struct StoodDown {};  // the coordinator here has, see CoordinatorReady
struct SuccessionTick {};
using SuccessionEvent =
    std::variant<SuccessorsKnown, CoordinatorFound, CoordinatorLeaves, CoordinatorGone, DialFailed,
                 JobHasBegun, HostExited, StoodDown, SuccessionTick>;

struct SuccessionReady {
  std::optional<MemberId> dial;  // invalid: the job's meeting point, since nobody is known yet
  bool take_over = false;
  TimeNs next_deadline = kNever;
};

class Succession {
 public:
  explicit Succession(SuccessionConfig config) : config_(config) {}

  void Step(TimeNs now, const SuccessionEvent& event);
  SuccessionReady TakeReady();

  bool hosting() const { return hosting_; }
  uint16_t incarnation() const { return config_.incarnation; }
  // Whose death this member saw while it followed a coordinator with a quorum, or right when it
  // lost it: they have numbered nothing without this member (rule Q4).
  const std::set<MemberId>& witnessed() const { return witnessed_; }

 private:
  void On(const SuccessorsKnown& event);
  void On(const CoordinatorFound& event);
  void On(const CoordinatorLeaves&);
  void On(const CoordinatorGone&);
  void On(const DialFailed& event);
  void On(const JobHasBegun&) { begun_ = true; }
  void On(const HostExited& event);
  void On(const StoodDown&);
  void On(const SuccessionTick&) {}

  bool Exited(MemberId id) const { return exited_.contains(id); }
  TimeNs TakeOverAt() const;
  int64_t Others() const;
  bool LooksFurther() const;
  MemberId NextToDial();
  MemberId NextInLastLook();
  void StepUp(SuccessionReady* ready);

  const SuccessionConfig config_;
  TimeNs now_ = 0;
  bool started_ = false;
  std::vector<MemberId> successors_;
  std::set<MemberId> exited_, witnessed_;
  std::optional<MemberId> host_;  // followed, or followed last
  bool following_ = false, hosting_ = false, dialling_ = false;
  bool last_look_ = false;  // along those who may be there, before it steps up itself
  bool sat_down_ = false;   // nobody listened: all others first
  int times_sat_down_ = 0;
  TimeNs began_at_ = 0, lost_at_ = 0, dial_at_ = 0;
  TimeNs gone_at_ = 0;  // when another one was lost
  size_t cursor_ = 0;
  int64_t tried_ = 0;  // in this round
  int64_t looked_ = 0;
  bool begun_ = false;
};

}  // namespace ftar::membership

#endif  // FTAR_MEMBERSHIP_SUCCESSION_H_
