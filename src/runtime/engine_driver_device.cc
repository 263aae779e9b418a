// Operations in the GPU's memory: works become plans of the executor and are answered when it is
// through with them; what travels is brought to pinned memory first, what arrives is brought there
// before a kernel reads it.
#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "reduce/reduce.h"
#include "runtime/clock.h"
#include "runtime/engine_driver.h"

namespace ftar::runtime {

using collective::BufferRef;
using collective::Work;

namespace {

// Of blocks that the driver itself takes, beside those that the engine numbers.
constexpr uint64_t kStagedBit = uint64_t{1} << 63;
// A kernel stops at its next chunk, which is well below a millisecond.
// Links lend no less.
constexpr uint64_t kLentBytesMin = 4096;
constexpr TimeNs kQuietNs = 200 * kMillisecond;

// A GPU that does not move may go on one day, in the middle of reading this: if it were unmapped by
// then, the user's context would break.
void KeepForGood(std::shared_ptr<const void> memory) {
  static auto* const kept_mutex = new std::mutex;
  static auto* const kept = new std::vector<std::shared_ptr<const void>>;
  const std::lock_guard<std::mutex> lock(*kept_mutex);
  kept->push_back(std::move(memory));
}

std::string UnreadText(const Status& submitted, const Status& executor) {
  std::string why = submitted.ok() ? executor.text() : submitted.text();
  if (why.empty())
    why = "the GPU did not get to it in time; somebody's cudaFree may hold the driver";
  return "a peer's GPU memory could not be copied to the host: " + why;
}

bool Same(const BufferRef& a, const BufferRef& b) {
  return a.kind == b.kind && a.id == b.id && a.offset == b.offset && a.bytes == b.bytes;
}

}  // namespace

bool EngineDriver::OnDevice(GroupKey group, Seq seq) const {
  if (!accelerator_ || seq == kNoSeq) return false;
  const Op* const op = host_->FindOp(group, seq);
  return op != nullptr && op->request.on_device;
}

bool EngineDriver::InDeviceMemory(GroupKey group, const BufferRef& ref) {
  if (!accelerator_ || ref.bytes == 0) return false;
  switch (ref.kind) {
    case BufferRef::Kind::kSend:
    case BufferRef::Kind::kRecv: return OnDevice(group, ref.id);
    case BufferRef::Kind::kStaging: {
      const auto found = staging_.find({group, ref.id});
      return found != staging_.end() && found->second.home == Home::kDevice;
    }
    case BufferRef::Kind::kInbound:  // nobody sends on what has come
    case BufferRef::Kind::kLane:
    case BufferRef::Kind::kNone: break;
  }
  return false;
}

bool EngineDriver::LendsDevice(transport::Link* link, GroupKey group, const BufferRef& ref) {
  const bool of_user = ref.kind == BufferRef::Kind::kSend || ref.kind == BufferRef::Kind::kRecv;
  if (!of_user || ref.bytes <= kLentBytesMin) return false;
  const std::byte* const data = Resolve(group, ref, false);
  return data != nullptr && link->LendsDevice({data, ref.bytes});
}

StagingBlock EngineDriver::TakeBlock(Home home, size_t bytes) {
  return home == Home::kHost ? pool_.Take(bytes) : accelerator_->Take(home, bytes);
}

void EngineDriver::GiveBlock(Home home, StagingBlock block, TimeNs now) {
  if (home == Home::kHost) return pool_.Give(block, now);
  accelerator_->Give(home, block, now);
}

// ---- works

bool EngineDriver::PollAccelerator(TimeNs now) {
  bool any = accelerator_->Poll(now);
  if (const Status status = accelerator_->status(); !status.ok() && !failed_) {
    any = true;
    Fail(now, status.code(), status.text());
  }
  while (!device_works_.empty() && device_works_.front().number <= accelerator_->done()) {
    const DeviceWork done = std::move(device_works_.front());
    device_works_.pop_front();
    any = true;
    if (done.work.id == 0) continue;
    const std::optional<MemberId> spoiler = Spoiler(done.work);
    if (!spoiler) {
      Feed(now, engine::WorkDone{done.group, done.work.id});
      continue;
    }
    Feed(now, engine::WorkSpoiled{done.group, done.work.id});
    // A kernel may outlast the attempt it was begun for, whose loans all take back by right.
    if (!engine_->changing() && done.epoch == CurrentEpoch()) BlameSpoiler(now, *spoiler);
  }
  if (!any) return false;
  for (auto& [id, peer] : peers_) FlushWaiting(&peer);
  if (!deferred_.empty()) DeliverFinished(now);
  return true;
}

Epoch EngineDriver::CurrentEpoch() const {
  const collective::ViewPtr view = engine_->view();
  return view == nullptr ? 0 : view->epoch;
}

void EngineDriver::DoDeviceWork(TimeNs now, GroupKey group, const Work& work) {
  std::byte* const dst = Resolve(group, work.dst, true);
  if (dst == nullptr) {
    if (failed_) return;
    return Fail(now, Code::kInternal, OutsideText(group, work));
  }
  const Expected<uint64_t> number = SubmitWork(now, group, work, dst);
  if (!number.ok()) return Fail(now, number.status().code(), number.status().text());
  ++counters_.works;
  if (work.id == 0) {
    silent_number_ = *number;
    return;
  }
  DeviceWork& under_way =
      device_works_.emplace_back(DeviceWork{*number, group, work, CurrentEpoch(), {}});
  for (const collective::SourceRef& source : work.sources) {
    if (source.buffer.kind != BufferRef::Kind::kInbound) continue;
    const Inbound* const inbound = inbound_.Find(source.buffer.id);
    if (inbound != nullptr && inbound->on_device) under_way.lent.push_back(inbound->lent);
  }
}

Expected<uint64_t> EngineDriver::SubmitWork(TimeNs now, GroupKey group, const Work& work,
                                            std::byte* dst) {
  for (const collective::SourceRef& source : work.sources) {
    if (source.buffer.kind != BufferRef::Kind::kInbound || source.buffer.bytes == 0) continue;
    if (PinInbound(now, source.buffer.id)) continue;
    return Status(Code::kMemory, "no pinned memory for what a peer has sent");
  }
  const auto outside = [&] { return Status(Code::kInternal, OutsideText(group, work)); };
  if (work.kind == Work::Kind::kZero) return accelerator_->Zero(dst, work.dst.bytes);
  if (work.kind == Work::Kind::kCopy) {
    const BufferRef from = work.sources.empty() ? BufferRef{} : work.sources[0].buffer;
    const std::byte* const src = Resolve(group, from, false);
    if (src == nullptr || from.bytes != work.dst.bytes) return outside();
    NoteSaved(group, from, work.dst);
    if (src == dst) return accelerator_->submitted();
    return accelerator_->Copy(dst, src, from.bytes);
  }
  const bool final = work.kind == Work::Kind::kReduceFinal;
  const auto dtype = static_cast<reduce::Dtype>(work.dtype);
  const auto redop = static_cast<reduce::Redop>(work.redop);
  const reduce::Dtype format = final ? dtype : reduce::AccumulatorOf(dtype, redop);
  if (work.dst.bytes < work.count * reduce::ElementBytes(format) || !GatherSources(group, work)) {
    return outside();
  }
  return accelerator_->Reduce({.dtype = dtype,
                               .redop = redop,
                               .sources = sources_,
                               .divisor = work.divisor,
                               .scale = work.scale,
                               .to_partial = !final,
                               .dst = dst,
                               .count = work.count},
                              now);
}

// What has arrived lies where only the host can read it. Its link gets the room back at once.
bool EngineDriver::PinInbound(TimeNs now, uint64_t id) {
  Inbound* const inbound = inbound_.Find(id);
  if (inbound == nullptr || inbound->on_device) return true;  // Resolve says if it is not there
  if (inbound->own.data != nullptr && inbound->own_home == Home::kPinned) return true;
  const StagingBlock block = accelerator_->Take(Home::kPinned, inbound->payload.size());
  if (block.data == nullptr) return false;
  std::memcpy(block.data, inbound->payload.data(), inbound->payload.size());
  GiveBlock(inbound->own_home, inbound->own, now);
  inbound->own = block;
  inbound->own_home = Home::kPinned;
  inbound->payload = {block.data, inbound->payload.size()};
  // Of a lent payload the link is asked later whether it was still there when it was copied.
  if (inbound->link != nullptr && inbound->lent == nullptr) {
    inbound->link->Release(inbound->token);
    inbound->link = nullptr;
  }
  return true;
}

// An operation in the host's memory gets what lies in a peer's GPU: its caller and the peer's have
// different kinds of buffers. Rare, so that it waits for the GPU, whose launches somebody's
// cudaFree may keep for a while.
bool EngineDriver::FetchInbound(TimeNs now, const Work& work) {
  const TimeNs deadline = Now() + accelerator_->patience_ns();
  for (const collective::SourceRef& source : work.sources) {
    Inbound* const inbound =
        source.buffer.kind == BufferRef::Kind::kInbound ? inbound_.Find(source.buffer.id) : nullptr;
    if (inbound == nullptr || !inbound->on_device) continue;
    const StagingBlock block = accelerator_->Take(Home::kPinned, inbound->payload.size());
    if (block.data == nullptr) {
      Fail(now, Code::kMemory, "no pinned memory for what a peer has sent");
      return false;
    }
    const Expected<uint64_t> number =
        accelerator_->Copy(block.data, inbound->payload.data(), inbound->payload.size());
    const bool fetched = number.ok() && accelerator_->Drain(deadline - Now());
    inbound->own = block;
    inbound->own_home = Home::kPinned;
    inbound->payload = {block.data, inbound->payload.size()};
    inbound->on_device = false;
    if (fetched) continue;
    Fail(now, Code::kDevice, UnreadText(number.status(), accelerator_->status()));
    return false;
  }
  return true;
}

// ---- frames

// Brings the payload to pinned memory; returns the number of the plan that does.
Expected<uint64_t> EngineDriver::Stage(TimeNs now, GroupKey group,
                                       const collective::SendFrame& frame, BufferRef* staged) {
  const BufferRef& from = frame.payload;
  const bool again = staged_.group == group && Same(staged_.from, from) &&
                     staged_.number == accelerator_->submitted() &&
                     staging_.contains({group, staged_.to.id});
  if (again) {
    *staged = staged_.to;
    return staged_.number;
  }
  const std::byte* const data = Resolve(group, from, false);
  if (data == nullptr) {
    return Status(Code::kInternal, "a send reaches outside of its buffer");
  }
  const uint64_t id = kStagedBit | next_staged_++;
  Staging& place = staging_[{group, id}];
  place = {accelerator_->Take(Home::kPinned, from.bytes), Home::kPinned, from.bytes, 0, true};
  if (place.block.data == nullptr) {
    staging_.erase({group, id});
    return Status(Code::kMemory, "no pinned memory for what is sent");
  }
  const Expected<uint64_t> number = accelerator_->Copy(place.block.data, data, from.bytes);
  if (!number.ok()) {
    FreeStaging(now, group, id);
    return number;
  }
  *staged = {BufferRef::Kind::kStaging, id, 0, from.bytes};
  staged_ = {group, from, *staged, *number};
  return number;
}

void EngineDriver::SendStaged(TimeNs now, Peer* peer, GroupKey group,
                              const collective::SendFrame& frame) {
  collective::SendFrame copy = frame;
  const Expected<uint64_t> number = Stage(now, group, frame, &copy.payload);
  if (!number.ok()) return Fail(now, number.status().code(), number.status().text());
  SendBehind(peer, group, copy, *number);
}

void EngineDriver::SendBehind(Peer* peer, GroupKey group, const collective::SendFrame& frame,
                              uint64_t number) {
  const bool has_payload = frame.payload.bytes > 0;
  const uint64_t cookie =
      has_payload ? StartFlight(frame.to, group, frame.header.seq, frame.payload) : 0;
  peer->waiting.push_back({number, cookie, group, frame, {}});
  FlushWaiting(peer);
}

void EngineDriver::FlushWaiting(Peer* peer) {
  while (!peer->waiting.empty() && peer->waiting.front().number <= accelerator_->done()) {
    const Peer::Waiting next = std::move(peer->waiting.front());
    peer->waiting.pop_front();
    if (peer->link == nullptr) continue;
    sent_ = true;
    if (!next.control.empty()) {
      peer->link->Send(next.frame.header, {}, next.control, true, 0);
      continue;
    }
    const BufferRef& payload = next.frame.payload;
    const std::byte* const data =
        payload.bytes == 0 ? nullptr : Resolve(next.group, payload, false);
    const bool copy = next.cookie == 0;
    peer->link->Send(next.frame.header, next.frame.ext, {data, payload.bytes}, copy, next.cookie);
  }
}

// Their flights are ended by the caller.
void EngineDriver::DropWaiting(GroupKey group, Seq seq) {
  for (auto& [id, peer] : peers_) {
    std::erase_if(peer.waiting, [&](const Peer::Waiting& waiting) {
      return waiting.control.empty() && waiting.group == group && waiting.frame.header.seq == seq;
    });
  }
}

// ---- the end

// This member is out, and its user's memory is the user's again: nothing of ours touches it any
// more, unless the GPU itself has failed. True: all is done that it was given.
bool EngineDriver::QuietAccelerator() {
  std::deque<DeviceWork> works = std::exchange(device_works_, {});
  if (accelerator_->Drain(kQuietNs)) return true;
  accelerator_->Abort();
  // What puts inputs in place back is a copy like others.
  log_->Error("runtime", "the GPU did not do in " + std::to_string(kQuietNs / kMillisecond) +
                             " ms what it was given, and it was dropped: an operation in place in "
                             "its memory that now fails may leave part of a sum in its buffer");
  if (accelerator_->Drain(kQuietNs)) return false;
  for (const DeviceWork& work : works) {
    for (const auto& lent : work.lent) KeepForGood(lent);
  }
  if (accelerator_->status().ok())
    log_->Error("runtime", "the GPU does not let go of what it was given");
  return false;
}

}  // namespace ftar::runtime
