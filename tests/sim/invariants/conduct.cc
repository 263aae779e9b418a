#include "invariants/conduct.h"

#include <utility>

#include "wire/codec.h"

namespace ftar::sim {

namespace {

// These may come long after what caused them, or are caused by an operation itself: a call that
// differs (V5), a boundary passed (J3, J5).
bool NeedsNoOccasion(const wire::Message& message) {
  return std::holds_alternative<wire::AskPrepare>(message) ||
         std::holds_alternative<wire::LeaveReady>(message) ||
         std::holds_alternative<wire::Reserved>(message) ||
         std::holds_alternative<wire::Goodbye>(message);
}

}  // namespace

std::string Conduct::SaysToCoordinator(TimeNs now, const wire::Message& message) {
  if (gave_up_) {
    const bool goodbye = std::holds_alternative<wire::Goodbye>(message);
    if (goodbye && !std::exchange(said_goodbye_, true)) return "";
    if (std::holds_alternative<wire::Evidence>(message)) return "";  // of its links, which close
    return std::string("fencing: sends ") + wire::MessageName(message) + " after it has given up";
  }
  if (std::holds_alternative<wire::Heartbeat>(message)) {
    const bool early = last_beat_ >= 0 && now - last_beat_ < heartbeat_ns_;
    last_beat_ = now;
    return early ? "quiet: heartbeats come faster than agreed" : "";
  }
  if (const auto* refuse = std::get_if<wire::Refuse>(&message);
      refuse && refuse->epoch == prepared_) {
    prepared_ = prepared_before_;
    prepared_members_ = members_before_;
  }
  spoke_ = spoke_ || !NeedsNoOccasion(message);
  return "";
}

std::string Conduct::Delivers() {
  if (gave_up_) return "fencing: delivers after it has given up";
  const bool wrong = std::exchange(spoke_, false) && !occasion_;
  occasion_ = false;
  return wrong ? "quiet: speaks to the coordinator without an occasion" : "";
}

std::string Conduct::Sends(MemberId to, const wire::FrameHeader& header) {
  Peer& peer = peers_[to];
  if (peer.credit != header.era) {
    return "credit: a frame of op " + std::to_string(header.seq) + " for " + ToString(to) +
           " leaves without credit for its era";
  }
  if (header.kind != wire::FrameKind::kAck) return "";
  if (std::exchange(peer.ack_era, header.era) != header.era) peer.acked.clear();
  const auto [acked, fresh] = peer.acked.insert({header.group, header.complete_end});
  if (!fresh && acked->second >= header.complete_end)
    return "ack: says again what " + ToString(to) + " has been told";
  acked->second = header.complete_end;
  return "";
}

void Conduct::HearsPrepare(const wire::Prepare& prepare) {
  if (prepare.epoch <= prepared_) return;
  prepared_before_ = std::exchange(prepared_, prepare.epoch);
  members_before_ = prepared_members_;
  prepared_members_.clear();
  for (const wire::ViewEntry& entry : prepare.members) prepared_members_.insert(entry.card.id);
}

std::string Conduct::Revokes(MemberId peer) const {
  return prepared_members_.contains(peer)
             ? "links: closes the link to " + ToString(peer) + ", which stays"
             : "";
}

std::string Conduct::TellsStatus(const wire::View* view, MemberId self,
                                 const std::set<MemberId>& revoked) const {
  if (!view) return "";
  for (const wire::ViewEntry& entry : view->entries) {
    const MemberId id = entry.card.id;
    if (id == self || prepared_members_.contains(id) || revoked.contains(id)) continue;
    return "fencing: tells its status with the link to " + ToString(id) + " open, which is out";
  }
  return "";
}

}  // namespace ftar::sim
