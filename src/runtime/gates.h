// The library's side of the gates by which users' streams and operations wait for each other
// (device/gpu.h has the cycle).
//
// A gate that a graph has captured goes through the cycle again at every launch of the graph; all
// others are used again for the next call when their stream has passed them. Under the job's lock.
// The memory is the pool's; a pool whose gates streams still wait for, or graphs still know, leaves
// it to them.
#ifndef FTAR_RUNTIME_GATES_H_
#define FTAR_RUNTIME_GATES_H_

#include <cstddef>
#include <vector>

#include "base/status.h"
#include "device/gpu.h"

namespace ftar::runtime {

class GatePool {
 public:
  explicit GatePool(device::Gpu* gpu) : gpu_(gpu) {}
  ~GatePool();
  GatePool(const GatePool&) = delete;
  GatePool& operator=(const GatePool&) = delete;

  Expected<device::Gate*> Take();
  // All that follows takes no memory. Of one that no stream has ever seen:
  void GiveBack(device::Gate* gate) { free_.push_back(gate); }
  // True once a cycle: the stream is there.
  static bool TakeReady(device::Gate* gate);
  // Lets the stream go on, now or when it comes. `again`: the gate is a graph's.
  void Open(device::Gate* gate, const device::Gate::Outcome& outcome, bool again);

 private:
  void TakePassed();

  device::Gpu* const gpu_;
  std::vector<device::Gate*> free_, opened_;
  std::vector<void*> blocks_;
  size_t gates_ = 0;
};

}  // namespace ftar::runtime

#endif  // FTAR_RUNTIME_GATES_H_
