// Who disagrees with a job of which nobody is here, and waits whether it goes on. A value;
// single-threaded.
#ifndef FTAR_MEMBERSHIP_DOOR_H_
#define FTAR_MEMBERSHIP_DOOR_H_

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "membership/coordinator_events.h"
#include "wire/messages.h"

namespace ftar::membership {

class Door {
 public:
  void Wait(ConnId conn, const wire::Hello& hello) { waiting_[conn] = hello; }
  // What it had said; nothing: it was not here.
  std::optional<wire::Hello> Leave(ConnId conn);
  std::map<ConnId, wire::Hello> Open() { return std::exchange(waiting_, {}); }

  bool empty() const { return waiting_.empty(); }
  std::vector<ConnId> Conns() const;
  // All of the job are here of which `one` is. Places of the job before that nobody of them would
  // take, since they have fewer replicas, are given up as well. `own_job` as in CheckHello.
  bool HasWholeJobOf(const wire::Hello& one, const std::string& own_job) const;

 private:
  std::map<ConnId, wire::Hello> waiting_;
};

}  // namespace ftar::membership

#endif  // FTAR_MEMBERSHIP_DOOR_H_
