#include "perf/arena.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

namespace ftar::perf {
namespace {

constexpr uint64_t kHugePage = 2 << 20;
constexpr int kSpinsWithCore = 20'000;  // some hundred microseconds
constexpr int kSpinsWithout = 20;

uint64_t RoundUp(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

void Relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

bool CoresSuffice(int ranks) {
  // Asking takes a file to be read, which is longer than most waits.
  static const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  return ranks <= cores;
}

Patience::Patience(int ranks) : spins_(CoresSuffice(ranks) ? kSpinsWithCore : kSpinsWithout) {}

void Patience::Pause() {
  if (spins_ > 0) {
    --spins_;
    Relax();
  } else {
    sched_yield();
  }
}

struct alignas(128) Arena::Header {
  int32_t ranks;
  uint64_t part_bytes;
};

struct alignas(128) Arena::Station {
  std::atomic<uint64_t> meetings;
  alignas(64) std::atomic<int64_t> begin_ns;
  std::atomic<int64_t> end_ns;
};

Arena::Arena(int fd, char* memory, uint64_t bytes) : fd_(fd), memory_(memory), bytes_(bytes) {}

Arena::~Arena() {
  munmap(memory_, bytes_);
  close(fd_);
}

std::unique_ptr<Arena> Arena::Map(int fd, uint64_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return nullptr;
  madvise(memory, bytes, MADV_HUGEPAGE);  // where the system allows it for shared memory
  return std::unique_ptr<Arena>(new Arena(fd, static_cast<char*>(memory), bytes));
}

std::unique_ptr<Arena> Arena::Create(int ranks, uint64_t part_bytes) {
  const uint64_t part = RoundUp(std::max<uint64_t>(part_bytes, 1), kPage);
  const uint64_t head = RoundUp(sizeof(Header) + sizeof(Station) * ranks, kHugePage);
  const uint64_t bytes = head + part * ranks;
  const int fd = memfd_create("ftar-perf-arena", MFD_CLOEXEC);
  if (fd < 0) return nullptr;
  std::unique_ptr<Arena> arena;
  if (ftruncate(fd, static_cast<off_t>(bytes)) == 0) arena = Map(fd, bytes);
  if (arena == nullptr) {
    close(fd);
    return nullptr;
  }
  arena->header().ranks = ranks;
  arena->header().part_bytes = part;
  return arena;
}

std::unique_ptr<Arena> Arena::Open(int fd) {
  struct stat info {};
  if (fstat(fd, &info) != 0 || info.st_size <= 0) return nullptr;
  return Map(fd, static_cast<uint64_t>(info.st_size));
}

Arena::Header& Arena::header() const { return *reinterpret_cast<Header*>(memory_); }

Arena::Station& Arena::station(int rank) const {
  return reinterpret_cast<Station*>(memory_ + sizeof(Header))[rank];
}

int Arena::ranks() const { return header().ranks; }

uint64_t Arena::part_bytes() const { return header().part_bytes; }

char* Arena::part(int rank) {
  return memory_ + bytes_ - header().part_bytes * static_cast<uint64_t>(header().ranks - rank);
}

void Arena::Meet(int rank) {
  const uint64_t meeting = station(rank).meetings.load(std::memory_order_relaxed) + 1;
  station(rank).meetings.store(meeting, std::memory_order_release);
  Patience patience(ranks());
  for (int other = 0; other < ranks(); ++other) {
    while (station(other).meetings.load(std::memory_order_acquire) < meeting) patience.Pause();
  }
}

void Arena::Stamp(int rank, int64_t begin_ns, int64_t end_ns) {
  station(rank).begin_ns.store(begin_ns, std::memory_order_relaxed);
  station(rank).end_ns.store(end_ns, std::memory_order_relaxed);
}

int64_t Arena::Elapsed() const {
  int64_t begin_ns = station(0).begin_ns.load(std::memory_order_relaxed);
  int64_t end_ns = station(0).end_ns.load(std::memory_order_relaxed);
  for (int rank = 1; rank < ranks(); ++rank) {
    begin_ns = std::min(begin_ns, station(rank).begin_ns.load(std::memory_order_relaxed));
    end_ns = std::max(end_ns, station(rank).end_ns.load(std::memory_order_relaxed));
  }
  return end_ns - begin_ns;
}

void Arena::Touch() {
  for (uint64_t i = 0; i < bytes_; i += kPage) {
    (void)*static_cast<volatile char*>(memory_ + i);
  }
}

}  // namespace ftar::perf
