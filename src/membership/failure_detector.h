// Who has gone quiet, who is stuck, who is late (design 5), from heartbeats alone.
//
// Think of a teacher with a class of pupils who do a puzzle together. Who neither speaks nor moves
// for `timeout` is *silent*. Who has all pieces in hand and does not lay one for `timeout` is
// *stuck*. Who has not come to the table while others wait is *late*: that is shown, but nobody is
// sent home for it unless `late_timeout` says so. And when the teacher herself dozed off, she does
// not punish the class for what she has not seen: time that she slept through counts for nobody.
// Nor does time in which she hears nobody at all: then it is her ears, unless that lasts very long.
//
// Pure: time is an argument of every call, and calls come at least once a heartbeat interval (see
// Advance). Single-threaded.
#ifndef FTAR_MEMBERSHIP_FAILURE_DETECTOR_H_
#define FTAR_MEMBERSHIP_FAILURE_DETECTOR_H_

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "wire/messages.h"

namespace ftar::membership {

// How many timeouts a coordinator that hears nobody, or few after its restart, takes that for a
// fault of its own network.
inline constexpr int kAloneTimeouts = 10;

struct Finding {
  enum class Kind : uint8_t {
    kSilent,       // evict
    kStuck,        // evict
    kLate,         // show
    kLateTooLong,  // evict: late_timeout is on and over
  };
  Kind kind = Kind::kSilent;
  MemberId member;
  GroupKey group = 0;  // kStuck, kLate*
  Seq seq = 0;
  TimeNs for_ns = 0;  // how long already
};

class FailureDetector {
 public:
  // `late_timeout_ns` 0: off. `enabled` false: nobody is ever found (fault tolerance is off,
  // members send no beats).
  void Configure(TimeNs timeout_ns, TimeNs late_timeout_ns, bool enabled);

  // From now on expected to beat, with a full timeout to begin with. Known members are left as they
  // are.
  void Watch(TimeNs now, MemberId member);
  void Forget(MemberId member);
  void Clear();

  bool enabled() const { return enabled_; }

  // Call first in every step. A gap of more than a quarter of the timeout beyond the beat interval
  // means that this process was stopped or the clock jumped: the gap is not counted. A clock that
  // goes back stands still.
  void Advance(TimeNs now);
  // That it has just slept through such a gap: who gave it up meanwhile is on the way back.
  bool JustWoke() const { return woke_at_ <= last_now_ && last_now_ - woke_at_ <= tick_ns(); }
  // How long those who gave this process up while it heard nobody have to come back: as long as
  // that lasted, and a timeout at least, counted from the first who is heard again. 0: it was not
  // so.
  TimeNs Grace() const;
  bool Deaf() const;            // it hears nobody, and not for so long that they must be dead
  void Heard(MemberId member);  // any message
  void Beat(MemberId member, const wire::Heartbeat& beat);

  // What became known since the last call; each member is found once per reason until something
  // about it changes.
  std::vector<Finding> Check();
  TimeNs NextCheck() const;  // in the caller's time
  // A view change stopped everybody for a while: progress, not silence, is counted anew.
  void Restart();
  // It has a reason to stand still: the clock starts again.
  void Excuse(MemberId member);

  // How long ago the member was heard; 0 if it is not watched.
  TimeNs SilentFor(MemberId member) const;
  // Heartbeats say: others wait for this member in an operation it has not entered, or it holds
  // everything and stands still.
  bool HoldsOthersUp(MemberId member) const;
  // The last beat of `reporter` says that it lacks data of `subject`.
  bool WaitsFor(MemberId reporter, MemberId subject) const;

 private:
  struct Watched {
    TimeNs heard = 0;  // all times here are awake_ time
    wire::Heartbeat beat;
    TimeNs moved = 0;    // the last change of any progress counter, or of what it waits for
    bool stuck = false;  // inside, lacks nothing, stands still since `moved`
    GroupKey stuck_group = 0;
    Seq stuck_seq = 0;
    bool silent_told = false, stuck_told = false;
    TimeNs late_since = kNever;
    GroupKey late_group = 0;
    Seq late_seq = 0;
    TimeNs late_told_after = 0;  // next notice when late for this long
    bool late_too_long_told = false;
  };
  TimeNs tick_ns() const { return std::max<TimeNs>(timeout_ns_ / 10, 1); }
  void FindLate();
  void CheckOne(MemberId id, Watched& watched, std::vector<Finding>* found);
  void CheckLate(MemberId id, Watched& watched, std::vector<Finding>* found);

  TimeNs timeout_ns_ = 10 * kSecond, late_timeout_ns_ = 0;
  bool enabled_ = true;
  bool advanced_ = false;
  TimeNs last_now_ = 0;
  TimeNs woke_at_ = kNever;
  TimeNs awake_ = 0;    // time this process was awake and heard somebody
  TimeNs quiet_ = 0;    // since anybody was heard
  TimeNs back_by_ = 0;  // the end of the grace, in the caller's time
  TimeNs next_check_ = 0;
  bool beats_changed_ = false;
  std::map<MemberId, Watched> members_;
};

}  // namespace ftar::membership

#endif  // FTAR_MEMBERSHIP_FAILURE_DETECTOR_H_
