#include "perf/schedule.h"

#include <algorithm>
#include <numeric>

#include "perf/arena.h"
#include "perf/types.h"

namespace ftar::perf {
namespace {

// Where options leave numbers to the size: so many iterations that a row takes about as long as
// the next, so many operations each that neither start nor clock shows, in a level 2 cache.
constexpr uint64_t kRowBytes = 256 << 20;
constexpr uint64_t kIterationsLeast = 20, kIterationsMost = 500;
constexpr int kWarmupPart = 10;
constexpr uint64_t kBatchBytes = 128 << 10;
constexpr uint64_t kBatchMost = 64;
// Waiting for a core makes everything so much slower at least. Small operations are as many for all
// that: until the system has spread the ranks over the cores some hundred take twice as long.
constexpr uint64_t kCrowd = 8;

void SetCounts(const Options& options, Row* row) {
  const uint64_t bytes = std::max<uint64_t>(row->bytes, 1);
  const uint64_t crowd = CoresSuffice(options.ranks) ? 1 : kCrowd;
  row->aggregate = options.aggregate;
  if (!row->buckets.empty()) row->aggregate = static_cast<int>(row->buckets.size());
  if (row->aggregate == 0)
    row->aggregate =
        static_cast<int>(std::clamp<uint64_t>(kBatchBytes / bytes / crowd, 1, kBatchMost / crowd));
  row->iters = options.iters;
  if (row->iters == 0)
    row->iters = static_cast<int>(
        std::clamp<uint64_t>(kRowBytes / bytes / crowd, kIterationsLeast, kIterationsMost));
  if (options.ideal != IdealKind::kNone) row->iters = std::max(row->iters, options.pairs);
  row->warmup = options.warmup >= 0 ? options.warmup : std::max(row->iters / kWarmupPart, 1);
  row->pairs = options.pairs;
}

void AddSizes(const Options& options, Row row, std::vector<Row>* rows) {
  for (uint64_t elements : options.buckets)
    row.buckets.push_back(elements * TypeOf(row.dtype).bytes);
  if (!row.buckets.empty()) {
    row.bytes = std::accumulate(row.buckets.begin(), row.buckets.end(), uint64_t{0});
    rows->push_back(row);
    return;
  }
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

uint64_t OpBytes(const Row& row, int index) {
  return row.buckets.empty() ? row.bytes : row.buckets[index];
}

Schedule::Schedule(const Options& options, bool share)
    : out_of_place_(options.out_of_place),
      beside_(options.matmul > 0),
      places_((options.out_of_place ? 1 : 0) + (options.in_place ? 1 : 0)),
      checks_(options.check),
      shares_(share ? 2 : 0) {
  for (int cycle = 0; cycle < options.cycles; ++cycle) {
    for (ftarKind_t kind : options.collectives) {
      const CollectiveInfo& collective = CollectiveOf(kind);
      Row row;
      row.cycle = cycle;
      row.kind = kind;
      if (kind == FTAR_BROADCAST) row.root = options.root;
      if (collective.typed) {
        AddTyped(options, row, collective.reduces, &rows_);
      } else {
        rows_.push_back(row);
      }
    }
  }
  begins_.push_back({0, 0});
  for (Row& row : rows_) {
    SetCounts(options, &row);
    const Begin begin = begins_.back();
    begins_.push_back({begin.seq + CountsOf(row).total * places_,
                       begin.iteration + static_cast<uint64_t>(row.iters) * places_});
  }
}

// Buckets are warmed up and checked all together, other rows operation by operation.
Schedule::Counts Schedule::CountsOf(const Row& row) const {
  const uint64_t together = row.buckets.empty() ? 1 : row.buckets.size();
  const uint64_t timed = static_cast<uint64_t>(row.iters) * static_cast<uint64_t>(row.aggregate);
  Counts counts = {
      {1, row.warmup * together, timed, beside_ ? timed : 0, checks_ * together, shares_}, 0};
  for (uint64_t count : counts.phases) counts.total += count;
  return counts;
}

Slot Schedule::At(uint64_t seq) const {
  const auto row = std::upper_bound(begins_.begin(), begins_.end() - 1, seq,
                                    [](uint64_t s, const Begin& begin) { return s < begin.seq; }) -
                   begins_.begin() - 1;
  const Counts counts = CountsOf(rows_[row]);
  const auto iters = static_cast<uint64_t>(rows_[row].iters);
  const uint64_t place = (seq - begins_[row].seq) / counts.total;
  uint64_t offset = (seq - begins_[row].seq) % counts.total;
  Slot slot;
  slot.row = static_cast<size_t>(row);
  slot.in_place = places_ == 2 ? place % 2 == 1 : !out_of_place_;
  slot.first_of_place = offset == 0;
  slot.last_of_place = offset + 1 == counts.total;
  slot.iteration = begins_[row].iteration + place * iters;
  int phase = 0;
  while (offset >= counts.phases[phase]) offset -= counts.phases[phase++];
  slot.phase = static_cast<Phase>(phase);
  slot.index = static_cast<int>(offset);
  if (slot.phase == Phase::kTimed)
    slot.iteration += offset / static_cast<uint64_t>(rows_[row].aggregate);
  if (slot.phase > Phase::kTimed) slot.iteration += iters;
  if (slot.phase == Phase::kShareTime && offset == 1) slot.phase = Phase::kShareWrong;
  return slot;
}

uint64_t Schedule::SeqOf(uint64_t iteration) const {
  const auto row = std::upper_bound(begins_.begin(), begins_.end() - 1, iteration,
                                    [](uint64_t i, const Begin& b) { return i < b.iteration; }) -
                   begins_.begin() - 1;
  const Counts counts = CountsOf(rows_[row]);
  const auto iters = static_cast<uint64_t>(rows_[row].iters);
  const uint64_t within = iteration - begins_[row].iteration;
  return begins_[row].seq + within / iters * counts.total + counts.phases[0] + counts.phases[1] +
         within % iters * static_cast<uint64_t>(rows_[row].aggregate);
}

}  // namespace ftar::perf
