// Shared operations (collective/lane.h): where their bytes lie, and the fast path's share of the
// work.
//
// A member's line says where the others find its input and its sums: where the user has them, if
// that is memory of ftarMemAlloc which all have mapped, and else in the lane's area, to which they
// are copied. Whether that is still so after they were read is the machine's to ask (F4).
//
// In place what is written over has to be restorable (F3). What is short is saved. The sums of what
// is longer wait in memory of the library (asides.h): the fast path touches the user's buffer when
// the operation is over, and copies the others' sums then, which their owners keep.
#include <algorithm>
#include <utility>

#include "base/copy.h"
#include "runtime/clock.h"
#include "runtime/engine_driver.h"
#include "runtime/no_cancel.h"

namespace ftar::runtime {
namespace {

// Of the fast path's saved inputs; the engine's own numbers count from 1.
constexpr uint64_t kFastSaved = ~uint64_t{0};
// In place the input of a longer one is not saved, and its sums wait aside, so that fewer bytes are
// moved.
constexpr uint64_t kSavedUsually = 1 << 20;
static_assert(kSavedUsually >= wire::kLaneLongMax, "what is aside is not in the lane's area");
// Or is, up to this size, where others have not mapped such memory. Where there are more than two,
// what is longer goes by frames, which is no slower there.
constexpr uint64_t kSavedBytesMax = 8 << 20;
// Of two. What lands at the end does so at once, under the lock.
constexpr uint64_t kInPlaceBytesMax = 32 << 20;
// Then somebody else may want the lock.
constexpr uint64_t kBytesAtATime = 1 << 20;

// In LaneMemory::Places: the one or the other went past its writer's caches; the sums stay what
// they are until those who may read them are through.
constexpr uint64_t kInputStreamed = 1, kSumsStreamed = 2, kSumsKept = 4;

}  // namespace

// Known of ranges within one block: all between two of them are in it, too.
std::optional<transport::Link::Place> EngineDriver::ShowToAll(std::span<const std::byte> memory) {
  const std::byte* const begin = memory.data();
  for (const Shown& shown : shown_) {
    const bool holds = shown.begin <= begin && begin + memory.size() <= shown.end;
    if (holds && shown.frees == exports_->frees() && shown.links == links_changed_)
      return transport::Link::Place{shown.block, static_cast<uint64_t>(begin - shown.base)};
  }
  const NoCancel whole;  // who has not seen it is told by a system call
  std::optional<transport::Link::Place> place;
  bool all = true;
  for (const auto& [id, peer] : peers_) {
    if (peer.link == nullptr || !peer.up) continue;
    place = peer.link->Show(memory);  // each is told, so that all have it soon
    all = all && place.has_value();
  }
  if (!all || !place) return {};
  const Shown fresh{begin, begin + memory.size(), begin - place->offset, place->block,
                    exports_->frees(), links_changed_};
  Shown& kept = shown_[next_shown_];
  if (kept.block == fresh.block && kept.frees == fresh.frees && kept.links == fresh.links) {
    kept.begin = std::min(kept.begin, fresh.begin);
    kept.end = std::max(kept.end, fresh.end);
  } else {
    next_shown_ = (next_shown_ + 1) % shown_.size();
    shown_[next_shown_] = fresh;
  }
  return place;
}

// Where the bytes of a call are, or would be, that is to be shared.
bool EngineDriver::Shows(TimeNs now, Op* op) {
  const OpRequest& request = op->request;
  op->aside.reset();
  if (lane_ == nullptr || request.spec.kind != plan::Kind::kAllReduce || request.on_device ||
      op->send_bytes > wire::kLaneSharedMax)
    return false;
  const uint64_t in_place_max = peers_.size() == 1 ? kInPlaceBytesMax : kSavedBytesMax;
  if (request.spec.in_place && op->send_bytes > in_place_max) return false;
  const auto shown = [&](const void* data) {
    return ShowToAll({static_cast<const std::byte*>(data), op->send_bytes});
  };
  const auto input = shown(request.send);
  auto sums = request.spec.in_place ? input : shown(request.recv);
  const bool is_long = request.spec.in_place && op->send_bytes > kSavedUsually;
  const auto aside = is_long && input ? ShowAside(now, op) : std::nullopt;
  if (aside) sums = aside;
  if (is_long && !aside && op->send_bytes > kSavedBytesMax) return false;
  places_ = {input.value_or(transport::Link::Place{}), sums.value_or(transport::Link::Place{}),
             aside ? kSumsKept : 0};
  shows_sums_ = sums.has_value();
  op->sums_aside = aside || !sums;
  op->copied = !input;
  if (input && sums) return true;
  return op->send_bytes <= wire::kLaneLongMax && HasArea(*op);
}

// One is made only for a group that shares, since its memory is taken at once, and for good.
bool EngineDriver::HasArea(const Op& op) {
  transport::LaneMemory& memory = lane_->memory();
  if (memory.HasArea(op.group)) return true;
  return engine_->WouldShare(op.group, op.request.spec) && memory.MakeRoom(op.group) &&
         memory.MakeArea(op.group);
}

// Memory for its sums that all have mapped; a call that is not shared needs none.
std::optional<transport::Link::Place> EngineDriver::ShowAside(TimeNs now, Op* op) {
  if (!engine_->WouldShare(op->group, op->request.spec)) return {};
  op->aside = asides_.Take(now, op->group, op->send_bytes, CurrentEpoch());
  if (op->aside == nullptr) return {};
  const auto place = ShowToAll({op->aside.get(), op->send_bytes});
  if (!place) op->aside.reset();
  return place;
}

// Whether its input is shown as one that each may read all of (LaneLine::whole).
bool EngineDriver::IsToStay(const Op& op) const {
  if (places_.input.block == 0 || op.request.spec.in_place) return false;
  return ShareWay::AllSumsAlways(op.send_bytes) ||
         share_ways_[0].AllSum(engine_->next_seq(op.group), op.send_bytes);
}

// Of more than two each looks at what it writes and reads itself: whole operations tell more of who
// came when.
bool EngineDriver::StreamsToArea(const Op& op, const HandOver& else_by) const {
  return op.of_two ? lane_way_.Streams(op.seq, op.send_bytes) : else_by.Streams(op.seq);
}

// Of two, how long it took. What is copied makes others wait while it is, which counts as well.
void EngineDriver::NoteShared(TimeNs now, const Op& op) {
  if (!op.of_two) return;
  const uint64_t bytes = op.send_bytes;
  if (!op.copied) {
    ShareWayOf(op).Note(op.seq, bytes, !engine_->fast_work().shown, now - lines_seen_ns_);
  } else if (lane_way_.Samples(op.seq, bytes)) {
    lane_way_.Note(op.seq, bytes, now - op.start_ns);
  }
}

void EngineDriver::PublishShares(const Op& op) {
  transport::LaneMemory& memory = lane_->memory();
  if (places_.input.block == 0) {
    const bool streamed = StreamsToArea(op, hand_over_);
    const auto* const input = static_cast<const std::byte*>(op.request.send);
    std::byte* const area =
        memory.OwnArea(op.group, lane_->OffsetOf(op.seq, op.send_bytes), op.send_bytes);
    const uint64_t width = op.request.spec.element_bytes;
    uint64_t copied = 0;
    const TimeNs begin = Now();
    for (const plan::Chunk& chunk : engine_->fast_others()) {
      Copy(area + chunk.first * width, input + chunk.first * width, chunk.count * width,
           streamed ? CopyMode::kHandOver : CopyMode::kCached);
      copied += chunk.count * width;
    }
    hand_over_.NoteWritten(streamed, copied, Now() - begin);
    counters_.bytes_moved += 2 * copied;
    if (streamed) places_.traits |= kInputStreamed;
  }
  if (StreamsSums(op)) places_.traits |= kSumsStreamed;
  kept_sums_.clear();
  if (op.of_two && op.copied) lane_way_.Begin(op.send_bytes);
  lines_seen_ns_ = 0;
  memory.PublishShared(op.group, fast_line_, places_);
  NoteLine(fast_line_, 0);
}

// A member's input of a shared operation, or its sums, as they are to be read here. Null: they are
// not mapped (any more), and then somebody is out.
const std::byte* EngineDriver::SharedBytes(const Op& op, const collective::BufferRef& ref) const {
  const int segment = collective::LaneSegment(ref.id);
  const bool sums = collective::IsLaneSum(ref.id);
  if (ref.offset > op.send_bytes || ref.bytes > op.send_bytes - ref.offset) return nullptr;
  if (segment == 0) {  // the user's, which is in the caches still
    const void* const own = sums ? op.request.recv : op.request.send;
    return static_cast<const std::byte*>(own) + ref.offset;
  }
  const transport::LaneMemory& memory = lane_->memory();
  if (collective::RoomOf(ref.id) == collective::LaneRoom::kShort)
    return memory.Input(segment, op.group, op.seq, ref.offset, ref.bytes);
  transport::LaneMemory::Places places;
  if (!memory.PlacesOf(segment, op.group, op.seq, &places)) return nullptr;
  const transport::Link::Place at = sums ? places.sums : places.input;
  if (at.block == 0)
    return memory.Area(segment, op.group, lane_->OffsetOf(op.seq, op.send_bytes) + ref.offset,
                       ref.bytes);
  return SeeAt(segment, at, ref.offset, ref.bytes).get();  // unmapped by this thread alone
}

std::shared_ptr<const std::byte> EngineDriver::SeeAt(int segment, transport::Link::Place at,
                                                     uint64_t offset, uint64_t bytes) const {
  const auto peer = peers_.find(lane_->memory().OwnerOf(segment));
  if (peer == peers_.end() || peer->second.link == nullptr || at.offset > UINT64_MAX - offset)
    return nullptr;
  at.offset += offset;
  return peer->second.link->See(at, bytes);
}

// What a look has found is done before there is another one. Who spins sees words at once; who
// sleeps is woken when nothing is left to do.
EngineDriver::FastState EngineDriver::DoShares(const Op& op, collective::FastLook found) {
  using collective::FastLook;
  collective::LaneWords told{op.seq};
  if (lines_seen_ns_ == 0) lines_seen_ns_ = Now();
  for (uint64_t moved = 0; found == FastLook::kShare || found == FastLook::kTell;
       found = engine_->LookFast(op.start_ns)) {
    if (found == FastLook::kShare && !DoShare(op)) {
      Step(op.start_ns, engine::Tick{});  // it goes on like any other, which knows what to do
      return FastState::kOver;
    }
    if (found == FastLook::kShare) moved += engine_->fast_work().dst.bytes;
    const collective::LaneWords words = engine_->SharedFast();
    if (words != told) TellWords(op.group, words);  // the others look at that line all the time
    told = words;
    if (words.done) Strike(FaultStage::kStability, op.seq, -1);
    if (moved >= kBytesAtATime) break;
  }
  Announce();
  fast_has_more_ = found == FastLook::kShare || found == FastLook::kTell;
  stepped_ = found == FastLook::kStopped;
  return found == FastLook::kEnd || stepped_ ? FastState::kOver : FastState::kMoved;
}

// A block. False: something that it needs is not mapped.
bool EngineDriver::DoShare(const Op& op) {
  const collective::Work& work = engine_->fast_work();
  const bool reduces = work.kind == collective::Work::Kind::kReduceFinal;
  Strike(reduces ? FaultStage::kReducing : FaultStage::kGathering, op.seq, -1);
  auto* const user = static_cast<std::byte*>(op.request.recv);
  std::byte* const dst = (op.aside != nullptr ? op.aside.get() : user) + work.dst.offset;
  if (!reduces && op.aside != nullptr && KeepSums(op, work)) return true;
  if (!FindSources(op, work)) return false;
  // What is saved belongs to what is written: nobody else would take it, or give it back.
  if (op.request.spec.in_place && op.aside == nullptr && !SaveFast(op, work.dst)) return false;
  const TimeNs begin = Now();
  if (!reduces) {
    Copy(dst, static_cast<const std::byte*>(sources_[0].data), work.dst.bytes, ReadMode(op));
    NoteSumsRead(op, work, Now() - begin);
  } else {
    if (work.shown) {
      ReduceResult(&op, work, dst);
    } else {
      Reduce(work, 0, work.count, dst);
    }
    NoteInputsRead(op, work, Now() - begin);
    if (work.shown && op.aside == nullptr) PutAside(op, work.dst.offset, work.dst.bytes);
  }
  if (op.aside != nullptr) kept_sums_.push_back({nullptr, false, dst, work.dst});
  ++counters_.works;
  NoteMoved(work);
  return true;
}

// In sources_. False: one of them is not mapped.
bool EngineDriver::FindSources(const Op& op, const collective::Work& work) {
  sources_.clear();
  for (const collective::SourceRef& source : work.sources) {
    const std::byte* const data = SharedBytes(op, source.buffer);
    if (data == nullptr) return false;
    sources_.push_back({data, static_cast<reduce::Dtype>(work.dtype), source.weight});
  }
  return true;
}

// Another member's, that it leaves where they are. False: they have to be copied now.
bool EngineDriver::KeepSums(const Op& op, const collective::Work& work) {
  const collective::BufferRef& sums = work.sources[0].buffer;
  const int segment = collective::LaneSegment(sums.id);
  transport::LaneMemory::Places places;
  if (!lane_->memory().PlacesOf(segment, op.group, op.seq, &places) ||
      (places.traits & kSumsKept) == 0)
    return false;
  auto mapped = SeeAt(segment, places.sums, sums.offset, sums.bytes);
  if (mapped == nullptr) return false;
  const std::byte* const data = mapped.get();
  const bool streamed = (places.traits & kSumsStreamed) != 0;
  kept_sums_.push_back({std::move(mapped), streamed, data, work.dst});
  ++counters_.works;
  return true;
}

// Until when it took.
TimeNs EngineDriver::LandKept(const Op& op) {
  auto* const result = static_cast<std::byte*>(op.request.recv);
  TimeNs now = Now();
  for (const KeptSums& sums : kept_sums_) {
    Copy(result + sums.at.offset, sums.data, sums.at.bytes, ReadMode(op));
    const TimeNs begin = std::exchange(now, Now());
    if (sums.mapped != nullptr)
      WayOf(Handed::kLent, op).NoteRead(sums.streamed, sums.at.bytes, now - begin);
    counters_.bytes_moved += 2 * sums.at.bytes;
  }
  kept_sums_.clear();
  return now;
}

// Of two members: of more one way may have been taken by some. Where a user has them, nobody chose.
void EngineDriver::NoteInputsRead(const Op& op, const collective::Work& work, TimeNs spent) {
  if (work.sources.size() != 2) return;
  const int first = collective::LaneSegment(work.sources[0].buffer.id);
  const uint64_t id = work.sources[first != 0 ? 0 : 1].buffer.id;
  if (collective::RoomOf(id) == collective::LaneRoom::kShort) return;
  const int other = collective::LaneSegment(id);
  transport::LaneMemory::Places places;
  if (!lane_->memory().PlacesOf(other, op.group, op.seq, &places) || places.input.block != 0)
    return;
  hand_over_.NoteRead((places.traits & kInputStreamed) != 0, work.dst.bytes, spent);
}

void EngineDriver::NoteSumsRead(const Op& op, const collective::Work& work, TimeNs spent) {
  transport::LaneMemory::Places places;
  const int segment = collective::LaneSegment(work.sources[0].buffer.id);
  if (!lane_->memory().PlacesOf(segment, op.group, op.seq, &places)) return;
  WayOf(Handed::kLent, op)
      .NoteRead((places.traits & kSumsStreamed) != 0, work.dst.bytes, spent);
}

// Sums that the others do not read where the user has them.
void EngineDriver::PutAside(const Op& op, uint64_t offset, uint64_t bytes) {
  if (!op.sums_aside) return;
  const auto in_lane = [&] {
    const uint64_t at = lane_->OffsetOf(op.seq, op.send_bytes);
    return lane_->memory().OwnArea(op.group, at + offset, bytes);
  };
  std::byte* const area = op.aside != nullptr ? op.aside.get() + offset : in_lane();
  if (area == nullptr) return;
  HandOver& way = WayOf(Handed::kLent, op);
  const bool streamed = StreamsToArea(op, way);
  const TimeNs begin = Now();
  Copy(area, static_cast<const std::byte*>(op.request.recv) + offset, bytes,
       streamed ? CopyMode::kHandOver : CopyMode::kCached);
  way.NoteWritten(streamed, bytes, Now() - begin);
  counters_.bytes_moved += 2 * bytes;
}

// Before it is written over. False: there is no memory.
bool EngineDriver::SaveFast(const Op& op, const collective::BufferRef& at) {
  const auto found = staging_.find({op.group, kFastSaved});
  if (found == staging_.end()) {
    Staging& staging = staging_[{op.group, kFastSaved}];
    staging = {TakeBlock(Home::kHost, op.recv_bytes), Home::kHost, op.recv_bytes, 0, false};
    if (staging.block.data == nullptr) {
      staging_.erase({op.group, kFastSaved});
      return false;
    }
  }
  const collective::BufferRef kept{collective::BufferRef::Kind::kStaging, kFastSaved, at.offset,
                                   at.bytes};
  std::byte* const to = Resolve(op.group, kept, /*write=*/true);
  if (to == nullptr) return false;
  NoteSaved(op.group, at, kept);
  Copy(to, static_cast<const std::byte*>(op.request.recv) + at.offset, at.bytes);
  counters_.bytes_moved += 2 * at.bytes;
  return true;
}

// All of it or nothing.
bool EngineDriver::LandEarly(const Op* op) {
  if (op == nullptr) return false;
  for (const KeptSums& sums : kept_sums_) {
    if (!SaveFast(*op, sums.at)) return false;
  }
  LandKept(*op);
  return true;
}

// The operation goes on like any other, whose result is where the user has it. The engine takes it
// for that from now on, so there is no going on without memory.
void EngineDriver::AdoptFast(GroupKey group, Seq seq, uint64_t id) {
  if (!kept_sums_.empty() && !LandEarly(host_->FindOp(group, seq))) {
    kept_sums_.clear();
    return Break();
  }
  auto node = staging_.extract({group, kFastSaved});
  if (node.empty()) return;
  node.key() = {group, id};
  staging_.insert(std::move(node));
  for (Saved& saved : saved_) {
    if (saved.group == group && saved.kept.id == kFastSaved) saved.kept.id = id;
  }
}

void EngineDriver::DropSavedFast(TimeNs now, const Op& op) {
  if (op.request.spec.in_place) FreeStaging(now, op.group, kFastSaved);
}

}  // namespace ftar::runtime
