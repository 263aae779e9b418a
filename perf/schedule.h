// The schedule: which operation has which sequence number.
//
// Purpose: all ranks start the same operations in the same order, so the number of an operation in
// its group says everything about it.  A newcomer learns from the library which number is its first
// and knows at once which row, placement and iteration that is.
// Threads: immutable after construction.  Ownership: owns its rows.
#ifndef FTAR_PERF_SCHEDULE_H_
#define FTAR_PERF_SCHEDULE_H_

#include <cstdint>
#include <vector>

#include "perf/options.h"

namespace ftar::perf {

// One line of the table.
struct Row {
  int cycle = 0;
  ftarKind_t kind = FTAR_ALLREDUCE;
  ftarDtype_t dtype = FTAR_F32;
  ftarRedop_t redop = FTAR_SUM;
  int32_t root = -1;
  uint64_t bytes = 0;  // of one operation, or of all buckets together
  int iters = 0;
  int warmup = 0;
  int aggregate = 1;              // operations of an iteration
  int pairs = 0;                  // of blocks of iterations, libftar's and the ideal's
  std::vector<uint64_t> buckets;  // bytes of each operation of an iteration where they differ
};

// Bytes of operation `index` of an iteration.
uint64_t OpBytes(const Row& row, int index);

// The order of these is the order within one placement of one row.
// kBeside: the timed ones once more, beside a matrix product (--matmul).
enum class Phase { kBarrier, kWarmup, kTimed, kBeside, kCheck, kShareTime, kShareWrong };

// One operation.
struct Slot {
  size_t row = 0;
  bool in_place = false;
  Phase phase = Phase::kBarrier;
  int index = 0;  // within the phase
  bool first_of_place = false;
  bool last_of_place = false;
  uint64_t iteration = 0;  // of timed operations: counted over the run, else the next one's
};

class Schedule {
 public:
  // With `share`, each placement ends with operations that exchange the times and the wrong
  // elements of the ranks, for a run that has no launcher to do so.
  Schedule(const Options& options, bool share);

  uint64_t size() const { return begins_.back().seq; }
  const std::vector<Row>& rows() const { return rows_; }
  Slot At(uint64_t seq) const;
  // The number of the first operation of a timed iteration.
  uint64_t SeqOf(uint64_t iteration) const;
  uint64_t iterations() const { return begins_.back().iteration; }

 private:
  // How many operations a placement of a row has in each phase, in their order.
  struct Counts {
    uint64_t phases[6];
    uint64_t total;
  };
  Counts CountsOf(const Row& row) const;

  struct Begin {
    uint64_t seq, iteration;
  };
  std::vector<Row> rows_;
  std::vector<Begin> begins_;  // of each row, and the end
  bool out_of_place_, beside_;
  uint64_t places_, checks_, shares_;
};

}  // namespace ftar::perf

#endif  // FTAR_PERF_SCHEDULE_H_
