#include "runtime/engine_driver.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/copy.h"
#include "plan/grid.h"
#include "reduce/reduce.h"
#include "runtime/clock.h"
#include "wire/codec.h"

namespace ftar::runtime {
namespace {

using collective::BufferRef;
using collective::Todo;
using collective::Work;

// Below this a copy is cheaper than remembering who still reads the bytes.
constexpr size_t kCopyBytesMax = 1024;
// A ring takes frames of half its size: of a member with many groups the Status of a view change
// may be larger.
constexpr size_t kControlPieceMin = 1024, kControlPieceMax = 256 * 1024;
constexpr size_t kStagingCachedMax = 256u << 20;
// A new one has to be shown to all the others first.
constexpr TimeNs kAsidesIdle = 60 * kSecond;
constexpr TimeNs kDevicePollNs = 20 * kMicrosecond;
constexpr TimeNs kRetryNs = 10 * kMillisecond;  // giving up without memory

uint64_t LargestCacheBytes() {
  long bytes = 0;
#if defined(_SC_LEVEL3_CACHE_SIZE)
  bytes = std::max(sysconf(_SC_LEVEL2_CACHE_SIZE), sysconf(_SC_LEVEL3_CACHE_SIZE));
#endif
  constexpr uint64_t kUsual = 32u << 20;
  return bytes > 0 ? static_cast<uint64_t>(bytes) : kUsual;
}

}  // namespace

EngineDriver::EngineDriver(engine::Config config, Devices devices,
                           std::shared_ptr<transport::ExportedMemory> exports, HostLane* lane,
                           DriverHost* host, const Logger* log)
    : control_piece_bytes_(std::clamp<size_t>(plan::PieceBytesMax(config.group.chunk_bytes),
                                              kControlPieceMin, kControlPieceMax)),
      engine_(std::make_unique<engine::Engine>(std::move(config))),
      devices_(std::move(devices)),
      exports_(std::move(exports)),
      lane_(lane),
      host_(host),
      log_(log),
      cached_bytes_max_(LargestCacheBytes() / 4),
      pool_(kStagingCachedMax),
      asides_(exports_) {
  for (const auto& device : devices_) device->SetPlacer(this);
}

EngineDriver::~EngineDriver() {
  // The pool owns only what it was given back.
  for (auto& [key, staging] : staging_) GiveBlock(staging.home, staging.block, 0);
  inbound_.ForEach([&](Inbound& inbound) { GiveBlock(inbound.own_home, inbound.own, 0); });
  pool_.Give(fast_result_, 0);
}

void EngineDriver::Fail(TimeNs now, Code code, const std::string& text) {
  if (failed_) return;
  failed_ = true;
  log_->Error("runtime", text);
  Step(now, engine::AbortSelf{code, text});
}

void EngineDriver::StrikeNow(FaultStage stage, Seq seq, int64_t chunk, MemberId peer) {
  const std::optional<FaultKind> kind = hook_.At(stage, seq, chunk);
  using Disturbance = transport::Device::Disturbance;
  // As a network that resets connections: the paths of all links go, the peers live.
  if (kind == FaultKind::kReset) DisturbLinks(Disturbance::kResetPaths, {});
  if (kind == FaultKind::kCorrupt) DisturbLinks(Disturbance::kCorruptNextFrame, peer);
  if (kind == FaultKind::kDrop) dropping_ = true;
}

// Of all peers if `peer` is none.
void EngineDriver::DisturbLinks(transport::Device::Disturbance what, MemberId peer) {
  for (const auto& [id, entry] : peers_) {
    if (entry.device == nullptr || (peer.valid() && id != peer)) continue;
    if (!entry.device->Disturb(id, what)) {
      log_->Error("runtime", std::string("FTAR_TEST_FAULT: ") + entry.device->name() +
                                 " has nothing that this could strike at");
    }
  }
}

void EngineDriver::StrikeAtStability() {
  const std::optional<Seq> seq = hook_.seq_at(FaultStage::kStability);
  if (!seq || hook_group_ == 0) return;
  if (std::strcmp(engine_->OpStage(hook_group_, *seq), "stability") == 0) {
    Strike(FaultStage::kStability, *seq, -1);
  }
}

void EngineDriver::Run(TimeNs now) {
  // An engine that was told nothing since has nothing to say.
  while (!broken_ && stepped_) {
    ready_.Clear();
    stepped_ = false;
    Guard([&] { engine_->TakeReady(&ready_); });
    next_deadline_ = ready_.next_deadline;
    if (ready_.empty()) break;
    // What it says besides works and frames may be half of what it has to say.
    stepped_ = ready_.decides();
    Guard([&] { Execute(now, ready_); });
    ExecuteTodos(now, ready_);
    if (hook_.armed()) StrikeAtStability();
  }
  if (!gathering_) WriteSent(now);
  if (!deferred_.empty()) DeliverFinished(now);
  if (broken_) {
    RestoreInputs();
    next_deadline_ = now + kRetryNs;
  }
  if (now - last_trim_ns_ > kSecond) {
    last_trim_ns_ = now;
    pool_.Trim(now, 2 * kSecond);
    asides_.Trim(now, kAsidesIdle);
  }
}

void EngineDriver::WriteSent(TimeNs now) {
  if (!std::exchange(sent_, false)) return;
  Guard([&] {
    for (const auto& device : devices_) device->Flush(now);
  });
}

// Kept: to a member of the view before that stays in this one.
void EngineDriver::CountKeptLinks() {
  const collective::ViewPtr view = engine_->view();
  counters_.links_kept = 0;
  for (auto& [id, peer] : peers_) {
    const wire::ViewEntry* entry = view ? view->Find(id) : nullptr;
    const bool stays = entry != nullptr && !entry->leaves();
    if (std::exchange(peer.member, stays) && stays && peer.up) ++counters_.links_kept;
  }
}

void EngineDriver::Execute(TimeNs now, engine::Ready& ready) {
  // F2: whoever is out is forgotten before anybody hears that we know of it.
  for (const MemberId peer : ready.revoke) RevokePeer(now, peer);
  for (const MemberId peer : ready.forget) ForgetPeer(now, peer);
  if (ready.view_changed) {
    CountKeptLinks();
    host_->OnViewChanged();
  }
  for (const engine::Started& started : ready.started) host_->OnStarted(started);
  if (!dropping_) {
    for (const wire::Message& message : ready.to_coordinator) host_->SendToCoordinator(message);
  }
  for (const wire::MemberCard& card : ready.connect) ConnectPeer(now, card);
  for (const engine::PeerMessage& message : ready.to_peers) SendControl(message);
}

void EngineDriver::ExecuteTodos(TimeNs now, engine::Ready& ready) {
  for (engine::GroupTodo& todo : ready.todo)
    Guard([&] { ExecuteTodo(now, todo.group, todo.todo); });
  Guard([&] {
    if (ready.step) host_->OnStep(*ready.step);
    for (const engine::Notice& notice : ready.notices) host_->OnNotice(notice);
  });
}

void EngineDriver::Break() {
  failed_ = true;
  next_deadline_ = 0;  // the host has to hear of it
  if (std::exchange(broken_, true)) return;
  if (lane_ != nullptr) lane_->RaiseFrozen(~Epoch{0});
  for (const auto& [id, peer] : peers_) {
    if (peer.link != nullptr) peer.link->TakeBack();
  }
}

void EngineDriver::Abandon(TimeNs now, const Status& why) {
  Step(now, engine::AbortSelf{why.code(), why.text()});
  engine::Ready ready = engine_->TakeReady();
  for (const wire::Message& message : ready.to_coordinator) host_->SendToCoordinator(message);
  ExecuteTodos(now, ready);
}

void EngineDriver::ExecuteTodo(TimeNs now, GroupKey group, Todo& todo) {
  hook_group_ = group;
  switch (todo.kind) {
    case Todo::Kind::kAllocate: return Allocate(now, group, todo);
    case Todo::Kind::kFree: return FreeStaging(now, group, todo.id);
    case Todo::Kind::kWork: return DoWork(now, group, todo.work());
    case Todo::Kind::kSend: return SendFrame(now, group, todo.frame());
    case Todo::Kind::kPublish: return Publish(now, group, todo.publication());
    case Todo::Kind::kTell:
      TellWords(group, todo.words());
      return Announce();
    case Todo::Kind::kAdopt: return AdoptFast(group, todo.seq, todo.id);
    case Todo::Kind::kReleaseInbound: return ReleaseInbound(now, todo.id);
    case Todo::Kind::kCancelSends: return CancelSends(now, group, todo.id);
    case Todo::Kind::kFinishSends: return FinishSends(group, todo.id);
    case Todo::Kind::kDeliver: return Deliver(now, group, std::move(todo.outcome()));
  }
}

void EngineDriver::SendControl(const engine::PeerMessage& message) {
  const auto found = peers_.find(message.to);
  if (found == peers_.end() || found->second.link == nullptr || dropping_) {
    ++counters_.frames_unroutable;
    return;
  }
  const std::vector<std::byte> bytes = wire::Encode(message.message);
  for (size_t at = 0; at < bytes.size(); at += control_piece_bytes_) {
    const size_t rest = bytes.size() - at;
    SendControlPiece(&found->second, at, rest > control_piece_bytes_,
                     std::span(bytes).subspan(at, std::min(rest, control_piece_bytes_)));
  }
}

void EngineDriver::SendControlPiece(Peer* peer, uint64_t offset, bool more,
                                    std::span<const std::byte> bytes) {
  wire::FrameHeader header;
  header.kind = wire::FrameKind::kControl;
  header.flags = more ? wire::kFrameMore : 0;
  header.offset = offset;
  header.payload_bytes = static_cast<uint32_t>(bytes.size());
  if (!peer->waiting.empty()) {
    Peer::Waiting& behind = peer->waiting.emplace_back();
    behind.frame.header = header;
    behind.control.assign(bytes.begin(), bytes.end());
    return;
  }
  peer->link->Send(header, {}, bytes, true, 0);
  sent_ = true;
}

void EngineDriver::SendFrame(TimeNs now, GroupKey group, const collective::SendFrame& frame) {
  const wire::FrameKind kind = frame.header.kind;
  // Whoever completes last is stable at once: then the latest moment is that before its
  // acknowledgement leaves.
  const std::optional<Seq> stability = hook_.seq_at(FaultStage::kStability);
  if (stability && frame.header.complete_end > *stability) {
    Strike(FaultStage::kStability, *stability, -1);
  }
  if (hook_.armed() && kind != wire::FrameKind::kAck) {
    const bool final = kind == wire::FrameKind::kFinal;
    Strike(final ? FaultStage::kGathering : FaultStage::kSending, frame.header.seq,
           frame.header.chunk, frame.to);
  }
  const auto found = peers_.find(frame.to);
  if (found == peers_.end() || found->second.link == nullptr || dropping_) {
    ++counters_.frames_unroutable;
    return;
  }
  const BufferRef& payload = frame.payload;
  if (InDeviceMemory(group, payload)) {
    const bool lent = LendsDevice(found->second.link, group, payload);
    if (!lent) return SendStaged(now, &found->second, group, frame);
    return SendBehind(&found->second, group, frame, silent_number_);
  }
  const std::byte* data = nullptr;
  if (payload.bytes > 0) {
    data = Resolve(group, payload, false);
    if (data == nullptr) return Fail(now, Code::kInternal, "a send reaches outside of its buffer");
  }
  if (!found->second.waiting.empty() && kind != wire::FrameKind::kAck) {
    return SendBehind(&found->second, group, frame, 0);
  }
  const bool copy = frame.copied || payload.bytes <= kCopyBytesMax;
  const uint64_t cookie = copy ? 0 : StartFlight(frame.to, group, frame.header.seq, payload);
  wire::FrameHeader header = frame.header;
  ChooseWay(group, *found->second.link, &header, payload.bytes);
  found->second.link->Send(header, frame.ext, {data, payload.bytes}, copy, cookie);
  sent_ = true;
}

void EngineDriver::Publish(TimeNs now, GroupKey group, const collective::Publication& said) {
  if (dropping_) return;
  const std::byte* const data = Resolve(group, said.input, false);
  if (said.input.bytes > 0 && data == nullptr)
    return Fail(now, Code::kInternal, "a line's input is outside of its buffer");
  PublishInput(group, said.line, {data, said.input.bytes});
  Announce();
}

void EngineDriver::TellWords(GroupKey group, const collective::LaneWords& words) {
  if (dropping_) return;
  lane_->memory().Tell(group, words.seq, words.made, words.done);
}

void EngineDriver::NoteLine(const wire::LaneLine& line, uint64_t input_bytes) {
  ++counters_.lines;
  counters_.bytes_moved += 2 * input_bytes;
  Strike(FaultStage::kSending, line.seq, -1);
}

void EngineDriver::Announce() {
  lane_->memory().FullFence();
  Nudge();
}

void EngineDriver::Nudge() {
  lane_->memory().ForSleepers([this](MemberId id) { NudgeOne(id); });
}

[[gnu::noinline]] void EngineDriver::NudgeOne(MemberId id) {
  const auto it = peers_.find(id);
  if (it != peers_.end() && it->second.link != nullptr) it->second.link->Nudge();
}

void EngineDriver::Allocate(TimeNs now, GroupKey group, const Todo& todo) {
  const Home home = OnDevice(group, todo.seq) ? Home::kDevice : Home::kHost;
  // The place first: nobody would own a block without one.
  Staging& staging = staging_[{group, todo.id}];
  staging = {TakeBlock(home, todo.bytes), home, todo.bytes, 0, false};
  if (staging.block.data != nullptr) return;
  staging_.erase({group, todo.id});
  Fail(now, Code::kMemory, "no memory for " + std::to_string(todo.bytes) + " bytes of staging");
}

bool EngineDriver::GatherSources(GroupKey group, const Work& work) {
  const auto dtype = static_cast<reduce::Dtype>(work.dtype);
  const reduce::Dtype wide = reduce::AccumulatorOf(dtype, static_cast<reduce::Redop>(work.redop));
  sources_.clear();
  for (const collective::SourceRef& source : work.sources) {
    const reduce::Dtype format = source.partial ? wide : dtype;
    if (source.buffer.bytes < work.count * reduce::ElementBytes(format)) return false;
    const std::byte* data = Resolve(group, source.buffer, false);
    if (data == nullptr) return false;
    sources_.push_back({data, format, source.weight});
  }
  return true;
}

// What lands in a user's large buffer, or is saved from it, is not read again while it is in the
// caches.
void EngineDriver::CopyBytes(GroupKey group, const Work& work, const std::byte* src,
                             std::byte* dst) {
  const BufferRef& from = work.sources[0].buffer;
  const bool lands =
      from.kind == BufferRef::Kind::kInbound && work.dst.kind == BufferRef::Kind::kRecv;
  const bool saves =
      from.kind == BufferRef::Kind::kRecv && work.dst.kind == BufferRef::Kind::kStaging;
  if (!lands && !saves) {
    std::memmove(dst, src, from.bytes);  // of a user's own buffers, which may overlap
    return;
  }
  const Op* const op = host_->FindOp(group, work.seq);
  Copy(dst, src, from.bytes, op != nullptr ? ReadMode(*op) : CopyMode::kCached);
}

// What is longer than the caches hold has left them when its user reads it.
CopyMode EngineDriver::ReadMode(const Op& op) const {
  return op.recv_bytes > cached_bytes_max_ ? CopyMode::kStream : CopyMode::kCached;
}

// By pieces that stay in the caches: byte by byte g++ makes no vectors of it. Saved first, which
// may fail for want of memory.
bool EngineDriver::Exchange(GroupKey group, const Work& work, std::byte* dst) {
  const BufferRef& kept = work.sources[0].buffer;
  std::byte* src = Resolve(group, kept, /*write=*/true);
  if (src == nullptr || kept.bytes != work.dst.bytes) return false;
  NoteSaved(group, work.dst, kept);
  std::array<std::byte, 512> held;
  for (size_t at = 0; at < kept.bytes; at += held.size()) {
    const size_t bytes = std::min(held.size(), kept.bytes - at);
    std::memcpy(held.data(), dst + at, bytes);
    std::memcpy(dst + at, src + at, bytes);
    std::memcpy(src + at, held.data(), bytes);
  }
  return true;
}

// For the report of a defect: which of a work's buffers is not there.
std::string EngineDriver::OutsideText(GroupKey group, const Work& work) {
  const auto describe = [&](const BufferRef& ref, bool write) {
    static constexpr const char* kNames[] = {"none", "send", "recv", "staging", "inbound", "lane"};
    return std::string(Resolve(group, ref, write) == nullptr ? "absent " : "") +
           kNames[static_cast<size_t>(ref.kind)] + " " + std::to_string(ref.id) + " [" +
           std::to_string(ref.offset) + ", +" + std::to_string(ref.bytes) + "]";
  };
  std::string text = "a work of operation " + std::to_string(work.seq) +
                     " reaches outside of its buffers: " + describe(work.dst, true) + " from";
  for (const collective::SourceRef& source : work.sources)
    text += " " + describe(source.buffer, false);
  return text;
}

// It reads what others share in the lane.
bool EngineDriver::IsShare(const Work& work) {
  return std::any_of(work.sources.begin(), work.sources.end(), [](const auto& source) {
    return source.buffer.kind == BufferRef::Kind::kLane &&
           collective::RoomOf(source.buffer.id) == collective::LaneRoom::kShared;
  });
}

// False: one of its buffers is not there, or too short.
bool EngineDriver::ReduceWork(GroupKey group, const Work& work, std::byte* dst) {
  const auto dtype = static_cast<reduce::Dtype>(work.dtype);
  const auto redop = static_cast<reduce::Redop>(work.redop);
  const bool final = work.kind == Work::Kind::kReduceFinal;
  const reduce::Dtype format = final ? dtype : reduce::AccumulatorOf(dtype, redop);
  if (work.dst.bytes < work.count * reduce::ElementBytes(format) || !GatherSources(group, work))
    return false;
  if (!final) {
    reduce::ReduceToPartial(dtype, redop, sources_, dst, work.count);
    return true;
  }
  const Op* const op = host_->FindOp(group, work.seq);
  ReduceResult(op, work, dst);
  if (op != nullptr && work.shown) PutAside(*op, work.dst.offset, work.dst.bytes);
  return true;
}

// Whether it could be, all within its buffers, and whether bytes were moved for it.
EngineDriver::Carried EngineDriver::CarryOut(GroupKey group, const Work& work, std::byte* dst) {
  switch (work.kind) {
    case Work::Kind::kReduceFinal:
    case Work::Kind::kReducePartial:
      return ReduceWork(group, work, dst) ? Carried::kMoved : Carried::kOutside;
    case Work::Kind::kCopy: {
      const BufferRef from = work.sources.empty() ? BufferRef{} : work.sources[0].buffer;
      const std::byte* const src = Resolve(group, from, false);
      if (src == nullptr || from.bytes != work.dst.bytes) return Carried::kOutside;
      NoteSaved(group, from, work.dst);
      if (src == dst) return Carried::kInPlace;
      CopyBytes(group, work, src, dst);
      return Carried::kMoved;
    }
    case Work::Kind::kExchange:
      return Exchange(group, work, dst) ? Carried::kMoved : Carried::kOutside;
    case Work::Kind::kZero: std::memset(dst, 0, work.dst.bytes); return Carried::kMoved;
  }
  return Carried::kOutside;
}

void EngineDriver::DoWork(TimeNs now, GroupKey group, const Work& work) {
  const bool reduces =
      work.kind == Work::Kind::kReduceFinal || work.kind == Work::Kind::kReducePartial;
  if (hook_.armed() && (reduces || work.kind == Work::Kind::kCopy)) {
    Strike(reduces ? FaultStage::kReducing : FaultStage::kGathering, work.seq, -1);
  }
  // Whoever gives up still saves what it must restore, and restores it; nobody waits for those.
  if (failed_ && work.id != 0) return;
  if (OnDevice(group, work.seq)) return DoDeviceWork(now, group, work);
  if (accelerator_ && !FetchInbound(now, work)) return;
  std::byte* const dst = Resolve(group, work.dst, true);
  const bool timed = host_mates_ && work.dst.bytes >= kHandOverMinBytes;
  const TimeNs begin = timed ? Now() : 0;
  const Carried carried = dst != nullptr ? CarryOut(group, work, dst) : Carried::kOutside;
  if (carried == Carried::kOutside) {
    if (failed_) return;
    // What others share is not mapped any more where a link is gone: somebody is out.
    if (IsShare(work)) return Step(now, engine::WorkSpoiled{group, work.id});
    return Fail(now, Code::kInternal, OutsideText(group, work));
  }
  ++counters_.works;
  if (carried == Carried::kMoved) NoteMoved(work);
  if (timed) NoteRead(group, work, Now() - begin);
  if (work.id == 0) return;
  if (const std::optional<MemberId> spoiler = Spoiler(work)) {
    Step(now, engine::WorkSpoiled{group, work.id});
    return BlameSpoiler(now, *spoiler);
  }
  Step(now, engine::WorkDone{group, work.id});
}

void EngineDriver::NoteMoved(const Work& work) {
  counters_.bytes_moved += work.dst.bytes;
  for (const collective::SourceRef& source : work.sources)
    counters_.bytes_moved += source.buffer.bytes;
}

// A living peer takes back only what it has no operation for any more: it is out, and will be told
// or has been. Should it be wrong about that, the coordinator hears of it from here.
void EngineDriver::BlameSpoiler(TimeNs now, MemberId by) {
  const auto peer = peers_.find(by);
  if (peer == peers_.end() || peer->second.faulted) return;
  LinkFault(now, by, Code::kLink, "it took memory back that was still being read");
}

void EngineDriver::Deliver(TimeNs now, GroupKey group, collective::Outcome outcome) {
  const Seq seq = outcome.seq;
  // Normally nothing is in flight here: with fault tolerance the engine has cancelled it. Without,
  // the buffers stay ours until the last send has left.
  const uint64_t number = OnDevice(group, seq) ? accelerator_->submitted() : 0;
  if (WaitsBehind(group, deferred_.end()) || !IsFree(group, seq, number)) {
    deferred_.push_back({group, number, std::move(outcome)});
    return;
  }
  DeliverNow(now, group, std::move(outcome));
}

void EngineDriver::DeliverNow(TimeNs now, GroupKey group, collective::Outcome&& outcome) {
  const Seq seq = outcome.seq;
  outcome.delivered_ns = now;
  if (const Op* const op = host_->FindOp(group, seq)) NoteShared(now, *op);
  host_->OnDelivered(group, std::move(outcome));
  Strike(FaultStage::kBetween, seq, -1);
}

// `number`: of the last plan that may touch its buffers, 0 if none does.
bool EngineDriver::IsFree(GroupKey group, Seq seq, uint64_t number) const {
  const bool running = number > 0 && number > accelerator_->done() && accelerator_->status().ok();
  return !running && !flights_.Has(group, seq);
}

// Something of its group does, before `end`.
bool EngineDriver::WaitsBehind(GroupKey group, std::deque<Deferred>::iterator end) {
  return std::any_of(deferred_.begin(), end,
                     [group](const Deferred& one) { return one.group == group; });
}

void EngineDriver::DeliverFinished(TimeNs now) {
  for (auto at = deferred_.begin(); at != deferred_.end();) {
    if (WaitsBehind(at->group, at) || !IsFree(at->group, at->outcome.seq, at->number)) {
      ++at;
      continue;
    }
    Deferred next = std::move(*at);
    at = deferred_.erase(at);
    try {
      DeliverNow(now, next.group, std::move(next.outcome));
    } catch (...) {
      return Break();
    }
  }
}

TimeNs EngineDriver::devices_deadline() const {
  TimeNs first = kNever;
  for (const auto& device : devices_) first = std::min(first, device->next_deadline());
  first = std::min(first, redial_ns_);
  // A GPU rings no bell.
  if (accelerator_ && !accelerator_->idle()) first = std::min(first, polled_ns_ + kDevicePollNs);
  return first;
}

bool EngineDriver::sending() const {
  return std::any_of(peers_.begin(), peers_.end(), [](const auto& entry) {
    return entry.second.link != nullptr && entry.second.link->busy();
  });
}

bool EngineDriver::PrepareSleep() {
  for (size_t i = 0; i < devices_.size(); ++i) {
    if (devices_[i]->PrepareSleep() || dropping_) continue;
    for (size_t j = 0; j <= i; ++j) devices_[j]->FinishSleep();
    return false;
  }
  armed_ = true;
  if (KeepArmed()) return true;
  FinishSleep();  // what was published before the doorbells were armed
  return false;
}

// A member that has called nothing most likely computes, and is not woken by those who call before
// it does.
bool EngineDriver::KeepArmed() {
  if (!armed_ || dropping_ || lane_ == nullptr || broken_ || !engine_->HeedsLane()) return true;
  HeedLane(true);
  return !LaneHasNews();
}

void EngineDriver::HeedLane(bool heeds) {
  if (lane_ == nullptr || std::exchange(heeds_lane_, heeds) == heeds) return;
  lane_->memory().SetAsleep(heeds);
  if (heeds) lane_->memory().FullFence();
}

void EngineDriver::FinishSleep() {
  if (!std::exchange(armed_, false)) return;
  HeedLane(false);
  for (const auto& device : devices_) device->FinishSleep();
}

void EngineDriver::Close() {
  for (const auto& device : devices_) device->Close();
  peers_.clear();
}

void EngineDriver::CloseInForkedChild() {
  for (const auto& device : devices_) device->CloseInForkedChild();
}

EngineDriver::Counters EngineDriver::counters() const {
  Counters out = counters_;
  out.staging_bytes = pool_.used_bytes() + pool_.cached_bytes();
  if (!accelerator_) return out;
  out.staging_bytes += accelerator_->bytes();
  out.gpu_plans = accelerator_->submitted();
  out.gpu_block_us = static_cast<uint64_t>(accelerator_->block_ns() / kMicrosecond);
  return out;
}

transport::Device::Counters EngineDriver::device_counters() const {
  transport::Device::Counters sum;
  for (const auto& device : devices_) {
    const transport::Device::Counters one = device->counters();
    sum.links_opened += one.links_opened;
    sum.links_closed += one.links_closed;
    sum.paths_lost += one.paths_lost;
    sum.frames_sent += one.frames_sent;
    sum.frames_received += one.frames_received;
    sum.bytes_sent += one.bytes_sent;
    sum.bytes_received += one.bytes_received;
    sum.bytes_resent += one.bytes_resent;
    sum.frames_corrupt += one.frames_corrupt;
    sum.peers_refused += one.peers_refused;
    sum.bytes_moved += one.bytes_moved;
    sum.bytes_kept += one.bytes_kept;
  }
  return sum;
}

std::vector<EngineDriver::LinkReport> EngineDriver::Links() const {
  std::vector<LinkReport> out;
  for (const auto& [id, peer] : peers_) {
    out.push_back({id, peer.device != nullptr ? peer.device->name() : "",
                   peer.link != nullptr ? peer.link->Describe() : "", peer.up});
  }
  return out;
}

}  // namespace ftar::runtime
