// Memory that the engine names: resolving with bounds, and giving back only what nobody reads any
// more.
#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/engine_driver.h"

namespace ftar::runtime {

using collective::BufferRef;

namespace {

// A valid address for references to nothing.
std::byte nothing[64];

bool Inside(const BufferRef& ref, uint64_t size) {
  return ref.offset <= size && ref.bytes <= size - ref.offset;
}

}  // namespace

std::byte* EngineDriver::Resolve(GroupKey group, const BufferRef& ref, bool write) {
  if (ref.bytes == 0) return nothing;
  switch (ref.kind) {
    case BufferRef::Kind::kSend:
    case BufferRef::Kind::kRecv: {
      const Op* op = host_->FindOp(group, ref.id);
      if (op == nullptr) return nullptr;
      const bool send = ref.kind == BufferRef::Kind::kSend;
      if (!Inside(ref, send ? op->send_bytes : op->recv_bytes)) return nullptr;
      // In place the engine undoes by writing to the receive side; the send side is never written
      // by that name.
      if (write && send && op->request.send != op->request.recv) return nullptr;
      void* const base = send ? const_cast<void*>(op->request.send) : op->request.recv;
      return static_cast<std::byte*>(base) + ref.offset;
    }
    case BufferRef::Kind::kStaging: {
      const auto found = staging_.find({group, ref.id});
      if (found == staging_.end() || !Inside(ref, found->second.bytes)) return nullptr;
      return found->second.block.data + ref.offset;
    }
    case BufferRef::Kind::kInbound: {
      const Inbound* found = inbound_.Find(ref.id);
      if (found == nullptr || write || !Inside(ref, found->payload.size())) return nullptr;
      return const_cast<std::byte*>(found->payload.data()) + ref.offset;
    }
    case BufferRef::Kind::kLane: {
      if (lane_ == nullptr || write) return nullptr;
      return const_cast<std::byte*>(InLane(group, ref));
    }
    case BufferRef::Kind::kNone: break;
  }
  return nullptr;
}

[[gnu::hot]] const std::byte* EngineDriver::InLane(GroupKey group, const BufferRef& ref) const {
  const int segment = collective::LaneSegment(ref.id);
  const transport::LaneMemory& memory = lane_->memory();
  if (collective::RoomOf(ref.id) == collective::LaneRoom::kShared) {
    const Op* const op = host_->FindOp(group, collective::LaneSeq(ref.id));
    return op != nullptr ? SharedBytes(*op, ref) : nullptr;
  }
  return memory.Input(segment, group, collective::LaneSeq(ref.id), ref.offset, ref.bytes);
}

std::optional<MemberId> EngineDriver::Spoiler(const collective::Work& work) {
  for (const collective::SourceRef& source : work.sources) {
    if (source.buffer.kind != BufferRef::Kind::kInbound) continue;
    const Inbound* inbound = inbound_.Find(source.buffer.id);
    if (inbound == nullptr || inbound->lent == nullptr) continue;
    if (inbound->link == nullptr || !inbound->link->Intact(inbound->token)) return inbound->from;
  }
  return {};
}

// Before the copy is made: whatever lands there later, this can be given back.
void EngineDriver::NoteSaved(GroupKey group, const BufferRef& from, const BufferRef& to) {
  const bool of_user = from.kind == BufferRef::Kind::kSend || from.kind == BufferRef::Kind::kRecv;
  if (!of_user || to.kind != BufferRef::Kind::kStaging || from.bytes == 0) return;
  if (Resolve(group, from, /*write=*/true) != nullptr) saved_.push_back({group, from, to});
}

// When memory has run out in the middle of a step, the engine does not know how far it has come. So
// what it has saved of users' buffers is put back without it, the oldest last, and it takes no
// memory.
void EngineDriver::RestoreInputs() {
  for (auto saved = saved_.rbegin(); saved != saved_.rend(); ++saved) {
    std::byte* const user = Resolve(saved->group, saved->user, /*write=*/true);
    const std::byte* const kept = Resolve(saved->group, saved->kept, /*write=*/false);
    if (user == nullptr || kept == nullptr) continue;
    if (OnDevice(saved->group, saved->user.id)) {
      static_cast<void>(accelerator_->Copy(user, kept, saved->kept.bytes));
    } else {
      std::memcpy(user, kept, saved->kept.bytes);
    }
  }
  saved_.clear();
}

void EngineDriver::FreeStaging(TimeNs now, GroupKey group, uint64_t id) {
  const auto found = staging_.find({group, id});
  if (found == staging_.end()) return;
  std::erase_if(saved_,
                [&](const Saved& saved) { return saved.group == group && saved.kept.id == id; });
  found->second.released = true;
  if (found->second.flights > 0) return;  // EndFlight gives it back
  GiveBlock(found->second.home, found->second.block, now);
  staging_.erase(found);
}

void EngineDriver::DropInbound(TimeNs now, uint64_t id) {
  Inbound& inbound = *inbound_.Find(id);
  if (inbound.link != nullptr) inbound.link->Release(inbound.token);
  GiveBlock(inbound.own_home, inbound.own, now);
  inbound_.Remove(id);
}

void EngineDriver::ReleaseInbound(TimeNs now, uint64_t id) {
  const Inbound* const inbound = inbound_.Find(id);
  if (inbound == nullptr) return;
  const auto peer = peers_.find(inbound->from);
  DropInbound(now, id);
  if (peer != peers_.end()) ForgetReleased(peer->second);
}

// What was brought elsewhere already stays there, and is in nobody's way.
void EngineDriver::DetachInbound(uint64_t id) {
  Inbound* inbound = inbound_.Find(id);
  if (inbound == nullptr || inbound->link == nullptr || inbound->own.data != nullptr) return;
  inbound->payload = inbound->link->Detach(inbound->token).payload;
}

void EngineDriver::ForgetReleased(Peer& peer) {
  while (!peer.resting.empty()) {
    if (inbound_.Find(peer.resting.front().inbound) != nullptr) return;
    peer.resting.pop_front();
  }
}

void EngineDriver::KeepLinkMoving(Peer& peer) {
  while (!peer.resting.empty() && peer.link != nullptr &&
         peer.received_bytes - peer.resting.front().received_bytes >= peer.link->hold_bytes_max()) {
    DetachInbound(peer.resting.front().inbound);
    peer.resting.pop_front();
    ForgetReleased(peer);
  }
}

uint64_t EngineDriver::StartFlight(MemberId to, GroupKey group, Seq seq, const BufferRef& payload) {
  const uint64_t cookie = flights_.Start({to, group, seq, payload});
  if (payload.kind == BufferRef::Kind::kStaging) ++staging_.at({group, payload.id}).flights;
  return cookie;
}

void EngineDriver::EndFlight(TimeNs now, uint64_t cookie) {
  if (const auto over = flights_.End(cookie)) LandFlight(now, *over);
}

template <typename Wanted>
void EngineDriver::EndFlights(TimeNs now, const Wanted& wanted) {
  for (size_t at = 0; const auto over = flights_.EndNext(&at, wanted);) LandFlight(now, *over);
}

void EngineDriver::EndFlightsTo(TimeNs now, MemberId peer) {
  EndFlights(now, [peer](const Flight& flight) { return flight.to == peer; });
}

// Its payload is read no more.
void EngineDriver::LandFlight(TimeNs now, const Flight& flight) {
  if (flight.payload.kind != BufferRef::Kind::kStaging) return;
  const auto found = staging_.find({flight.group, flight.payload.id});
  if (--found->second.flights == 0 && found->second.released)
    FreeStaging(now, flight.group, flight.payload.id);
}

std::byte* EngineDriver::PlaceFor(MemberId from, const wire::FrameHeader& header) {
  if (broken_ || failed_ || dropping_ || revoked_.Contains(from)) return nullptr;
  const std::optional<BufferRef> landing = engine_->LandingOf(from, header);
  if (!landing || InDeviceMemory(header.group, *landing)) return nullptr;
  const std::pair<GroupKey, Seq> op{header.group, header.seq};
  if (std::find(landing_.begin(), landing_.end(), op) == landing_.end()) landing_.push_back(op);
  return Resolve(header.group, *landing, true);
}

void EngineDriver::CancelSends(TimeNs now, GroupKey group, Seq seq) {
  const bool lands = std::erase(landing_, std::pair{group, seq}) > 0;
  if (flights_.empty() && !lands) return;
  DropWaiting(group, seq);
  for (const auto& [id, peer] : peers_) {
    if (peer.link != nullptr) peer.link->CancelOp(group, seq);
  }
  EndFlights(now, [&](const Flight& flight) { return flight.belongs_to(group, seq); });
}

void EngineDriver::FinishSends(GroupKey group, Seq seq) {
  std::erase(landing_, std::pair{group, seq});  // complete, so all has landed
  if (flights_.empty()) return;
  for (const auto& [id, peer] : peers_) {
    if (peer.link != nullptr) peer.link->FinishOp(group, seq);
  }
}

void EngineDriver::RevokePeer(TimeNs now, MemberId peer) {
  revoked_.Add(peer);
  LetGo(now, peer);
  // Should there be no memory in between, nobody follows a link that is gone.
  if (const auto found = peers_.find(peer); found != peers_.end() && found->second.link != nullptr)
    std::exchange(found->second.link, nullptr)->TakeBack();
  for (const auto& device : devices_) device->Revoke(peer);
  peers_.erase(peer);
}

void EngineDriver::ForgetPeer(TimeNs now, MemberId peer) {
  const auto found = peers_.find(peer);
  if (found == peers_.end() || found->second.link != nullptr) return;
  for (const auto& device : devices_) {
    const transport::Link* const link = device->Find(peer);
    if (link != nullptr && !link->down()) return;  // there is another way to it
  }
  LetGo(now, peer);
  for (const auto& device : devices_) device->Forget(peer);
  // Not the engine's to do, since its link may have begun anew meanwhile, and its lane with it.
  if (lane_ != nullptr) lane_->Drop(peer);
  peers_.erase(found);
}

// What the peer has sent whole and checksummed may still be needed by what runs; its memory is
// about to go.
void EngineDriver::LetGo(TimeNs now, MemberId peer) {
  EndFlightsTo(now, peer);
  inbound_.ForEach([&](Inbound& inbound) {
    if (inbound.from != peer || inbound.link == nullptr) return;
    if (inbound.lent != nullptr || inbound.own.data != nullptr) {
      // Its era is over with its sender; should something read it still, that does not count.
      inbound.link = nullptr;
      return;
    }
    inbound.own = pool_.Take(inbound.payload.size());
    inbound.link = nullptr;
    if (inbound.own.data == nullptr) {
      inbound.payload = {};
      return Fail(now, Code::kMemory, "no memory to keep what a lost peer has sent");
    }
    std::memcpy(inbound.own.data, inbound.payload.data(), inbound.payload.size());
    inbound.payload = {inbound.own.data, inbound.payload.size()};
  });
}

void EngineDriver::ForgetAll(TimeNs now) {
  const bool quiet = !accelerator_ || QuietAccelerator();
  // What was received is of no use any more; giving it back first spares the copies that a
  // revocation makes.
  inbound_.ForEach([&](Inbound& inbound) {
    if (inbound.link != nullptr) inbound.link->Release(inbound.token);
    GiveBlock(inbound.own_home, inbound.own, now);
  });
  inbound_.Clear();
  std::vector<MemberId> all;
  for (const auto& [id, peer] : peers_) all.push_back(id);
  for (const MemberId id : all) RevokePeer(now, id);
  // What has only waited for the GPU, or for its last send, is over, as it is for the others: there
  // is nothing left by which its input could come back.
  if (quiet && !broken_) DeliverFinished(now);
  deferred_.clear();  // the host ends what is left
}

}  // namespace ftar::runtime
