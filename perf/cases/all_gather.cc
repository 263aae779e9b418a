// All-gather: each member gives one segment and gets everybody's, in the order of the layout.
#include <algorithm>

#include "perf/case.h"
#include "perf/types.h"
#include "perf/verify.h"

namespace ftar::perf {
namespace {

Shape ShapeOf(const Row& row, int members) {
  const uint64_t width = TypeOf(row.dtype).bytes;
  const uint64_t count = row.bytes / width / members;
  return {count, count, count * members, count * members * width};
}

double BusFactor(int members) { return members < 2 ? 0 : 1.0 * (members - 1) / members; }

void Fill(const OpContext& context, const Shape& shape, void* send) {
  FillTiled(
      InputTile(context.row->dtype, FTAR_SUM, context.my_replica, context.round, context.values), 0,
      shape.send_elements, send);
}

uint64_t Wrong(const OpContext& context, const Shape& shape, std::span<const OpMember> members,
               const void* recv) {
  const ftarDtype_t dtype = context.row->dtype;
  const auto& replicas = context.layout->replicas;
  const size_t segment_bytes = shape.count * TypeOf(dtype).bytes;
  uint64_t wrong = 0;
  for (size_t i = 0; i < replicas.size(); ++i) {
    Tile tile = InputTile(dtype, FTAR_SUM, replicas[i], context.round, context.values);
    const bool present = std::any_of(members.begin(), members.end(), [&](const OpMember& member) {
      return member.replica == replicas[i] && member.weight > 0;
    });
    // A segment whose owner is gone is zero (rule F7).
    if (!present) std::fill(tile.bytes.begin(), tile.bytes.end(), std::byte{0});
    wrong +=
        CountWrong(tile, 0, shape.count, static_cast<const std::byte*>(recv) + i * segment_bytes);
  }
  return wrong;
}

}  // namespace

const Case kAllGatherCase = {FTAR_ALLGATHER, true, ShapeOf, BusFactor, Fill, Wrong};

}  // namespace ftar::perf
