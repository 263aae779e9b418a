#include <algorithm>

#include "perf/kernel_bench/bench.h"

namespace ftar::kernel_bench {
namespace {

bool IsPair(const Row& with, const Row& row) {
  return with.checksum && !row.checksum && with.kernel == row.kernel && with.type == row.type &&
         with.sources == row.sources && with.blocks == row.blocks && with.threads == row.threads &&
         with.unroll == row.unroll && with.cache == row.cache;
}

}  // namespace

Bars BarsOf(const std::vector<Row>& rows) {
  Bars bars;
  for (const Row& row : rows) {
    const bool counts = row.blocks > 0 && row.kernel == "sum" && row.type == "f32" &&
                        row.cache == "out" && !row.checksum && !row.curve;
    if (!counts) continue;
    if (row.blocks == 2) {
      if (row.sources == 2) bars.two_blocks_gbs = std::max(bars.two_blocks_gbs, row.result_gbs);
      continue;
    }
    if (bars.share == 0 || row.of_copy < bars.share) bars.share = row.of_copy;
    for (const Row& with : rows) {
      if (IsPair(with, row))
        bars.checksum_cost = std::max(bars.checksum_cost, with.us / row.us - 1);
    }
  }
  return bars;
}

}  // namespace ftar::kernel_bench
