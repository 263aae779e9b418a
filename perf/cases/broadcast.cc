// Broadcast: everybody gets the root's elements.
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

double BusFactor(int /*members*/) { return 1; }

// Members other than the root hold their own values, so that an output nobody wrote is wrong.
void Fill(const OpContext& context, const Shape& shape, void* send) {
  FillTiled(
      InputTile(context.row->dtype, FTAR_SUM, context.my_replica, context.round, context.values), 0,
      shape.send_elements, send);
}

uint64_t Wrong(const OpContext& context, const Shape& shape, std::span<const OpMember> /*members*/,
               const void* recv) {
  // The root is a rank of the layout, whoever is left when the operation is delivered.
  const auto& replicas = context.layout->replicas;
  const auto root = static_cast<size_t>(context.row->root);
  if (root >= replicas.size()) return shape.recv_elements;
  return CountWrong(
      InputTile(context.row->dtype, FTAR_SUM, replicas[root], context.round, context.values), 0,
      shape.recv_elements, recv);
}

}  // namespace

const Case kBroadcastCase = {FTAR_BROADCAST, true, ShapeOf, BusFactor, Fill, Wrong};

}  // namespace ftar::perf
