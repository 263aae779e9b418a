#include "perf/board.h"

#include <sys/mman.h>
#include <unistd.h>

#include "fmt/format.h"

namespace ftar::perf {
namespace {

constexpr size_t kBoardBytes = sizeof(BoardSlot) * kMaxProcesses;

const char* StateName(RankState state) {
  switch (state) {
    case RankState::kStarting: return "starting";
    case RankState::kJoining: return "joining the job";
    case RankState::kPreparing: return "preparing buffers for operation";
    case RankState::kStarts: return "starting operation";
    case RankState::kWaits: return "waiting for operation";
    case RankState::kVerifying: return "verifying operation";
    case RankState::kHolding: return "waiting for a newcomer before operation";
    case RankState::kSleeping: return "sleeping before operation";
    case RankState::kLeaving: return "leaving the job after operation";
    case RankState::kDone: return "done after operation";
  }
  return "in an unknown state at operation";
}

}  // namespace

std::string DescribeState(const BoardSlot& slot) {
  const auto state = static_cast<RankState>(slot.state.load());
  std::string text = StateName(state);
  if (state != RankState::kStarting && state != RankState::kJoining) {
    text += fmt::format(" {}", slot.seq.load());
  }
  return fmt::format("{} ({} delivered, iteration {})", text, slot.delivered.load(),
                     slot.iteration.load());
}

std::unique_ptr<Board> Board::Create() {
  const int fd = memfd_create("ftar-perf-board", 0);
  if (fd < 0) return nullptr;
  if (ftruncate(fd, kBoardBytes) != 0) {
    close(fd);
    return nullptr;
  }
  return Map(fd);
}

std::unique_ptr<Board> Board::Open(int fd) { return Map(fd); }

std::unique_ptr<Board> Board::Map(int fd) {
  // Fresh memory is zero, which is the start value of every field.
  void* memory = mmap(nullptr, kBoardBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return nullptr;
  return std::unique_ptr<Board>(new Board(fd, static_cast<BoardSlot*>(memory)));
}

Board::~Board() {
  munmap(slots_, kBoardBytes);
  close(fd_);
}

}  // namespace ftar::perf
