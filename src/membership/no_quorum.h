// What is said while a quorum is lacking (rule Q4), and to whom yet; and how long a coordinator
// that can be replaced stays without one, before it makes room for one who may be heard by more. A
// value; single-threaded.
#ifndef FTAR_MEMBERSHIP_NO_QUORUM_H_
#define FTAR_MEMBERSHIP_NO_QUORUM_H_

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "base/ids.h"
#include "membership/coordinator_events.h"

namespace ftar::membership {

class NoQuorum {
 public:
  bool lacking() const { return lacking_; }
  const std::string& why() const { return why_; }
  // True: it was not lacking before; then all are to hear it.
  bool Begin(std::string why) {
    why_ = std::move(why);
    due_ = false;
    const bool news = !std::exchange(lacking_, true);
    if (news) heard_.clear();
    return news;
  }
  // False: it was not lacking.
  bool End() { return std::exchange(lacking_, false); }

  // A member is back on a new connection. Who was away when it was said waits as the others do, and
  // its waits are to end as theirs.
  void OnReconnect() { due_ = true; }
  bool due() const { return due_ && lacking_; }
  // Once a connection, while it is lacking.
  bool IsToHear(ConnId conn) { return heard_.insert(conn).second; }
  void Forget(ConnId conn) { heard_.erase(conn); }

  void StandDownBy(TimeNs at) { stand_down_at_ = std::min(stand_down_at_, at); }
  void StayUntil(TimeNs at) {
    if (stand_down_at_ != kNever) stand_down_at_ = std::max(stand_down_at_, at);
  }
  void Stay() { stand_down_at_ = kNever; }
  TimeNs stand_down_at() const { return stand_down_at_; }

 private:
  bool lacking_ = false;
  bool due_ = false;  // to those who have come since
  std::string why_;
  std::set<ConnId> heard_;
  TimeNs stand_down_at_ = kNever;
};

}  // namespace ftar::membership

#endif  // FTAR_MEMBERSHIP_NO_QUORUM_H_
