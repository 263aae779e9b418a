// Faults that strike inside this process at an exact point of an operation, for tests of real
// deaths. FTAR_TEST_FAULT is
//   KIND@seq=S,stage=STAGE[,chunk=C]
// KIND   kill     SIGKILL to ourselves            stop   SIGSTOP to ourselves    exit   _exit(3)
//        reset    every path of every link        drop   say and hear nothing any more
//        corrupt  the frame's checksum on the wire, so that its receiver finds it damaged (at a
//                 point that sends no frame: the next one to every peer)
//        Shared memory has neither paths nor checksums; there reset and corrupt do nothing and say
//        so in the log.
// STAGE  before (the call), sending (of raw or partial chunk C), reducing (before chunk C is
// reduced), gathering (before the
//        final chunk C is sent or landed), stability (complete, not yet delivered), between (after
//        delivery)
// FTAR_TEST_MALLOC=N lets N staging allocations succeed and fails all later ones.
// The parser is always there and tested; the runtime reads the variables only where FTAR_TEST_HOOKS
// is built in. Not synchronised: the job's lock covers it.
#ifndef FTAR_RUNTIME_TEST_HOOK_H_
#define FTAR_RUNTIME_TEST_HOOK_H_

#include <cstdint>
#include <optional>
#include <string>

#include "base/ids.h"
#include "base/status.h"

namespace ftar::runtime {

enum class FaultKind { kKill, kStop, kReset, kDrop, kExit, kCorrupt };
enum class FaultStage { kBefore, kSending, kReducing, kGathering, kStability, kBetween };

struct FaultPlan {
  FaultKind kind = FaultKind::kKill;
  FaultStage stage = FaultStage::kBefore;
  Seq seq = 0;
  int64_t chunk =
      -1;  // the chunk, or the how-manieth where a stage has no chunk number; -1: the first
};

Expected<FaultPlan> ParseFaultPlan(const std::string& text);

class TestHook {
 public:
  TestHook() = default;
  explicit TestHook(FaultPlan plan) : plan_(plan) {}

  bool armed() const { return plan_.has_value(); }
  // The operation it waits for, if it waits for this stage.
  std::optional<Seq> seq_at(FaultStage stage) const {
    return plan_ && plan_->stage == stage ? std::optional<Seq>(plan_->seq) : std::nullopt;
  }
  // Strikes at most once. Kill, stop and exit act here and now; the others are returned for the
  // driver to carry out. `chunk` < 0: this point has no chunk number, the calls are counted
  // instead.
  std::optional<FaultKind> At(FaultStage stage, Seq seq, int64_t chunk);

 private:
  std::optional<FaultPlan> plan_;
  int64_t seen_ = 0;
};

}  // namespace ftar::runtime

#endif  // FTAR_RUNTIME_TEST_HOOK_H_
