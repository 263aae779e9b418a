// What a member of a chaos run leaves behind: its record, one line an outcome, and a page of
// numbers that the run's master reads while it lives.
#ifndef FTAR_TESTS_CHAOS_RECORD_H_
#define FTAR_TESTS_CHAOS_RECORD_H_

#include <ftar/ftar.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

namespace chaos {

int64_t NowNs();  // CLOCK_MONOTONIC, the same in all namespaces
std::string Name(ftarId id);

// Lines are written whole and at once, so that a kill loses none that counts. Any thread.
class Record {
 public:
  bool Open(const std::string& path);
  void Line(const std::string& text);
  void Event(const ftarEvent& event);
  // A call that did not succeed, with what the library says about it.
  void Failure(const char* call, ftarResult_t code, const std::string& why);

 private:
  std::mutex mutex_;
  int fd_ = -1;
};

enum State : int64_t { kJoining = 1, kIn = 2, kLeaving = 3, kOut = 4 };

// Shared with the master: what the member says of itself, and what it is asked to do. The processes
// of a replica must leave at the same step, so the master names one.
struct Page {
  std::atomic<int64_t> progress_ns, state, incarnations, step;
  std::atomic<int64_t> leave_at, end;  // 0: not; `end`: and do not come back
  std::atomic<int64_t> heap_bytes;     // in use, a second ago at most
};
Page* MapPage(const std::string& path);

}  // namespace chaos

#endif  // FTAR_TESTS_CHAOS_RECORD_H_
