// How what peers of this host will read is written: inputs and results that go through a ring, and
// results that are lent where they lie (hand_over.h).
#include <algorithm>

#include "base/copy.h"
#include "reduce/reduce.h"
#include "runtime/clock.h"
#include "runtime/engine_driver.h"

namespace ftar::runtime {

using collective::BufferRef;
using collective::Work;

namespace {

bool IsReduced(const Op& op) { return op.request.spec.kind == plan::Kind::kAllReduce; }

}  // namespace

HandOver& EngineDriver::WayOf(Handed what, const Op& op) {
  HandOver(&ways)[kHandedKinds] = ways_[op.recv_bytes > cached_bytes_max_ ? 1 : 0];
  return ways[static_cast<size_t>(what)];
}

// A sum that lies in lent memory has been written already. All else is written by the link, unless
// it is lent, and then it is the user's own.
EngineDriver::Handed EngineDriver::HandedAs(const Op& op, wire::FrameKind kind) {
  if (kind == wire::FrameKind::kRaw) return Handed::kInput;
  const bool lent = kind == wire::FrameKind::kFinal && op.lends && IsReduced(op);
  return lent ? Handed::kLent : Handed::kResult;
}

void EngineDriver::ChooseWay(GroupKey group, const transport::Link& link,
                             wire::FrameHeader* header, uint64_t payload_bytes) {
  if (payload_bytes < kHandOverMinBytes || !link.shares_memory()) return;
  const Op* const op = host_->FindOp(group, header->seq);
  if (op != nullptr && WayOf(HandedAs(*op, header->kind), *op).Streams(header->seq))
    header->flags |= wire::kFrameStreamed;
}

void EngineDriver::NoteHandedOver(const transport::Completion& sent) {
  if (sent.spent_ns <= 0) return;
  const wire::FrameHeader& header = sent.header;
  const Op* const op = host_->FindOp(header.group, header.seq);
  if (op == nullptr) return;
  const Handed what = header.kind == wire::FrameKind::kRaw ? Handed::kInput : Handed::kResult;
  WayOf(what, *op).NoteWritten((header.flags & wire::kFrameStreamed) != 0, header.payload_bytes,
                               sent.spent_ns);
}

// Sums that are read where they lie; those of a shared operation, or lent ones.
bool EngineDriver::StreamsSums(const Op& op) {
  if (op.of_two && ShareWay::Knows(op.recv_bytes))
    return ShareWayOf(op).Streams(op.seq, op.recv_bytes);
  return WayOf(Handed::kLent, op).Streams(op.seq);
}

void EngineDriver::ReduceResult(const Op* op, const Work& work, std::byte* dst) {
  const bool lent = op != nullptr && op->lends && host_mates_ && IsReduced(*op) &&
                    work.dst.kind == BufferRef::Kind::kRecv && work.dst.bytes >= kHandOverMinBytes;
  if (!lent) return Reduce(work, 0, work.count, dst);
  HandOver& way = WayOf(Handed::kLent, *op);
  const bool streamed = StreamsSums(*op);
  const TimeNs begin = Now();
  if (streamed) {
    ReduceAndStream(work, dst);
  } else {
    Reduce(work, 0, work.count, dst);
  }
  way.NoteWritten(streamed, work.dst.bytes, Now() - begin);
}

// Elements [first, first + count) of what GatherSources has found.
void EngineDriver::Reduce(const Work& work, uint64_t first, uint64_t count, std::byte* dst) {
  const std::span<reduce::Source> sources(sources_);
  const auto move = [&sources](int64_t elements) {
    for (reduce::Source& source : sources) {
      source.data = static_cast<const std::byte*>(source.data) +
                    elements * static_cast<int64_t>(reduce::ElementBytes(source.format));
    }
  };
  move(static_cast<int64_t>(first));
  reduce::ReduceToFinal(static_cast<reduce::Dtype>(work.dtype),
                        static_cast<reduce::Redop>(work.redop), sources, work.divisor, work.scale,
                        dst, count);
  move(-static_cast<int64_t>(first));
}

// By way of a piece that stays in the nearest cache, so that the kernels need no second kind of
// stores.
void EngineDriver::ReduceAndStream(const Work& work, std::byte* dst) {
  alignas(64) std::byte piece[16 * 1024];
  const uint64_t width = reduce::ElementBytes(static_cast<reduce::Dtype>(work.dtype));
  const uint64_t most = sizeof piece / width;
  for (uint64_t first = 0; first < work.count; first += most) {
    const uint64_t count = std::min(most, work.count - first);
    Reduce(work, first, count, piece);
    Copy(dst + first * width, piece, count * width, CopyMode::kHandOver);
  }
}

// What it took to read pieces that all were written the same way.
void EngineDriver::NoteRead(GroupKey group, const Work& work, TimeNs spent) {
  const Op* const op = host_->FindOp(group, work.seq);
  if (op == nullptr) return;
  const bool copies = work.kind == Work::Kind::kCopy;
  int streamed = 0, pieces = 0;
  bool lent = false;
  for (const collective::SourceRef& source : work.sources) {
    if (source.buffer.kind != BufferRef::Kind::kInbound) continue;
    const Inbound* const inbound = inbound_.Find(source.buffer.id);
    if (inbound == nullptr || inbound->link == nullptr || !inbound->link->shares_memory()) return;
    lent = lent || inbound->lent != nullptr;
    streamed += inbound->streamed ? 1 : 0;
    ++pieces;
  }
  if (pieces == 0 || streamed % pieces != 0) return;
  if (lent && !(copies && IsReduced(*op))) return;  // its user has written it
  const Handed what = lent ? Handed::kLent : copies ? Handed::kResult : Handed::kInput;
  WayOf(what, *op).NoteRead(streamed > 0, work.dst.bytes, spent);
}

}  // namespace ftar::runtime
