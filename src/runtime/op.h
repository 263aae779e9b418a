// One started operation, and one opened group, as the runtime and its callers share them. Internal
// to runtime/.
//
// Threads: everything before `done` is written under the job's lock; `outcome` and `status` are
// written once, before `done` is set, and read by anybody after it. A caller's reference keeps an
// Op alive after its job.
#ifndef FTAR_RUNTIME_OP_H_
#define FTAR_RUNTIME_OP_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "reduce/reduce.h"
#include "runtime/job.h"

namespace ftar::runtime {

class Op {
 public:
  OpRequest request;
  uint64_t handle = 0;
  GroupKey group = 0;
  Seq seq = kNoSeq;         // known once the engine has taken it
  uint64_t send_bytes = 0;  // what kSend and kRecv references may reach
  uint64_t recv_bytes = 0;
  bool lends = false;  // peers of this host may read its results where they lie
  bool sums_aside = false;  // shared: they read its sums elsewhere, in the lane's area
  // Or there, in place, from where they land when all is done.
  std::shared_ptr<std::byte> aside;
  // It began as one that is shared by two; and they read its input in the lane's area.
  bool of_two = false, copied = false;
  TimeNs start_ns = 0;
  // Its stream's side; open when it is done. Null: no stream.
  device::Gate* gate = nullptr;
  bool in_graph = false;
  bool begun = false;  // the engine has heard of it
  bool holds = false;  // the resident kernel, see CloseGate
  uint64_t step = 0;   // counts StepBegin; ops of one step share it
  std::atomic<bool> done{false};
  Status status;
  collective::Outcome outcome;
};

// Whether the call can count its input so; what its arithmetic does not hold is refused.
inline bool TakesWeight(const collective::OpSpec& spec, double weight) {
  const auto redop = static_cast<reduce::Redop>(spec.redop);
  return redop != reduce::Redop::kWavg ||
         reduce::TakesWeight(static_cast<reduce::Dtype>(spec.dtype), redop, weight);
}

class Group {
 public:
  std::string name;
  GroupKey key = 0;
  std::atomic<bool> closed{false};  // set without the job's lock
};

}  // namespace ftar::runtime

#endif  // FTAR_RUNTIME_OP_H_
