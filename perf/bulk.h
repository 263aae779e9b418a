// Operations that run beside the measured ones, in a group of their own: as a training step's other
// gradients do.
//
// Purpose: so many operations of one size are in flight from begin to end, so that what is measured
// finds links and processors busy.
// Threads: a thread of its own posts them and waits for them; everything else belongs to the main
// thread.  Ownership: owns the group and its buffers; the session must outlive it.
#ifndef FTAR_PERF_BULK_H_
#define FTAR_PERF_BULK_H_

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "perf/buffers.h"
#include "perf/options.h"

namespace ftar::perf {

class Bulk {
 public:
  Bulk(const Options& options, ftarJob_t job) : options_(options), job_(job) {}
  ~Bulk();
  Bulk(const Bulk&) = delete;
  Bulk& operator=(const Bulk&) = delete;

  ftarResult_t Begin();
  // All members end with the same operation, the first that somebody wants to be the last, and what
  // is in flight behind it. Returns when those are delivered.
  ftarResult_t End();
  // Of the operations delivered so far, as the table counts them.
  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

 private:
  struct Flight {
    ftarOp_t op = nullptr;
    float* data = nullptr;
  };
  ftarResult_t Post(Flight* flight);
  ftarResult_t Await(const Flight& flight);
  void Main();

  const Options& options_;
  const ftarJob_t job_;
  ftarGroup_t group_ = nullptr;
  Buffers buffers_;
  std::vector<Flight> flights_;
  std::thread thread_;
  std::atomic<bool> ends_{false}, given_up_{false};
  std::atomic<uint64_t> bytes_{0};
  ftarResult_t status_ = FTAR_OK;
};

}  // namespace ftar::perf

#endif  // FTAR_PERF_BULK_H_
