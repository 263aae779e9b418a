#include "collective/op_works.h"

namespace ftar::collective {

bool Divide(const Op& op, Work* work) {
  double weight_sum = 0;
  int participants = 0;
  for (double weight : op.weights) {
    if (!(weight > 0)) continue;
    weight_sum += weight;
    ++participants;
  }
  work->divisor = op.spec.redop == kAvg ? participants : op.spec.redop == kWavg ? weight_sum : 1;
  return participants > 0;
}

bool FillLaneWork(const Op& op, const plan::Chunk& chunk, Work* work) {
  work->seq = op.seq;
  work->dtype = op.spec.dtype;
  work->redop = op.spec.redop;
  work->count = chunk.count;
  work->kind = Work::Kind::kReduceFinal;
  work->scale = op.spec.scale;
  const bool weighted = op.spec.redop == kWavg;
  const uint64_t width = op.spec.element_bytes;
  const uint64_t offset = chunk.first * width;
  for (size_t i = 0; i < op.members.size(); ++i) {
    if (op.weights[i] == 0) continue;
    work->sources.push_back(
        {{BufferRef::Kind::kLane, LaneInput(op.lane.segments[i], op.seq, op.lane.rooms[i]), offset,
          chunk.count * width},
         false,
         weighted ? op.weights[i] : 1});
  }
  return Divide(op, work);
}

void FillSumCopy(const Op& op, int owner, const plan::Chunk& chunk, Work* work) {
  const uint64_t width = op.spec.element_bytes;
  work->seq = op.seq;
  work->kind = Work::Kind::kCopy;
  work->sources.clear();
  work->sources.emplace_back().buffer = {BufferRef::Kind::kLane,
                                         LaneSum(op.lane.segments[owner], op.seq),
                                         chunk.first * width, chunk.count * width};
}

}  // namespace ftar::collective
