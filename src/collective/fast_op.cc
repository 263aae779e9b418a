#include "collective/fast_op.h"

#include <algorithm>

#include "base/mutant.h"
#include "collective/op_works.h"

namespace ftar::collective {
namespace {

// What the plan, the signature and the place in the lane depend on.
bool Alike(const OpSpec& a, const OpSpec& b) {
  return a.kind == b.kind && a.dtype == b.dtype && a.redop == b.redop && a.count == b.count &&
         a.element_bytes == b.element_bytes && a.accumulator_bytes == b.accumulator_bytes &&
         a.plan == b.plan && a.root == b.root && a.layout == b.layout && a.scale == b.scale &&
         a.strict == b.strict && a.on_device == b.on_device;
}

}  // namespace

void FastOp::Displace() {
  op_.view = nullptr;
  op_.members.clear();
  op_.lane.segments.clear();
  told_weights_.clear();
  way_.room = LaneRoom::kNone;
}

void FastOp::AddMember(MemberId id, int segment) {
  op_.members.push_back(id);
  op_.lane.segments.push_back(segment);
}

bool FastOp::Place(ViewPtr view, Epoch era) {
  if (op_.members.size() < 2) return false;
  op_.me = op_.PositionOf(config_.self);
  op_.view = std::move(view);
  era_ = era;
  return true;
}

// One call after the other is like the last one.
bool FastOp::IsDescribed(const OpSpec& spec, uint64_t step) const {
  return way_.room != LaneRoom::kNone && step == op_.step && Alike(spec, op_.spec);
}

void FastOp::Describe(const OpSpec& spec, uint64_t step, const FastWay& way,
                      const wire::Signature& signature) {
  way_ = way;
  op_.spec = spec;
  op_.step = step;
  op_.plan = way.plan;
  op_.signature = signature;
  op_.digest = wire::SignatureDigest(signature);
}

// As its attempt would have them.
void FastOp::CutShares(uint64_t piece_bytes) {
  const OpSpec& spec = op_.spec;
  op_.grid = plan::Grid(spec.count, spec.element_bytes, spec.accumulator_bytes, 1, piece_bytes);
  const uint64_t block = plan::BlockBytes(spec.count * spec.element_bytes, op_.members.size(),
                                          config_.block_least, config_.block_most);
  shares_.Cut(op_.grid, op_.members.size(), static_cast<size_t>(op_.me),
              block / spec.element_bytes);
}

void FastOp::Prepare(const OpSpec& spec, uint64_t news, Peers* peers) {
  op_.spec = spec;
  op_.attempts = 1;
  op_.weights.assign(op_.members.size(), kUnknownWeight);
  op_.weights[static_cast<size_t>(op_.me)] = spec.weight;
  peers_.clear();
  for (const MemberId id : op_.members)
    peers_.push_back(id != config_.self ? peers->Find(id) : nullptr);
  news_ = news;
  let_go_ = 0;
}

// Where both ways are open the input lies in its slot if it cannot stay.
LaneRoom FastOp::RoomOf(const FastCall& call) const {
  const bool both = way_.room == LaneRoom::kShort && way_.all_sum;
  return both && call.stays ? LaneRoom::kShared : way_.room;
}

// And nothing was told to the machine in between.
[[gnu::hot]] bool FastOp::IsLikeLast(const FastCall& call, uint64_t news) const {
  return news == news_ && call.spec->weight == op_.spec.weight &&
         (call.like_last || Alike(*call.spec, op_.spec));
}

// Only the number is another, and whether its slot is let go.
[[gnu::hot]] bool FastOp::Repeats(const FastCall& call, uint64_t step, uint64_t news,
                                  Seq in_slot) {
  if (!IsLikeLast(call, news) || step != op_.step || way_.room == LaneRoom::kNone) return false;
  if (way_.room == LaneRoom::kShared && !call.shows) return false;
  return op_.lane.room == RoomOf(call) && HasLetGo(in_slot);
}

// All are asked once for as many slots as the last of them has let go by then.
[[gnu::hot]] bool FastOp::HasLetGo(Seq in_slot) {
  if (in_slot < let_go_) return true;
  let_go_ = kNoSeq;
  for (const Peer* peer : peers_) {
    if (peer != nullptr) let_go_ = std::min(let_go_, peer->ack);
  }
  return in_slot < let_go_;
}

// As far as it does not depend on how the call goes.
[[gnu::hot]] void FastOp::Begin(Seq seq, const FastCall& call, bool repeats) {
  repeats_ = repeats;
  running_ = true;
  recurs_ = foreseen_ = op_.complete = false;
  op_.spec.in_place = call.spec->in_place;
  op_.spec.timeout_ns = call.spec->timeout_ns;
  op_.spec.tag = call.spec->tag;
  op_.seq = seq;
  op_.start_ns = call.now;
}

[[gnu::hot]] void FastOp::Start(Seq seq, const FastCall& call, bool repeats) {
  Begin(seq, call, repeats);
  op_.lane.Reset();
  op_.lane.room = RoomOf(call);
  op_.lane.shared = op_.lane.room == LaneRoom::kShared;
  op_.lane.rooms.resize(op_.members.size(), LaneRoom::kShort);
  op_.lane.rooms[static_cast<size_t>(op_.me)] = op_.lane.room;
  op_.lane.whole = !op_.lane.shared || (call.stays && way_.all_sum);
  if (op_.lane.shared) shares_.Begin();
}

// Whatever else there is of it is as the last one has left it.
[[gnu::hot]] bool FastOp::Recur(Seq seq, const FastCall& call, uint64_t news, Seq in_slot) {
  if (!recurs_ || !IsLikeLast(call, news) || !HasLetGo(in_slot)) return false;
  Begin(seq, call, /*repeats=*/true);
  if (!FTAR_MUTANT(kFastSeenBefore)) op_.lane.seen = 0;
  op_.lane.whole = true;
  return true;
}

[[gnu::hot]] bool FastOp::TakeFamiliar(size_t position, Epoch newest) {
  LaneLine line;
  if (!repeats_ || !config_.lane->Look(op_.lane.segments[position], config_.key, op_.seq, &line) ||
      line.attempt != op_.view->epoch || line.view > newest || line.digest != op_.digest ||
      line.weight != op_.weights[position] ||
      line.shared != (op_.lane.rooms[position] == LaneRoom::kShared))
    return false;
  Seq& ack = peers_[position]->ack;
  ack = std::max(ack, line.complete_end);
  op_.lane.shared = op_.lane.shared || line.shared;
  op_.lane.whole = op_.lane.whole && line.whole;
  return true;
}

[[gnu::hot]] bool FastOp::Foresee(TimeNs now) {
  foreseen_ = repeats_ && !op_.lane.shared;
  if (!foreseen_) return false;
  FillAsLast();
  op_.start_ns = now;
  TellMoment(now);
  return true;
}

[[gnu::hot]] bool FastOp::FillWork() {
  if (!repeats_) {
    FillAnew();
  } else if (!foreseen_) {
    FillAsLast();
  }
  return foreseen_ && (repeats_ || FTAR_MUTANT(kFastForeseenAnyway));
}

[[gnu::hot]] void FastOp::FillAsLast() {
  work_.seq = op_.seq;
  for (SourceRef& source : work_.sources) {
    const int segment = LaneSegment(source.buffer.id);
    source.buffer.id = LaneInput(segment, op_.seq, LaneRoom::kShort);
  }
}

void FastOp::FillAnew() {
  work_.sources.clear();
  plan::Chunk whole;
  whole.count = op_.spec.count;
  FillLaneWork(op_, whole, &work_);
}

bool FastOp::NextShare() {
  const bool all = AllSum(op_);
  const uint64_t width = op_.spec.element_bytes;
  const auto is_own = [this, all](size_t owner) {
    return all || owner == static_cast<size_t>(op_.me);
  };
  const auto made = [this, width, is_own](size_t owner) {
    if (is_own(owner) || FTAR_MUTANT(kSharedUnmade)) return ~uint64_t{0};
    return config_.lane->Made(op_.lane.segments[owner], config_.key, op_.seq) / width;
  };
  if (!shares_.Next(op_.spec.in_place || all, made)) return false;
  const plan::Chunk& block = shares_.block();
  work_.sources.clear();
  work_.shown = !all;
  if (is_own(shares_.owner())) {
    FillLaneWork(op_, block, &work_);
  } else {
    FillSumCopy(op_, static_cast<int>(shares_.owner()), block, &work_);
    work_.count = block.count;
  }
  work_.dst = {BufferRef::Kind::kRecv, op_.seq, block.first * width, block.count * width};
  return true;
}

LaneWords FastOp::FinishShare() {
  shares_.Finish();
  // Nobody asks for what each makes for itself.
  const uint64_t made = AllSum(op_) ? 0 : shares_.own() * op_.spec.element_bytes;
  return {op_.seq, made, op_.complete || FTAR_MUTANT(kDoneEarly)};
}

void FastOp::SetOutcome(Outcome outcome) {
  outcome.alike = outcome_.alike + 1;
  outcome_ = std::move(outcome);
  told_weights_ = op_.weights;
}

// Who reads it next would wait for what has just been written.
[[gnu::hot]] const Outcome& FastOp::End(TimeNs now) {
  const bool told = outcome_.seq == op_.seq && outcome_.start_ns == op_.start_ns &&
                    outcome_.delivered_ns == now;
  if (!told) TellMoment(now);
  recurs_ = repeats_ && way_.room == LaneRoom::kShort && !way_.all_sum;
  return outcome_;
}

[[gnu::hot]] void FastOp::TellMoment(TimeNs now) {
  outcome_.seq = op_.seq;
  outcome_.tag = op_.spec.tag;
  outcome_.start_ns = op_.start_ns;
  outcome_.complete_ns = outcome_.delivered_ns = now;
}

}  // namespace ftar::collective
