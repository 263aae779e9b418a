// A runtime::Job that does what a test says instead of running anything, so that the C ABI can be
// tested alone. One world for the process; tests reset it.
#ifndef FTAR_TESTS_UNIT_API_FAKE_JOB_H_
#define FTAR_TESTS_UNIT_API_FAKE_JOB_H_

#include <functional>
#include <string>
#include <vector>

#include "runtime/job.h"

namespace ftar::runtime {

struct FakeWorld {
  // What calls answer.
  Status create, wait_ready, start, wait, close_group, leave;
  collective::Outcome outcome;  // of every operation, once it is done
  Culprit culprit;
  std::shared_ptr<wire::View> view = std::make_shared<wire::View>();
  int32_t members = 2, rank = 0;
  bool ops_done = true;                               // false: operations stay in progress
  bool throw_bad_alloc = false, throw_other = false;  // by Job::Start and StartAgain
  bool again = false;                                 // StartAgain and WaitAgain take what they can
  bool uses_gpu = false;

  // What calls asked.
  JobOptions options;
  std::vector<OpRequest> requests;
  std::vector<OpBuffers> again_with;
  StepRequest step;
  int32_t group_priority = 0;
  int destroyed = 0;
  Code reported = Code::kOk;
  std::string said;  // to Report and Evict

  std::function<void(const JobEvent&)> on_event;
  std::function<void()> in_leave;  // a callback that it runs
};

FakeWorld& World();
// A fresh world with a view of `members` replicas.
void ResetWorld(int32_t members = 2);
// Runs `body` as a callback of a job.
void AsCallback(const std::function<void()>& body);

}  // namespace ftar::runtime

#endif  // FTAR_TESTS_UNIT_API_FAKE_JOB_H_
