// The faults that a run asks for: parsing, and the thread that strikes inside the victim.
//
// Purpose: `--fault kill:2@40` means "rank 2 kills itself while timed iteration 40 is running".
// A strike from inside knows its own time exactly: it is stored in the rank's board slot, which
// outlives the process, immediately before the signal is raised.
// Threads: Striker::Arm is called by the rank's main thread; the strike happens on its own thread.
// Ownership: a Striker borrows the board slot.
#ifndef FTAR_PERF_FAULT_H_
#define FTAR_PERF_FAULT_H_

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>

namespace ftar::perf {

struct BoardSlot;

// kStart is the control of kJoin: the same program starts and does everything except join.
enum class FaultKind {
  kKill,
  kStop,
  kLeave,
  kJoin,
  kStart,
  kReset,
  kDelay,
  kCorrupt,
  kDrop,
  kExit
};

struct FaultSpec {
  FaultKind kind = FaultKind::kKill;
  int rank = -1;  // the victim; -1 for join and start, whose rank is chosen by the launcher
  uint64_t iteration = 0;  // counted over all timed iterations of the run
  int64_t delay_ms = 0;    // of kDelay
};

std::string_view FaultName(FaultKind kind);

// Where the library's test hook can strike.
std::span<const std::string_view> FaultStages();

// "KIND:R@I", "join@I", "start@I" or "delay:R@I:MS"; nothing when the text is none of them.
std::optional<FaultSpec> ParseFault(std::string_view text);
std::string ToString(const FaultSpec& fault);

// True when the rank raises the signal itself, false when the launcher or the library's test hook
// acts.
bool StrikesBySignal(FaultKind kind);
// True for faults that the library's test hook injects.
bool StrikesByHook(FaultKind kind);
// True for faults that it injects at the stage of --fault-stage.
bool StrikesAtStage(FaultKind kind);
// False when it needs a process of the victim's own.
bool StrikesOneRank(FaultKind kind);
// True when only a link with paths and checksums, that is tcp, can suffer it.
bool NeedsTcp(FaultKind kind);
// True when the victim is expected to be out of the group afterwards.
bool RemovesVictim(FaultKind kind);

// The hook's text for this fault at this operation: `kill@seq=7,stage=sending,chunk=1`; without the
// chunk when it is negative.
std::string HookText(const FaultSpec& fault, uint64_t seq, std::string_view stage, int chunk);

// Raises a signal in its own process after a delay, so that it lands in the middle of an operation.
class Striker {
 public:
  explicit Striker(BoardSlot* slot);
  ~Striker();
  Striker(const Striker&) = delete;
  Striker& operator=(const Striker&) = delete;

  // Strikes once, `delay_ns` from now.
  void Arm(FaultKind kind, int64_t delay_ns);

 private:
  void Main();

  BoardSlot* slot_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool armed_ = false;
  bool quit_ = false;
  FaultKind kind_ = FaultKind::kKill;
  int64_t due_ns_ = 0;
  std::thread thread_;
};

}  // namespace ftar::perf

#endif  // FTAR_PERF_FAULT_H_
