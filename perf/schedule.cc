#include "perf/schedule.h"

#include "perf/types.h"

namespace ftar::perf {
namespace {

void AddSizes(const Options& options, Row row, std::vector<Row>* rows) {
  for (uint64_t bytes : options.sizes) {
    row.bytes = bytes;
    rows->push_back(row);
  }
}

void AddTyped(const Options& options, Row row, bool reduces, std::vector<Row>* rows) {
  for (ftarDtype_t dtype : options.types) {
    row.dtype = dtype;
    if (!reduces) {
      AddSizes(options, row, rows);
      continue;
    }
    for (ftarRedop_t redop : options.ops) {
      if (!Supported(dtype, redop)) continue;
      row.redop = redop;
      AddSizes(options, row, rows);
    }
  }
}

}  // namespace

Schedule::Schedule(const Options& options, bool share)
    : out_of_place_(options.out_of_place),
      places_((options.out_of_place ? 1 : 0) + (options.in_place ? 1 : 0)),
      warmup_(options.warmup),
      iters_(options.iters),
      aggregate_(options.aggregate),
      checks_(options.check),
      shares_(share ? 2 : 0) {
  per_place_ = 1 + warmup_ + iters_ * aggregate_ + checks_ + shares_;
  for (int cycle = 0; cycle < options.cycles; ++cycle) {
    for (ftarKind_t kind : options.collectives) {
      const CollectiveInfo& collective = CollectiveOf(kind);
      Row row{.cycle = cycle, .kind = kind};
      if (kind == FTAR_BROADCAST) row.root = options.root;
      if (collective.typed) {
        AddTyped(options, row, collective.reduces, &rows_);
      } else {
        rows_.push_back(row);
      }
    }
  }
}

Slot Schedule::At(uint64_t seq) const {
  const uint64_t place = seq / per_place_;
  uint64_t offset = seq % per_place_;
  Slot slot;
  slot.row = place / places_;
  slot.in_place = places_ == 2 ? place % 2 == 1 : !out_of_place_;
  slot.first_of_place = offset == 0;
  slot.last_of_place = offset + 1 == per_place_;
  slot.iteration = place * iters_;
  const uint64_t counts[] = {1, warmup_, iters_ * aggregate_, checks_, shares_};
  int phase = 0;
  while (offset >= counts[phase]) offset -= counts[phase++];
  slot.phase = static_cast<Phase>(phase);
  slot.index = static_cast<int>(offset);
  if (slot.phase == Phase::kTimed) slot.iteration += offset / aggregate_;
  if (slot.phase > Phase::kTimed) slot.iteration += iters_;
  if (slot.phase == Phase::kShareTime && offset == 1) slot.phase = Phase::kShareWrong;
  return slot;
}

uint64_t Schedule::SeqOf(uint64_t iteration) const {
  const uint64_t place = iteration / iters_;
  return place * per_place_ + 1 + warmup_ + (iteration % iters_) * aggregate_;
}

}  // namespace ftar::perf
