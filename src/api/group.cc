// ftarGroup* but views and outcomes, and ftarStep*.
#include <cmath>
#include <cstring>
#include <memory>
#include <string>

#include "api/call.h"
#include "api/objects.h"
#include "api/structs.h"
#include "api/translate.h"
#include "engine/engine.h"
#include "ftar/ftar.h"

using namespace ftar;  // NOLINT: the C functions below live outside every namespace
using api::Call;
using api::CallFor;
using api::Where;

namespace {

constexpr size_t kNameMax = 255;
constexpr int32_t kWindowMax = 1024;  // as the knob's
constexpr int32_t kPriorityMax = 100;

Status CheckGroupConfig(const ftarGroupConfig& config) {
  if (config.flags != 0) {
    return Status(Code::kUnsupported, "config.flags",
                  "config.flags has a flag this library does not know");
  }
  if (config.priority < -kPriorityMax || config.priority > kPriorityMax) {
    return Status(
        Code::kArg, "config.priority",
        "config.priority is " + std::to_string(config.priority) + ", not within -100 and 100");
  }
  if (config.window < 0 || config.window > kWindowMax) {
    return Status(Code::kArg, "config.window",
                  "config.window is " + std::to_string(config.window) + ", not within 0 and 1024");
  }
  if (config.shard < -1) {
    return Status(Code::kArg, "config.shard", "config.shard is below -1");
  }
  if (config.name == nullptr) return Status::Ok();
  if (*config.name == '\0') return Status(Code::kArg, "config.name", "config.name is empty");
  if (strnlen(config.name, kNameMax + 1) > kNameMax) {
    return Status(Code::kArg, "config.name", "config.name is longer than 255 bytes");
  }
  return Status::Ok();
}

Status OpenGroup(const std::shared_ptr<api::JobObject>& owner, const ftarGroupConfig& config,
                 ftarGroup_t* group) {
  // Before the group is opened: the first one who opens it decides its window.
  const int32_t mine = owner->job->shard();
  if (config.shard != -1 && config.shard != mine) {
    return Status(Code::kUnsupported, "config.shard",
                  "config.shard is " + std::to_string(config.shard) +
                      "; a group is its members' own column, here " + std::to_string(mine));
  }
  const std::string name = config.name != nullptr ? config.name : "default";
  // The handle comes first, so that an opened group is never lost for want of memory.
  auto object = std::make_shared<api::GroupObject>();
  object->job = owner;
  object->key = engine::KeyOf(name);
  Expected<ftarGroup_t> handle = api::AddHandle<ftarGroup_t>(object);
  if (!handle.ok()) return handle.status();
  Expected<runtime::GroupPtr> opened = owner->job->OpenGroup(name, config.window, config.priority);
  if (!opened.ok()) {
    api::RemoveHandle(*handle);
    return opened.status();
  }
  object->group = *opened;
  *group = *handle;
  return Status::Ok();
}

Status CheckStepConfig(const ftarStepConfig& config) {
  if (config.step < -1) return Status(Code::kArg, "config.step", "config.step is below -1");
  if (config.step == INT64_MAX)  // one more is the next step's number
    return Status(Code::kArg, "config.step", "config.step is too large");
  if (!std::isnan(config.weight) && !(std::isfinite(config.weight) && config.weight >= 0)) {
    return Status(Code::kArg, "config.weight",
                  "config.weight must be finite and not negative (NaN: 1)");
  }
  if ((config.flags & ~FTAR_STEP_STRICT) != 0) {
    return Status(Code::kUnsupported, "config.flags",
                  "config.flags has a flag this library does not know");
  }
  if (config.hints != nullptr || config.hint_count != 0) {
    return Status(Code::kUnsupported, "config.hints", "hints are not understood in this release");
  }
  return Status::Ok();
}

Status CheckStepInfo(const ftarStepInfo* info) {
  return info != nullptr ? api::CheckOutput(info, "info") : Status::Ok();
}

// Hands the step's result over and says who is to blame where the step failed.
Status EndStepCall(const runtime::Job& job, const Status& status, const runtime::StepResult& result,
                   ftarStepInfo* info) {
  if (status.ok() && info != nullptr) api::WriteStruct(api::ToPublic(result), info);
  if (!status.ok() && result.failed != nullptr) {
    api::NoteCulprit(job.CulpritOf(result.failed, status.code()));
    return status;
  }
  return api::WithCulprit(job, status);
}

}  // namespace

ftarResult_t ftarGroupOpen(ftarJob_t job, const ftarGroupConfig* config, ftarGroup_t* group) {
  return CallFor(group, "ftarGroupOpen", Where::kNotInCallback, [&] {
    const auto owner = api::FindHandle(job);
    if (owner == nullptr) return api::BadHandle(api::HandleKind::kJob, job);
    if (group == nullptr) return Status(Code::kArg, "group", "group is null");
    ftarGroupConfig known = FTAR_GROUP_CONFIG_INIT;
    if (config != nullptr) FTAR_RETURN_IF_ERROR(api::ReadStruct(config, "config", &known));
    FTAR_RETURN_IF_ERROR(CheckGroupConfig(known));
    return OpenGroup(owner.Share(), known, group);
  });
}

ftarResult_t ftarGroupGetInfo(ftarGroup_t group, ftarGroupInfo* info) {
  return Call("ftarGroupGetInfo", Where::kAnywhere, [&] {
    const auto object = api::FindHandle(group);
    if (object == nullptr) return api::BadHandle(api::HandleKind::kGroup, group);
    FTAR_RETURN_IF_ERROR(api::CheckOutput(info, "info"));
    if (object->job->destroyed.load()) {
      return Status(Code::kState, "the job of this group was destroyed");
    }
    const runtime::GroupInfo from = object->job->job->group_info(object->group);
    ftarGroupInfo out = FTAR_GROUP_INFO_INIT;
    out.my_id = api::ToPublic(from.self);
    out.my_rank = from.rank;
    out.shard = from.shard;
    out.members = from.members;
    out.first_seq = from.first_seq;
    out.next_seq = from.next_seq;
    out.epoch = from.epoch;
    api::WriteStruct(out, info);
    return Status::Ok();
  });
}

ftarResult_t ftarGroupClose(ftarGroup_t group) {
  return Call("ftarGroupClose", Where::kNotInCallback, [&] {
    if (group == nullptr) return Status::Ok();
    const auto object = api::FindHandle(group);
    if (object == nullptr) return api::BadHandle(api::HandleKind::kGroup, group);
    // A group that is refused stays open and so does its handle. After the job there is nothing
    // left to close.
    if (!object->job->destroyed.load()) {
      FTAR_RETURN_IF_ERROR(object->job->job->CloseGroup(object->group));
    }
    api::RemoveHandle(group);
    return Status::Ok();
  });
}

ftarResult_t ftarStepBegin(ftarJob_t job, const ftarStepConfig* config, ftarStepInfo* info) {
  return Call("ftarStepBegin", Where::kNotInCallback, [&] {
    const auto owner = api::FindHandle(job);
    if (owner == nullptr) return api::BadHandle(api::HandleKind::kJob, job);
    ftarStepConfig known = FTAR_STEP_CONFIG_INIT;
    if (config != nullptr) FTAR_RETURN_IF_ERROR(api::ReadStruct(config, "config", &known));
    FTAR_RETURN_IF_ERROR(CheckStepConfig(known));
    FTAR_RETURN_IF_ERROR(CheckStepInfo(info));
    runtime::StepRequest request;
    request.step = known.step;
    request.weight = known.weight;
    request.strict = (known.flags & FTAR_STEP_STRICT) != 0;
    runtime::StepResult result;
    const Status status = owner->job->StepBegin(request, &result);
    return EndStepCall(*owner->job, status, result, info);
  });
}

ftarResult_t ftarStepEnd(ftarJob_t job, int64_t step, ftarStepInfo* info) {
  return Call("ftarStepEnd", Where::kNotInCallback, [&] {
    const auto owner = api::FindHandle(job);
    if (owner == nullptr) return api::BadHandle(api::HandleKind::kJob, job);
    if (step < -1) return Status(Code::kArg, "step", "step is below -1");
    FTAR_RETURN_IF_ERROR(CheckStepInfo(info));
    runtime::StepResult result;
    const Status status = owner->job->StepEnd(step, &result);
    return EndStepCall(*owner->job, status, result, info);
  });
}
