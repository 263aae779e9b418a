// What the devices saw, told to the engine.
#include <algorithm>
#include <utility>
#include <vector>

#include "runtime/engine_driver.h"
#include "wire/codec.h"

namespace ftar::runtime {

using transport::Completion;
using transport::Device;

namespace {

constexpr size_t kPollBytes = 256 * 1024;  // bounds how long the lock is held
constexpr TimeNs kRedialNs = 500 * kMillisecond;

}  // namespace

bool EngineDriver::Poll(TimeNs now) {
  if (dropping_) return false;
  polled_ns_ = now;
  if (now >= redial_ns_) Redial(now);
  bool any = LookAtLane(now);
  any |= accelerator_ && PollAccelerator(now);
  for (const auto& device : devices_) {
    Guard([&] {
      completions_.clear();
      any |= device->Poll(now, kPollBytes, &completions_);
      never_up_.clear();
      for (Completion& completion : completions_) OnCompletion(now, *device, completion);
      for (const MemberId peer : never_up_) device->Forget(peer);
    });
    // What follows from it before the next device is looked at, which may cost a system call.
    if (!completions_.empty()) Run(now);
  }
  return any;
}

// An engine that broke in the middle of a step may hold an operation that is half made.
bool EngineDriver::LaneHasNews() {
  bool news = false;
  if (lane_ != nullptr) Guard([&] { news = engine_->HasLaneNews(); });
  return news;
}

bool EngineDriver::LookAtLane(TimeNs now) {
  if (!LaneHasNews()) return false;
  Feed(now, engine::Tick{});
  Run(now);
  return true;
}

void EngineDriver::OnCompletion(TimeNs now, Device& device, Completion& completion) {
  if (revoked_.Contains(completion.peer)) return;
  switch (completion.kind) {
    case Completion::Kind::kUp:
    case Completion::Kind::kAccepted: return OnLinkUp(now, device, completion);
    case Completion::Kind::kReceived: return OnReceived(now, completion);
    case Completion::Kind::kSent:
      NoteHandedOver(completion);
      return EndFlight(now, completion.cookie);
    case Completion::Kind::kPathLost:
      log_->Info("runtime", "path to " + ToString(completion.peer) + " lost: " + completion.text);
      return host_->OnPathLost(completion.peer, completion.status);
    case Completion::Kind::kDown: return OnLinkDown(now, device, completion);
    case Completion::Kind::kExited:
      Feed(now, engine::PeerExited{completion.peer});
      return host_->OnPeerExited(completion.peer);
  }
}

void EngineDriver::OnLinkUp(TimeNs now, Device& device, const Completion& completion) {
  Peer& peer = peers_[completion.peer];
  // A path of its link is back; what it has said meanwhile was not heard.
  if (peer.faulted && peer.link != nullptr) return;
  const bool was_up = std::exchange(peer.up, true);
  if (was_up && peer.device != &device) return;  // the first way found stays in use
  ++links_changed_;
  peer.device = &device;
  host_mates_ = host_mates_ || completion.link->shares_memory();
  peer.link = completion.link;
  peer.faulted = peer.late = false;
  if (was_up) return;  // a path is back: of a message that is under way nothing was lost
  peer.control.clear();
  Feed(now, engine::LinkIsUp{completion.peer, completion.link->wire_costs()});
}

void EngineDriver::OnReceived(TimeNs now, const Completion& completion) {
  const wire::FrameHeader& header = completion.header;
  const auto peer = peers_.find(completion.peer);
  const bool over = engine::IsOver(engine_->phase());
  const bool heard = peer != peers_.end() && !peer->second.faulted && !over;
  if (!heard) {
    completion.link->Release(completion.token);
    return;
  }
  if (header.payload_bytes != completion.payload.size() ||
      header.ext_bytes != completion.ext.size()) {
    completion.link->Release(completion.token);
    return LinkFault(now, completion.peer, Code::kCorrupt, "a frame's length is not its header's");
  }
  // The header in a ring's slot, and what pads ext and payload there to whole lines: behind a frame
  // that rests small ones fill a ring that would be called half empty otherwise.
  constexpr uint64_t kFrameOverhead = 128 + 2 * 64;
  Peer& sender = peer->second;
  const bool lent = completion.lent != nullptr;  // and takes no room in the link
  sender.received_bytes += kFrameOverhead + header.ext_bytes + (lent ? 0 : header.payload_bytes);
  KeepLinkMoving(sender);
  if (header.kind == wire::FrameKind::kControl) return OnControlFrame(now, &sender, completion);
  collective::InboundFrame frame;
  frame.from = completion.peer;
  frame.header = header;
  frame.lent = lent;
  frame.ext.assign(completion.ext.begin(), completion.ext.end());
  if (completion.payload.empty()) {
    completion.link->Release(completion.token);
  } else {
    Inbound inbound;
    inbound.from = completion.peer;
    inbound.link = completion.link;
    inbound.token = completion.token;
    inbound.payload = completion.payload;
    inbound.lent = completion.lent;
    inbound.on_device = completion.on_device;
    inbound.streamed = (header.flags & wire::kFrameStreamed) != 0;
    frame.inbound = inbound_.Add(inbound);
    sender.resting.push_back({frame.inbound, sender.received_bytes});
    KeepLinkMoving(sender);  // there may be no room for anything to rest
  }
  Feed(now, engine::FrameArrived{std::move(frame)});
}

void EngineDriver::OnControlFrame(TimeNs now, Peer* sender, const Completion& completion) {
  const wire::FrameHeader& header = completion.header;
  std::vector<std::byte>& begun = sender->control;
  if (header.offset != begun.size() ||
      completion.payload.size() > wire::kMessageBytesMax - begun.size()) {
    completion.link->Release(completion.token);
    return LinkFault(now, completion.peer, Code::kCorrupt, "a message's pieces do not fit");
  }
  // A peer may still write where its ring lies, and what was verified must be what is read.
  begun.insert(begun.end(), completion.payload.begin(), completion.payload.end());
  completion.link->Release(completion.token);
  if ((header.flags & wire::kFrameMore) != 0) return;
  Expected<wire::Message> message = wire::Decode(std::exchange(begun, {}));
  if (!message.ok()) {
    return LinkFault(now, completion.peer, Code::kCorrupt, message.status().text());
  }
  Feed(now, engine::FromPeer{completion.peer, std::move(message.value())});
}

// A peer that says what is no message is treated as one that cannot be reached: the coordinator
// decides what follows.
void EngineDriver::LinkFault(TimeNs now, MemberId peer, Code code, const std::string& text) {
  const auto found = peers_.find(peer);
  if (found != peers_.end()) {
    found->second.faulted = true;
    found->second.up = false;
  }
  log_->Warn("runtime", "link to " + ToString(peer) + ": " + text);
  Feed(now, engine::LinkIsDown{peer, code, text});
}

// Behind the one that does not reach this peer. False: there is none.
bool EngineDriver::TryNextDevice(TimeNs now, const Device& device, Peer* peer, const Status& why) {
  auto next =
      std::ranges::find_if(devices_, [&device](const auto& one) { return one.get() == &device; });
  if (next != devices_.end()) ++next;
  next = std::find_if(next, devices_.end(),
                      [peer](const auto& other) { return other->Reaches(peer->card); });
  if (next == devices_.end()) return false;
  // What the user can change is worth a word.
  log_->Log(why.code() == Code::kAuth ? LogLevel::kWarn : LogLevel::kInfo, "runtime",
            std::string(device.name()) + " does not reach " + ToString(peer->card.id) + ": " +
                why.text());
  peer->device = next->get();
  peer->link = peer->device->Connect(peer->card, now);
  return true;
}

void EngineDriver::OnLinkDown(TimeNs now, Device& device, const Completion& completion) {
  const auto found = peers_.find(completion.peer);
  if (found == peers_.end()) return never_up_.push_back(completion.peer);
  if (found->second.device != &device && found->second.up) return;
  Peer& peer = found->second;
  EndFlightsTo(now, completion.peer);
  const bool was_up = std::exchange(peer.up, false);
  ++links_changed_;
  peer.link = nullptr;
  peer.waiting.clear();
  peer.control.clear();
  // Nobody but this member is to blame, and the others wait for it.
  const Code code = completion.status.code();
  if (code == Code::kMemory || (code == Code::kSystem && was_up))
    return Fail(now, code, completion.status.text());
  // A way that never worked is no evidence against the peer while there is another one to try.
  const bool dialled_in_vain = !was_up && peer.card.id.valid();
  if (dialled_in_vain && TryNextDevice(now, device, &peer, completion.status)) return;
  // While this member joins, who does not answer may have stood still: nobody else dials it again,
  // and the first view waits for this link.
  const bool late = dialled_in_vain && engine_->phase() == engine::Phase::kJoining;
  if (late) redial_ns_ = std::min(redial_ns_, now + kRedialNs);
  if (late && std::exchange(peer.late, true)) return;  // the engine has heard that it is down
  std::string text = completion.status.text();
  if (text.empty()) text = completion.text;
  Feed(now,
       engine::LinkIsDown{completion.peer, completion.status.ok() ? Code::kLink : code, text});
}

// Devices are in order of preference: shared memory inside a host, tcp everywhere.
void EngineDriver::Redial(TimeNs now) {
  redial_ns_ = kNever;
  if (engine_->phase() != engine::Phase::kJoining) return;
  std::vector<wire::MemberCard> late;
  for (const auto& [id, peer] : peers_) {
    if (peer.late && peer.link == nullptr) late.push_back(peer.card);
  }
  for (const wire::MemberCard& card : late) ConnectPeer(now, card);
}

void EngineDriver::ConnectPeer(TimeNs now, const wire::MemberCard& card) {
  if (revoked_.Contains(card.id) || dropping_) return;
  Peer& peer = peers_[card.id];
  peer.card = card;
  if (peer.link != nullptr) return;
  for (const auto& device : devices_) {
    if (!device->Reaches(card)) continue;
    peer.device = device.get();
    peer.link = device->Connect(card, now);
    return;
  }
  Feed(now, engine::LinkIsDown{
                card.id, Code::kLink,
                "no transport of ours reaches " + card.host + " (" + card.addresses + ")"});
}

}  // namespace ftar::runtime
