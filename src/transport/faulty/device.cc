#include "transport/faulty/device.h"

#include <algorithm>

namespace ftar::transport::faulty {

FaultyDevice::FaultyDevice(std::unique_ptr<Device> inner, FaultPlan plan)
    : inner_(std::move(inner)),
      plan_(std::move(plan)),
      name_(std::string("faulty+") + inner_->name()) {}

FaultyLink* FaultyDevice::Wrap(MemberId peer, Link* inner) {
  auto& link = links_[peer];
  if (link == nullptr) link = std::make_unique<FaultyLink>(this, peer, inner);
  link->set_inner(inner);
  return link.get();
}

Link* FaultyDevice::Connect(const wire::MemberCard& peer, TimeNs now) {
  FaultyLink* link = Wrap(peer.id, inner_->Connect(peer, now));
  if (plan_.refuse_connects) {
    // The inner link exists but nobody will hear of it.
    link->Silence(true, true);
    Completion down;
    down.kind = Completion::Kind::kDown;
    down.link = link;
    down.peer = peer.id;
    down.status = Status(Code::kLink, "refused by fault injection");
    events_.push_back(std::move(down));
  }
  return link;
}

void FaultyDevice::Revoke(MemberId peer) {
  std::erase_if(events_, [&](const Completion& completion) { return completion.peer == peer; });
  inner_->Revoke(peer);
  links_.erase(peer);
}

void FaultyDevice::Forget(MemberId peer) {
  inner_->Forget(peer);
  if (inner_->Find(peer) != nullptr) return;
  std::erase_if(events_, [&](const Completion& completion) { return completion.peer == peer; });
  links_.erase(peer);
}

Link* FaultyDevice::Find(MemberId peer) {
  const auto it = links_.find(peer);
  if (it != links_.end()) return it->second.get();
  Link* inner = inner_->Find(peer);
  return inner == nullptr ? nullptr : Wrap(peer, inner);
}

bool FaultyDevice::Poll(TimeNs now, size_t budget_bytes, std::vector<Completion>* out) {
  bool any = false;
  for (auto& [peer, link] : links_) any = link->Pass(now) || any;
  scratch_.clear();
  any = inner_->Poll(now, budget_bytes, &scratch_) || any;
  std::move(events_.begin(), events_.end(), std::back_inserter(*out));
  any = any || !events_.empty();
  events_.clear();
  for (Completion& completion : scratch_) {
    if (Translate(&completion)) out->push_back(std::move(completion));
  }
  return any;
}

bool FaultyDevice::Translate(Completion* completion) {
  FaultyLink* link = Wrap(completion->peer, completion->link);
  if (completion->kind == Completion::Kind::kAccepted && plan_.refuse_connects)
    link->Silence(true, true);
  completion->link = link;
  // A death is proven by the kernel, whatever the network swallows.
  if (!link->deaf() || completion->kind == Completion::Kind::kExited) return true;
  if (completion->kind == Completion::Kind::kReceived) link->Release(completion->token);
  return false;
}

bool FaultyDevice::PrepareSleep() { return inner_->PrepareSleep() && events_.empty(); }

TimeNs FaultyDevice::next_deadline() const {
  TimeNs deadline = inner_->next_deadline();
  for (const auto& [peer, link] : links_) deadline = std::min(deadline, link->next_deadline());
  return deadline;
}

bool FaultyDevice::Disturb(MemberId peer, Disturbance what, TimeNs delay_ns) {
  bool any = false;
  for (auto& [id, link] : links_) {
    if (!peer.valid() || id == peer) any = DisturbLink(link.get(), what, delay_ns) || any;
  }
  return any;
}

bool FaultyDevice::DisturbLink(FaultyLink* link, Disturbance what, TimeNs delay_ns) {
  switch (what) {
    case Disturbance::kSilence: link->Silence(true, true); return true;
    case Disturbance::kSilenceOutgoing: link->Silence(true, false); return true;
    case Disturbance::kSilenceIncoming: link->Silence(false, true); return true;
    case Disturbance::kDelay: link->Delay(delay_ns); return true;
    case Disturbance::kResetPaths:
    case Disturbance::kCorruptNextFrame: return inner_->Disturb(link->peer(), what, delay_ns);
  }
  return false;
}

void FaultyDevice::FireRules(FaultyLink* link, uint64_t frame) {
  for (const FaultRule& rule : plan_.rules) {
    if (rule.at_frame != frame || (rule.peer.valid() && rule.peer != link->peer())) continue;
    DisturbLink(link, rule.what, rule.delay_ns);
  }
}

}  // namespace ftar::transport::faulty
