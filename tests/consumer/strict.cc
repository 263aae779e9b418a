// What a C++ user's own warnings say of the public headers, where these are no system's: nothing.
#include <cstddef>
#include <vector>

#include "ftar/ftar.h"
#include "ftar/ftar.hpp"

size_t EachInitialiser();
size_t EachInitialiser() {
  const ftarErrorInfo error = FTAR_ERROR_INFO_INIT;
  const ftarEvent event = FTAR_EVENT_INIT;
  const ftarJobConfig job = FTAR_JOB_CONFIG_INIT;
  const ftarMemberInfo member = FTAR_MEMBER_INFO_INIT;
  const ftarViewInfo view = FTAR_VIEW_INFO_INIT;
  const ftarGroupConfig group = FTAR_GROUP_CONFIG_INIT;
  const ftarGroupInfo group_info = FTAR_GROUP_INFO_INIT;
  const ftarStepConfig step = FTAR_STEP_CONFIG_INIT;
  const ftarStepInfo step_info = FTAR_STEP_INFO_INIT;
  const ftarMemDesc mem = FTAR_MEM_DESC_INIT;
  const ftarOutcome outcome = FTAR_OUTCOME_INIT;
  const ftarOpDesc op = FTAR_OP_DESC_INIT;
  return error.size + event.size + job.size + member.size + view.size + group.size +
         group_info.size + step.size + step_info.size + mem.size + outcome.size + op.size;
}

double EachTemplate(const ftar::Job& job, const ftar::Group& group);
double EachTemplate(const ftar::Job& job, const ftar::Group& group) {
  std::vector<float> data(10), all(20);
  const ftarStepInfo step = ftar::Finish([&] { return job.BeginStep(); }).value();
  group.ShareState(data, step).OrThrow();
  group.AllReduce(data, FTAR_AVG).Finish().OrThrow();
  group.ReduceScatter(all, data, step).Finish().OrThrow();
  group.AllGather(data, all).Finish().OrThrow();
  group.Broadcast(data, 0).Finish().OrThrow();
  return group.Barrier().Finish().OrThrow().weight_sum;
}
