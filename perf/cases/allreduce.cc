// All-reduce: each member gives `count` elements and gets the reduction of all of them.
#include "perf/case.h"
#include "perf/types.h"
#include "perf/verify.h"

namespace ftar::perf {
namespace {

Shape ShapeOf(const Row& row, int /*members*/) {
  const uint64_t width = TypeOf(row.dtype).bytes;
  const uint64_t count = row.bytes / width;
  return {count, count, count, count * width};
}

// A ring moves each byte out of a member 2(n-1)/n times: reduce-scatter, then all-gather.
double BusFactor(int members) { return members < 2 ? 0 : 2.0 * (members - 1) / members; }

void Fill(const OpContext& context, const Shape& shape, void* send) {
  const Row& row = *context.row;
  FillTiled(InputTile(row.dtype, row.redop, context.my_replica, context.round, context.values), 0,
            shape.send_elements, send);
}

uint64_t Wrong(const OpContext& context, const Shape& shape, std::span<const OpMember> members,
               const void* recv) {
  const Row& row = *context.row;
  std::vector<Participant> participants;
  for (const OpMember& member : members) participants.push_back({member.replica, member.weight});
  return CountWrong(ExpectedTile(row.dtype, row.redop, participants, context.round, context.values),
                    0, shape.recv_elements, recv);
}

}  // namespace

const Case kAllReduceCase = {FTAR_ALLREDUCE, true, ShapeOf, BusFactor, Fill, Wrong};

}  // namespace ftar::perf
