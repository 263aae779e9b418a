// Attempts: who is in, what each chunk's role is, and the frames that follow from it.
#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/mutant.h"
#include "collective/group_machine.h"
#include "plan/choose.h"
#include "plan/owners.h"

namespace ftar::collective {
namespace {

constexpr size_t kHubMembers = 8, kHubMembersCrowded = 3;

// Which member makes the final of a chunk: by turns where nobody has a claim (F5), the segment's or
// the root's owner otherwise.
class ChunkOwners {
 public:
  explicit ChunkOwners(const Op& op)
      : op_(op),
        root_(op.spec.kind == plan::Kind::kBroadcast ? op.PositionOf(op.spec.root) : -1),
        owners_(plan::HasSegments(op.spec.kind) ? op.spec.layout_members : op.origin.members,
                op.members) {}
  int Of(const plan::Chunk& chunk) const {
    if (op_.spec.kind == plan::Kind::kBroadcast) return root_;
    if (!plan::HasSegments(op_.spec.kind)) return owners_.ByTurns(chunk.index);
    if (FTAR_MUTANT(kLayoutOfToday)) return chunk.segment % static_cast<int>(op_.members.size());
    return owners_.At(static_cast<size_t>(chunk.segment));
  }

 private:
  const Op& op_;
  const int root_;
  const plan::Owners<MemberId> owners_;
};

std::vector<std::byte> BytesOf(const double* values, size_t count) {
  std::vector<std::byte> out(count * sizeof(double));
  if (count > 0) std::memcpy(out.data(), values, out.size());
  return out;
}

}  // namespace

ViewPtr GroupMachine::ViewFor(Seq seq, uint64_t step) const {
  return ViewOf(current_, config_.key, seq, step,
                [this](Epoch epoch) { return KnownView(epoch); });
}

ViewPtr GroupMachine::KnownView(Epoch epoch) const {
  if (current_ && current_->epoch == epoch) return current_;
  if (base_ && base_->epoch == epoch) return base_;
  const auto found = old_views_.find(epoch);
  return found == old_views_.end() ? nullptr : found->second;
}

std::vector<MemberId> GroupMachine::MembersOf(const wire::View& view, Seq seq, uint64_t step,
                                              std::vector<MemberId> used) const {
  std::vector<MemberId> members = std::move(used);
  members.clear();
  for (const wire::ViewEntry& entry : view.entries) {
    if (entry.card.shard == config_.shard && entry.Contains(config_.key, seq, step))
      members.push_back(entry.card.id);
  }
  return members;
}

// In place, and results land on input that is still to be read: the input moves out of the way
// first. Segments land on other segments' input; in a one-shot exchange my own result may be here
// before my input has reached everybody.
bool GroupMachine::NeedsInputShadow(const Op& op) const {
  if (!op.spec.in_place || op.stand_in || FTAR_MUTANT(kNoShadow)) return false;
  return plan::HasSegments(op.spec.kind) ||
         (op.plan == plan::PlanKind::kOneShot && op.members.size() > 1);
}

BufferRef GroupMachine::InputOf(const Op& op, const plan::Chunk& chunk) const {
  const uint64_t width = op.spec.element_bytes;
  uint64_t first = chunk.first;
  if (op.spec.kind == plan::Kind::kReduceScatter)
    first += static_cast<uint64_t>(chunk.segment) * op.spec.count;
  if (op.shadow != 0)
    return {BufferRef::Kind::kStaging, op.shadow, first * width, chunk.count * width};
  return {BufferRef::Kind::kSend, op.seq, first * width, chunk.count * width};
}

uint64_t GroupMachine::InputBytes(const Op& op) const {
  const bool of_segments = op.spec.kind == plan::Kind::kReduceScatter;
  return op.spec.count * op.spec.element_bytes * (of_segments ? op.spec.layout_members.size() : 1);
}

BufferRef GroupMachine::OutputOf(const Op& op, const plan::Chunk& chunk) const {
  const uint64_t width = op.spec.element_bytes;
  uint64_t first = chunk.first;
  if (op.spec.kind == plan::Kind::kAllGather)
    first += static_cast<uint64_t>(chunk.segment) * op.spec.count;
  if (op.stand_in)
    return {BufferRef::Kind::kStaging, op.stand_in_buffer, first * width, chunk.count * width};
  return {BufferRef::Kind::kRecv, op.seq, first * width, chunk.count * width};
}

BufferRef GroupMachine::FinalOf(const Op& op, uint32_t chunk) const {
  return OutputOf(op, op.chunks[chunk].geometry);
}

uint64_t GroupMachine::Allocate(Op& op, uint64_t bytes) {
  Todo& todo = Push(Todo::Kind::kAllocate);
  todo.id = next_staging_++;
  todo.bytes = bytes;
  todo.seq = op.seq;
  op.staging.push_back(todo.id);
  return todo.id;
}

// Raw pieces that lie here whole survive into the next attempt: they are the same bytes in every
// attempt (rule F5). Those that lie in their sender's memory do not: it takes them back with the
// attempt, and lends them again for the next one, which costs a header.
std::vector<KeptRaw> GroupMachine::DetachRaws(Op& op) {
  std::vector<KeptRaw> kept;
  for (uint32_t c = 0; c < op.chunks.size(); ++c) {
    ChunkState& chunk = op.chunks[c];
    for (size_t i = 0; i < chunk.raws.size(); ++i) {
      if (!chunk.raws[i].present || (chunk.raws[i].lent && !FTAR_MUTANT(kLentPieceKept))) continue;
      kept.push_back({c, op.members[i], chunk.raws[i], op.weights[i]});
      chunk.raws[i] = {};
    }
    ReleasePieces(chunk);
  }
  return kept;
}

void GroupMachine::ReattachRaws(Op& op, std::vector<KeptRaw> kept) {
  for (KeptRaw& raw : kept) {
    const int position = op.PositionOf(raw.from);
    ChunkState& chunk = op.chunks[raw.chunk];
    const auto& from = chunk.role.raw_from;
    if (position < 0 || !std::binary_search(from.begin(), from.end(), position)) {
      ReleaseInbound(raw.piece.inbound);
      continue;
    }
    chunk.raws[position] = raw.piece;
    --chunk.raws_missing;
    if (!FTAR_MUTANT(kWeightForgotten)) op.weights[position] = raw.weight;
  }
}

const Surroundings& GroupMachine::SurroundingsIn(const ViewPtr& view) {
  if (surrounded_ != view) surroundings_ = SurroundingsOf(*view, config_.shard);
  surrounded_ = view;
  return surroundings_;
}

plan::Ground GroupMachine::GroundIn(const ViewPtr& view, size_t members) {
  const Surroundings& around = SurroundingsIn(view);
  const wire::WireCosts costs =
      FTAR_MUTANT(kOwnWiresCount) ? view->Find(config_.self)->card.wire : around.wire;
  return {.members = static_cast<int>(members),
          .crowded = around.crowded,
          .wired = around.wired,
          .lane = around.lane,
          .round_ns = costs.round_ns,
          .byte_ps = costs.byte_ps};
}

plan::PlanKind GroupMachine::ChoosePlan(const OpSpec& spec, const ViewPtr& view, size_t members) {
  const plan::Wish wish{
      .forced = spec.plan != plan::PlanKind::kAuto ? spec.plan : config_.plan,
      .deterministic = config_.deterministic,
      .oneshot_max_bytes = config_.oneshot_max_bytes,
  };
  return plan::Choose(spec.kind, spec.count * spec.element_bytes, GroundIn(view, members), wish);
}

// Chosen by the first attempt's view alone, so that all who begin it choose alike; later as it was,
// or as was told. What is told is no more than could have been chosen.
uint64_t GroupMachine::PieceBytesOf(const Op& op) {
  if (config_.chunk_bytes > 0) return config_.chunk_bytes;
  if (const uint64_t told = op.origin.piece_bytes; told > 0) {
    return std::clamp(told, std::min(config_.piece_least, plan::kWiredBytesMin),
                      config_.piece_most);
  }
  plan::Ground ground = GroundIn(op.view, op.members.size());
  ground.shared = IsShared(op.spec, op.plan, op.view, op.members.size());
  return plan::PieceBytes(op.spec.kind, op.plan, op.spec.count * op.spec.element_bytes, ground,
                          config_.piece_least, config_.piece_most);
}

// An exchange of everybody's word with everybody's grows with the square of the members. Through
// the hub it takes a round more, and one word each way. Of what may be shared each says in the lane
// what is complete here, and a hub says what is complete everywhere.
MemberId GroupMachine::HubFor(const Op& op) {
  if (op.plan == plan::PlanKind::kOneShot || !config_.fault_tolerant) return {};
  const Surroundings& around = SurroundingsIn(op.view);
  const size_t members = op.members.size();
  if (members < (around.crowded ? kHubMembersCrowded : kHubMembers)) return {};
  if (IsShared(op.spec, op.plan, op.view, members) && !FTAR_MUTANT(kLaneWordIsTheHubs)) return {};
  return op.PositionOf(around.hub) < 0 ? MemberId{} : around.hub;
}

void GroupMachine::PlaceInAttempt(Op& op) {
  const int members = static_cast<int>(op.members.size());
  op.me = op.PositionOf(config_.self);
  assert(op.me >= 0);
  const auto segments =
      plan::HasSegments(op.spec.kind) ? static_cast<int32_t>(op.spec.layout_members.size()) : 1;
  // The choice looks at the first attempt's members, so that a retry runs the plan whose pieces are
  // already here.
  op.plan = ChoosePlan(op.spec, op.view, op.origin.members.size());
  op.origin.piece_bytes = PieceBytesOf(op);
  op.grid = plan::Grid(op.spec.count, op.spec.element_bytes, op.spec.accumulator_bytes, segments,
                       op.origin.piece_bytes);
  op.hub = HubFor(op);
  op.weights.assign(members, kUnknownWeight);
  op.arrivals.Begin(members);
  op.weights[op.me] = op.spec.weight;
  op.raws_sent.assign(members, false);
  if (op.chunks.empty()) op.chunks.swap(spent_.chunks);
  op.chunks.resize(op.grid.chunks());
  op.needed = op.finals = 0;
  op.unfit = false;
  op.unheard.clear();
  const ChunkOwners owners(op);
  for (uint32_t c = 0; c < op.grid.chunks(); ++c) {
    ChunkState& chunk = op.chunks[c];
    chunk.Clear();
    chunk.geometry = op.grid.At(c);
    const int owner = chunk.owner = owners.Of(chunk.geometry);
    plan::AddRole(op.spec.kind, op.plan, members, owner, op.me, &chunk.role);
    if (owner < 0 && op.spec.kind == plan::Kind::kBroadcast) op.unfit = true;
    if (owner < 0 && op.spec.kind == plan::Kind::kAllGather && !FTAR_MUTANT(kGoneSegmentsKept))
      chunk.role.lands = true;  // a gone member's segment: zeros
    if (!chunk.role.raw_from.empty()) chunk.raws.resize(members);
    chunk.raws_missing = static_cast<uint32_t>(chunk.role.raw_from.size());
    if (chunk.role.lands) ++op.needed;
  }
  if (op.spec.kind == plan::Kind::kReduceScatter) TellSegmentless(op);
}

// V7: no input and no result comes to who has no segment of a reduce-scatter. It hears the weights,
// and whether there is a result, by a final chunk without bytes: the first whose owner is here.
void GroupMachine::TellSegmentless(Op& op) {
  int teller = -1;
  uint32_t told = 0;
  std::vector<bool> owns(op.members.size());
  for (uint32_t c = 0; c < op.grid.chunks(); ++c) {
    const int owner = op.chunks[c].owner;
    if (owner < 0) continue;
    owns[owner] = true;
    if (teller < 0) teller = owner, told = c;
  }
  if (teller < 0 || FTAR_MUTANT(kSegmentlessUntold)) return;
  plan::Role& role = op.chunks[told].role;
  for (int i = 0; i < static_cast<int>(owns.size()); ++i) {
    if (!owns[i] && op.me == teller) role.final_to.push_back(i);
  }
  if (owns[op.me]) return;
  role.lands = true;
  role.final_from = teller;
  ++op.needed;
}

void GroupMachine::BeginAttempt(TimeNs now, Op& op, ViewPtr view, wire::Origin origin) {
  std::vector<KeptRaw> kept = DetachRaws(op);
  op.view = std::move(view);
  // Pieces that lie here are cut as they were, whatever anybody says.
  if (op.origin.piece_bytes > 0 || FTAR_MUTANT(kPiecesOfToday))
    origin.piece_bytes = op.origin.piece_bytes;
  op.origin = std::move(origin);
  op.members = MembersOf(*op.view, op.seq, op.step, std::move(op.members));
  op.salvage = op.complete = op.committed = op.absent = false;
  ++op.attempts;
  PlaceInAttempt(op);
  ReattachRaws(op, std::move(kept));
  if (MayPublish(op)) return Publish(now, op);
  ShadowInput(op);
  // V5: the root was lost before this member called. Whether all called with that root is for the
  // leader to find out, so nobody fails alone.
  if (op.unfit) mismatch_ = op.seq;
  if (op.spec.kind == plan::Kind::kBroadcast && op.spec.root == config_.self) {
    op.unheard.assign(op.members.size(), true);
    op.unheard[op.me] = false;
  }
  SendOwnInputs(op);
  StartLocalWork(now, op);
}

void GroupMachine::ShadowInput(Op& op) {
  const uint64_t bytes = InputBytes(op);
  if (!NeedsInputShadow(op) || op.shadow != 0 || bytes == 0) return;
  const uint64_t shadow = Allocate(op, bytes);
  PushCopy(op, {BufferRef::Kind::kSend, op.seq, 0, bytes},
           {BufferRef::Kind::kStaging, shadow, 0, bytes});
  op.shadow = shadow;  // from here on the input is read there
}

// Whatever needs no peer: own segments, zeros for the gone, reductions whose pieces are here
// already (or a group of one).
void GroupMachine::StartLocalWork(TimeNs now, Op& op) {
  for (uint32_t c = 0; c < op.chunks.size(); ++c) {
    ChunkState& chunk = op.chunks[c];
    if (chunk.is_final || chunk.working) continue;
    if (chunk.role.gathers) {
      GatherOwn(now, op, c);
    } else if (chunk.role.reduces) {
      TryReduce(now, op, c);
    } else if (chunk.role.lands && chunk.role.final_from < 0) {
      Work work;
      work.kind = Work::Kind::kZero;
      work.dst = OutputOf(op, chunk.geometry);
      chunk.working = chunk.empty = true;
      SaveUndo(op, chunk, work.dst);
      StartWork(op, std::move(work), {op.seq, c, WorkRef::Purpose::kLand, {}, 0});
    }
  }
}

wire::FrameHeader GroupMachine::HeaderFor(const Op& op, wire::FrameKind kind,
                                          uint32_t chunk) const {
  wire::FrameHeader header;
  header.kind = kind;
  header.group = config_.key;
  header.chunk = chunk;
  header.era = era_;
  header.attempt = op.view->epoch;
  header.seq = op.seq;
  header.signature = op.digest;
  header.complete_end = PublishedEnd();
  header.offset = op.chunks[chunk].geometry.first;
  return header;
}

void GroupMachine::EmitFrame(Op& op, MemberId to, wire::FrameHeader header,
                             std::vector<std::byte> ext, BufferRef payload) {
  assert(!frozen_ && peers_.Ready(to));
  header.ext_bytes = static_cast<uint32_t>(ext.size());
  header.payload_bytes = static_cast<uint32_t>(payload.bytes);
  if (op.attempts > 1 || op.salvage) op.bytes_resent += payload.bytes;
  Seq& told = peers_.Of(to).ack_sent;
  told = std::max(told, Seq{header.complete_end});
  ++progress_;
  SendFrame& frame = Push(Todo::Kind::kSend).what.emplace<SendFrame>();
  frame.to = to;
  frame.header = header;
  frame.ext = std::move(ext);
  frame.payload = payload;
  // Whoever delivers from the lane takes what it has sent back from those who have not yet.
  frame.copied = op.lane.published;
}

// V7: every member learns every weight of the attempt. Nothing travels while all are 1. What is
// only copied tells of its owner: each has a chunk, and the list of a large column is longer than
// any frame takes.
std::vector<std::byte> GroupMachine::WeightsExt(const Op& op, uint32_t chunk) const {
  if (plan::Copies(op.spec.kind)) {
    const int owner = op.chunks[chunk].owner;
    if (owner < 0 || op.weights[owner] == 1) return {};
    return BytesOf(&op.weights[owner], 1);
  }
  const bool uniform =
      std::all_of(op.weights.begin(), op.weights.end(), [](double w) { return w == 1; });
  return uniform ? std::vector<std::byte>{} : BytesOf(op.weights.data(), op.weights.size());
}

namespace {
bool Keeps(const wire::KeptOp* kept, uint32_t chunk) {
  return kept && std::find(kept->chunks.begin(), kept->chunks.end(), chunk) != kept->chunks.end();
}
}  // namespace

// F5: what that member has of this operation's raw pieces; null: nothing.
const wire::KeptOp* GroupMachine::KeptBy(MemberId id, Seq seq) const {
  const Peer* const peer = peers_.Find(id);
  if (!peer) return nullptr;
  const auto found = std::ranges::find_if(peer->kept, [&](const wire::KeptOp& kept) {
    return kept.group == config_.key && kept.seq == seq;
  });
  return found == peer->kept.end() ? nullptr : &*found;
}

void GroupMachine::SendRawsTo(Op& op, int position) {
  if (position == op.me || op.raws_sent[position] || op.salvage) return;
  if (!peers_.Ready(op.members[position])) return;
  op.raws_sent[position] = true;
  if (op.spec.kind == plan::Kind::kBroadcast) {
    // V5: who only listens shows its call to the root, or two who take each other for the root
    // would wait for ever.
    if (op.chunks.empty() || op.chunks[0].role.final_from != position) return;
    wire::FrameHeader header = HeaderFor(op, wire::FrameKind::kRaw, 0);
    header.flags |= wire::kFrameWeightless;
    return EmitFrame(op, op.members[position], header, {}, {});
  }
  const wire::KeptOp* const kept = KeptBy(op.members[position], op.seq);
  for (uint32_t c = 0; c < op.chunks.size(); ++c) {
    const auto& to = op.chunks[c].role.raw_to;
    if (!std::binary_search(to.begin(), to.end(), position) || Keeps(kept, c)) continue;
    wire::FrameHeader header = HeaderFor(op, wire::FrameKind::kRaw, c);
    BufferRef payload = InputOf(op, op.chunks[c].geometry);
    if (op.spec.weight == 0) {  // V7: the input of a member with weight 0 is not read
      header.flags |= wire::kFrameWeightless;
      payload = {};
    }
    std::vector<std::byte> ext =
        op.spec.weight == 1 ? std::vector<std::byte>{} : BytesOf(&op.spec.weight, 1);
    EmitFrame(op, op.members[position], header, std::move(ext), payload);
  }
}

void GroupMachine::SendOwnInputs(Op& op) {
  // From my right neighbour on, so that not everybody sends to the same owner first.
  const int members = static_cast<int>(op.members.size());
  for (int i = 1; i < members; ++i) SendRawsTo(op, (op.me + i) % members);
}

void GroupMachine::SendFinal(Op& op, uint32_t chunk, MemberId to) {
  if (!peers_.Ready(to)) return;  // OnCredit sends what is final by then
  wire::FrameHeader header = HeaderFor(op, wire::FrameKind::kFinal, chunk);
  BufferRef payload = FinalOf(op, chunk);
  // To others than the owner a reduce-scatter tells weights alone.
  if (op.chunks[chunk].empty || op.spec.kind == plan::Kind::kReduceScatter) {
    header.flags |= op.absent ? wire::kFrameAbsent : wire::kFrameWeightless;
    payload = {};
  }
  EmitFrame(op, to, header, WeightsExt(op, chunk), payload);
}

void GroupMachine::SendPartial(Op& op, uint32_t chunk, bool empty) {
  ChunkState& state = op.chunks[chunk];
  const MemberId to = op.members[state.role.partial_to];
  if (!peers_.Ready(to)) return;
  wire::FrameHeader header = HeaderFor(op, wire::FrameKind::kPartial, chunk);
  BufferRef payload{BufferRef::Kind::kStaging, state.staging, 0,
                    state.geometry.count * op.spec.accumulator_bytes};
  if (empty) {
    header.flags |= wire::kFrameWeightless;
    payload = {};
  }
  EmitFrame(op, to, header, WeightsExt(op, chunk), payload);
}

// F2: `from` has installed this era; data may go to it. Everything owed to it by now is sent, less
// what it has kept (F5).
void GroupMachine::OnCredit(TimeNs now, MemberId from, std::span<const wire::KeptOp> kept) {
  (void)now;
  if (frozen_) return;
  Peer& peer = peers_.Of(from);
  if (std::exchange(peer.ready, true)) return;
  peer.kept.assign(kept.begin(), kept.end());
  acks_told_ = 0;
  for (Op& op : ops_) {
    const int position = op.PositionOf(from);
    if (position < 0 || op.salvage || op.failed()) continue;
    if (op.lane.published && !op.lane.by_frames) continue;
    SendRawsTo(op, position);
    for (uint32_t c = 0; c < op.chunks.size(); ++c) {
      ChunkState& chunk = op.chunks[c];
      const auto& to = chunk.role.final_to;
      if (chunk.is_final && std::find(to.begin(), to.end(), position) != to.end())
        SendFinal(op, c, from);
      if (chunk.partial_made && chunk.role.partial_to == position)
        SendPartial(op, c, chunk.partial_empty);
    }
  }
  SendAcks();
}

std::vector<wire::KeptOp> GroupMachine::KeptFrom(MemberId peer) const {
  std::vector<wire::KeptOp> kept;
  for (const Op& op : ops_) {
    const int found = op.PositionOf(peer);
    if (found < 0 || op.salvage || op.complete) continue;
    const auto position = static_cast<size_t>(found);
    wire::KeptOp entry{config_.key, op.seq, {}};
    for (uint32_t c = 0; c < op.chunks.size(); ++c) {
      const auto& raws = op.chunks[c].raws;
      if (position < raws.size() && (raws[position].present || FTAR_MUTANT(kKeptOverstated)))
        entry.chunks.push_back(c);
    }
    if (!entry.chunks.empty()) kept.push_back(std::move(entry));
  }
  return kept;
}

}  // namespace ftar::collective
