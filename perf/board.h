// The board: one page of shared memory in which every rank shows what it is doing.
//
// Purpose: the launcher sees progress without a message per operation, can say where a rank hangs,
// and knows the exact time of a strike even though the struck process can report nothing more.
// Threads: each field has one writer (the rank, or where said the launcher) and is atomic.
// Ownership: Board unmaps its memory.
#ifndef FTAR_PERF_BOARD_H_
#define FTAR_PERF_BOARD_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

namespace ftar::perf {

inline constexpr int kMaxProcesses = 8192;  // of one run, dead ones included
inline constexpr int kMaxRanks = 256;       // at the same time

enum class RankState : int32_t {
  kStarting,
  kJoining,
  kPreparing,
  kStarts,
  kWaits,
  kVerifying,
  kHolding,
  kSleeping,
  kLeaving,
  kDone
};

struct alignas(64) BoardSlot {
  std::atomic<int32_t> state{0};
  std::atomic<int32_t> child_pid{0};   // of a forked child that must be ended with the run
  std::atomic<uint64_t> iteration{0};  // timed iterations begun
  std::atomic<uint64_t> seq{0};        // the operation that state speaks of
  std::atomic<uint64_t> delivered{0};  // operations delivered to this rank
  std::atomic<int32_t> leave{0};       // set by the launcher: leave at the next operation
  std::atomic<int32_t> end_asked{0};   // of slot 0, set by the launcher: choose an end
  std::atomic<uint64_t> end_seq{0};    // of slot 0, set by its rank: the run ends before this one
  std::atomic<int64_t> strike_ns{0};   // when the fault struck, 0 before
};

std::string DescribeState(const BoardSlot& slot);

class Board {
 public:
  // A new board in anonymous memory; fd() can be inherited by children.  Null on failure.
  static std::unique_ptr<Board> Create();
  // Maps the board that a launcher passed down.  Null on failure.
  static std::unique_ptr<Board> Open(int fd);
  ~Board();
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;

  int fd() const { return fd_; }
  BoardSlot& slot(int number) { return slots_[number]; }

 private:
  Board(int fd, BoardSlot* slots) : fd_(fd), slots_(slots) {}
  static std::unique_ptr<Board> Map(int fd);

  int fd_;
  BoardSlot* slots_;
};

}  // namespace ftar::perf

#endif  // FTAR_PERF_BOARD_H_
