// One rank's life in a job: configuration, join, group, events, counters, leave.
//
// Purpose: the engine sees a group and plain answers, not the forty calls around them.
// Threads: events are reported from the library's threads; all else belongs to the main thread.
// Ownership: owns job and group; borrows the reporter, which must outlive it.
#ifndef FTAR_PERF_SESSION_H_
#define FTAR_PERF_SESSION_H_

#include <string>

#include "perf/case.h"
#include "perf/options.h"
#include "perf/reporter.h"

namespace ftar::perf {

class Session {
 public:
  Session(const Options& options, Reporter* reporter);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Join: the handle exists afterwards.  Enter: the group can be used; `window` in flight at most.
  ftarResult_t Join();
  ftarResult_t Enter(int window);
  ftarResult_t Leave();

  ftarJob_t job() const { return job_; }
  ftarGroup_t group() const { return group_; }
  int32_t replica() const { return replica_; }
  uint64_t first_seq() const { return first_seq_; }

  ftarGroupInfo Info() const;
  // The group's members now, in order.
  Layout CurrentLayout() const;
  bool HasReplica(int32_t replica) const;
  void SendCounters(uint64_t epoch);
  uint64_t Counter(const char* name) const;
  // What the last refused call said, for a person.
  static std::string LastError();

 private:
  ftarResult_t Configure(ftarConfig_t config);
  static void OnEvent(const ftarEvent* event, void* user);

  const Options& options_;
  Reporter* reporter_;
  ftarJob_t job_ = nullptr;
  ftarGroup_t group_ = nullptr;
  int32_t replica_ = -1;
  uint64_t first_seq_ = 0;
};

}  // namespace ftar::perf

#endif  // FTAR_PERF_SESSION_H_
