// What stands behind each handle. Plain holders of what the runtime gave; they decide nothing.
// Shared between the handle table and the calls that are using them; see each for its threads.
#ifndef FTAR_API_OBJECTS_H_
#define FTAR_API_OBJECTS_H_

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "api/handles.h"
#include "base/ids.h"
#include "ftar/ftar.h"
#include "runtime/job.h"

namespace ftar::api {

struct ConfigObject {
  std::mutex lock;  // guards knobs
  std::vector<std::pair<std::string, std::string>> knobs;
};

struct JobObject {
  std::shared_ptr<runtime::Job> job;  // set before the handle is made
  std::atomic<bool> destroyed{false};
};

struct GroupObject {
  GroupObject() = default;
  ~GroupObject();
  GroupObject(const GroupObject&) = delete;
  GroupObject& operator=(const GroupObject&) = delete;

  std::shared_ptr<JobObject> job;
  runtime::GroupPtr group;
  GroupKey key = 0;
  std::atomic<uintptr_t> recurs{0};  // a handle of its operation that recurs (again.h); 0: none
};

template <>
struct HandleTraits<ftarGroup_t> {
  static constexpr HandleKind kKind = HandleKind::kGroup;
  using Object = GroupObject;
};

struct OpObject {
  std::shared_ptr<JobObject> job;
  runtime::OpPtr op;  // set before the handle reaches the user
  // Only where the next call may be like this one (again.h): in which group, and how it was called.
  ftarGroup_t group_handle = nullptr;
  runtime::GroupPtr group;
  ftarOpDesc called = FTAR_OP_DESC_INIT;
  uint64_t answered = 0;  // Outcome::alike of what its handle's answer says
};

// Immutable.
struct ViewObject {
  runtime::ViewPtr view;
  MemberId self;
  bool of_group = false;
  GroupKey key = 0;
  Seq first_seq = 0;  // mine, of the group
};

// Immutable.
struct MemObject {
  const void* data = nullptr;
  size_t bytes = 0;
};

template <>
struct HandleTraits<ftarConfig_t> {
  static constexpr HandleKind kKind = HandleKind::kConfig;
  using Object = ConfigObject;
};
template <>
struct HandleTraits<ftarJob_t> {
  static constexpr HandleKind kKind = HandleKind::kJob;
  using Object = JobObject;
};
template <>
struct HandleTraits<ftarOp_t> {
  static constexpr HandleKind kKind = HandleKind::kOp;
  using Object = OpObject;
};
template <>
struct HandleTraits<ftarView_t> {
  static constexpr HandleKind kKind = HandleKind::kView;
  using Object = ViewObject;
};
template <>
struct HandleTraits<ftarMem_t> {
  static constexpr HandleKind kKind = HandleKind::kMem;
  using Object = MemObject;
};

}  // namespace ftar::api

#endif  // FTAR_API_OBJECTS_H_
