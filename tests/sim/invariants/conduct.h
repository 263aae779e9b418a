// How one member behaves towards the others: what it may say, to whom, and when.
#ifndef FTAR_TESTS_SIM_INVARIANTS_CONDUCT_H_
#define FTAR_TESTS_SIM_INVARIANTS_CONDUCT_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "collective/types.h"
#include "wire/frame.h"
#include "wire/messages.h"

namespace ftar::sim {

// Functions that return a text return what is wrong, empty if nothing is.
class Conduct {
 public:
  explicit Conduct(TimeNs heartbeat_ns) : heartbeat_ns_(heartbeat_ns) {}

  // Quiet when healthy (contract 4): no word to the coordinator without an occasion, however many
  // operations are delivered; heartbeats keep their distance.
  void HasOccasion() { occasion_ = true; }
  std::string SaysToCoordinator(TimeNs now, const wire::Message& message);
  std::string Delivers();

  // Credit (rule F2): no frame of an era leaves before the receiver's credit for it. And each ack
  // that travels alone says something new (rule J6).
  void HearsCredit(MemberId from, Epoch era) { peers_[from].credit = era; }
  std::string Sends(MemberId to, const wire::FrameHeader& header);

  // Links (contract 5, rule F2): when a member tells its status its links to all who are out are
  // closed, and only those.
  void HearsPrepare(const wire::Prepare& prepare);
  Epoch prepared() const { return prepared_; }
  const std::set<MemberId>& prepared_members() const { return prepared_members_; }
  std::string Revokes(MemberId peer) const;
  std::string TellsStatus(const wire::View* view, MemberId self,
                          const std::set<MemberId>& revoked) const;

  // Leaving by error (rule Q8): who has given up says nothing any more.
  void GivesUp() { gave_up_ = true; }
  bool gave_up() const { return gave_up_; }

 private:
  struct Peer {
    Epoch credit = 0, ack_era = 0;
    std::map<GroupKey, Seq> acked;  // in that era
  };
  const TimeNs heartbeat_ns_;
  TimeNs last_beat_ = -1;
  bool occasion_ = true, spoke_ = false, gave_up_ = false, said_goodbye_ = false;
  std::unordered_map<MemberId, Peer> peers_;
  Epoch prepared_ = 0, prepared_before_ = 0;
  std::set<MemberId> prepared_members_, members_before_;
};

}  // namespace ftar::sim

#endif  // FTAR_TESTS_SIM_INVARIANTS_CONDUCT_H_
