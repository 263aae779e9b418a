// Reduce-scatter: each member gives one segment per member and gets the reduction of its own.
#include "perf/case.h"
#include "perf/types.h"
#include "perf/verify.h"

namespace ftar::perf {
namespace {

Shape ShapeOf(const Row& row, int members) {
  const uint64_t width = TypeOf(row.dtype).bytes;
  const uint64_t count = row.bytes / width / members;
  return {count, count * members, count, count * members * width};
}

double BusFactor(int members) { return members < 2 ? 0 : 1.0 * (members - 1) / members; }

void Fill(const OpContext& context, const Shape& shape, void* send) {
  const Row& row = *context.row;
  FillTiled(InputTile(row.dtype, row.redop, context.my_replica, context.round, context.values), 0,
            shape.send_elements, send);
}

uint64_t Wrong(const OpContext& context, const Shape& shape, std::span<const OpMember> members,
               const void* recv) {
  const Row& row = *context.row;
  if (context.layout->my_index < 0) return 0;  // a newcomer owns no segment of an older layout
  std::vector<Participant> participants;
  for (const OpMember& member : members) participants.push_back({member.replica, member.weight});
  return CountWrong(ExpectedTile(row.dtype, row.redop, participants, context.round, context.values),
                    shape.count * context.layout->my_index, shape.recv_elements, recv);
}

}  // namespace

const Case kReduceScatterCase = {FTAR_REDUCE_SCATTER, false, ShapeOf, BusFactor, Fill, Wrong};

}  // namespace ftar::perf
