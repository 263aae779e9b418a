// Timed iterations with fresh data (--fresh), and the ideal's between them (--ideal).
//
// Purpose: in every iteration each rank writes its inputs, all meet, the operations run on the
// clock, and each rank reads its outputs, so that caches hold what they hold in a real program. The
// time of an iteration is that from the first rank's begin to the last rank's end. libftar's and
// the ideal's iterations come in pairs of blocks whose order alternates, so that a drift of the
// machine cancels in the ratio of each pair. Threads: single-threaded.  Ownership: borrows the
// arena.
#ifndef FTAR_PERF_SAMPLER_H_
#define FTAR_PERF_SAMPLER_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "perf/arena.h"
#include "perf/buffers.h"
#include "perf/case.h"
#include "perf/ideal.h"
#include "perf/options.h"
#include "perf/verify.h"

namespace ftar::perf {

// Where iteration `index` of a row lies among its pairs.
struct PairPosition {
  bool ideal_before = false, ideal_after = false;  // a block of the ideal's is due
  int block = 0;                                   // its iterations
};
PairPosition PositionOf(int iters, int pairs, int index);

class Sampler {
 public:
  using Work = std::function<ftarResult_t()>;
  // What runs in pairs with libftar's iterations, but for the ideal.
  struct Beside {
    Work work;  // null: nothing
    std::vector<BufferPair> buffers;
  };

  Sampler(const Options& options, Arena* arena, Buffers* memory);

  // A row in one placement: what each operation of an iteration writes and reads.
  void BeginPlace(const Row& row, Tile input, std::vector<Shape> shapes,
                  std::vector<BufferPair> buffers, Beside beside);
  // One iteration of libftar's, and the ideal's blocks around it.
  ftarResult_t Iterate(int index, const Work& work);
  // Elements of the ideal's results that differ from this tile; what may run on libftar's own
  // buffers runs once more for it, off the record. All ranks call it.
  uint64_t CountIdealWrong(const Tile& expected);

  // Nanoseconds of one iteration's operation, in order.
  const std::vector<int64_t>& times_ns() const { return times_ns_; }
  const std::vector<int64_t>& ideal_ns() const { return ideal_ns_; }

 private:
  ftarResult_t Take(const std::vector<BufferPair>& buffers, const Work& work,
                    std::vector<int64_t>* times_ns);
  ftarResult_t RunIdeal(int iterations);

  Arena* arena_;
  Buffers* memory_;  // where libftar's buffers lie
  const bool on_device_;
  const int rank_;
  const int64_t compute_ns_;
  std::optional<Ideal> ideal_;
  Work beside_;
  int iters_ = 0, pairs_ = 0;
  size_t width_ = 0;
  Tile input_;
  std::vector<Shape> shapes_;
  std::vector<BufferPair> buffers_, ideal_buffers_;
  std::vector<int64_t> times_ns_, ideal_ns_;
};

}  // namespace ftar::perf

#endif  // FTAR_PERF_SAMPLER_H_
