// Where a rank's records go: down a pipe to ftar-perf's launcher, or, under another launcher, into
// the table that the member of rank 0 prints itself.
//
// Threads: Send is safe from any thread (events come from the library's).
// Ownership: a PipeReporter owns its descriptor.
#ifndef FTAR_PERF_REPORTER_H_
#define FTAR_PERF_REPORTER_H_

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "perf/options.h"
#include "perf/records.h"
#include "perf/schedule.h"

namespace ftar::perf {

class Reporter {
 public:
  virtual ~Reporter() = default;
  virtual void Send(const Record& record) = 0;
};

// Of a session that nobody asks about.
class SilentReporter : public Reporter {
 public:
  void Send(const Record&) override {}
};

// Writes JSON lines.  A launcher that has gone away is noticed by the kernel (PDEATHSIG), not here.
class PipeReporter : public Reporter {
 public:
  explicit PipeReporter(int fd) : fd_(fd) {}
  ~PipeReporter() override;
  void Send(const Record& record) override;

 private:
  std::mutex mutex_;
  int fd_;
};

class Table;

// Prints the table on the member whose rank is 0 at the time; says nothing on the others.
class DirectReporter : public Reporter {
 public:
  DirectReporter(const Options& options, const Schedule& schedule);
  ~DirectReporter() override;
  void Send(const Record& record) override;
  // Whether this member is the one that prints now.
  void SetPrinting(bool printing);
  // Footer and files; answers false when an element was wrong or a file could not be written.
  bool Finish();

 private:
  std::mutex mutex_;
  std::unique_ptr<Table> table_;
  bool printing_ = false;
  std::optional<HelloRecord> hello_;
  uint64_t wrong_ = 0;
  std::vector<std::string> errors_;
};

}  // namespace ftar::perf

#endif  // FTAR_PERF_REPORTER_H_
