// Memory that all ranks of a run share: a place to meet, stamps of time, and a part for each rank.
//
// Purpose: ranks can start an operation at the same moment, and one time can be made of theirs,
// without asking the library that is being measured. The ideal's buffers lie here too.
// Threads: each rank uses it from one thread.  Ownership: Arena unmaps its memory.
#ifndef FTAR_PERF_ARENA_H_
#define FTAR_PERF_ARENA_H_

#include <atomic>
#include <cstdint>
#include <memory>

namespace ftar::perf {

constexpr uint64_t kPage = 4096;

// Two lines: processors fetch them in pairs, and neighbours must not share what they fetch.
struct alignas(128) ArenaFlag {
  std::atomic<uint64_t> value{0};
};

// Whether each of so many ranks has a core of its own.
bool CoresSuffice(int ranks);

// Waits for another rank: spins while every rank has a core of its own, else gives the core away.
class Patience {
 public:
  explicit Patience(int ranks);
  void Pause();

 private:
  int spins_;
};

class Arena {
 public:
  // `part_bytes` for each of `ranks`; fd() can be inherited.  Null on failure.
  static std::unique_ptr<Arena> Create(int ranks, uint64_t part_bytes);
  static std::unique_ptr<Arena> Open(int fd);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  int fd() const { return fd_; }
  int ranks() const;
  uint64_t part_bytes() const;
  char* part(int rank);

  // Returns when all ranks have called it as often as this one.
  void Meet(int rank);
  // This rank began and ended something. Between two meetings after all have said so, Elapsed is
  // the time from the first begin to the last end.
  void Stamp(int rank, int64_t begin_ns, int64_t end_ns);
  int64_t Elapsed() const;
  // Maps every page of all parts here, so that none is missing later.
  void Touch();

 private:
  struct Header;
  struct Station;
  Arena(int fd, char* memory, uint64_t bytes);
  static std::unique_ptr<Arena> Map(int fd, uint64_t bytes);
  Header& header() const;
  Station& station(int rank) const;

  int fd_;
  char* memory_;
  uint64_t bytes_;
};

}  // namespace ftar::perf

#endif  // FTAR_PERF_ARENA_H_
