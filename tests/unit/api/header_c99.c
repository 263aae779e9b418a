/* The header is C99: compiled -std=c99 -pedantic -Werror, with every initialiser used once. */
#include <ftar/ftar.h>

int CheckHeaderAsC(void);

int CheckHeaderAsC(void) {
  ftarErrorInfo error = FTAR_ERROR_INFO_INIT;
  ftarEvent event = FTAR_EVENT_INIT;
  ftarJobConfig job = FTAR_JOB_CONFIG_INIT;
  ftarMemberInfo member = FTAR_MEMBER_INFO_INIT;
  ftarViewInfo view = FTAR_VIEW_INFO_INIT;
  ftarGroupConfig group = FTAR_GROUP_CONFIG_INIT;
  ftarGroupInfo group_info = FTAR_GROUP_INFO_INIT;
  ftarStepConfig step = FTAR_STEP_CONFIG_INIT;
  ftarStepInfo step_info = FTAR_STEP_INFO_INIT;
  ftarMemDesc mem = FTAR_MEM_DESC_INIT;
  ftarOutcome outcome = FTAR_OUTCOME_INIT;
  ftarOpDesc op = FTAR_OP_DESC_INIT;
  int good = error.size == sizeof(error) && event.who.size == sizeof(event.who) &&
             job.replica == -1 && job.min_replicas == -1 && member.rank == -1 &&
             view.my_rank == -1 && group.shard == -1 && group_info.my_rank == -1 &&
             step.step == -1 && step_info.source == -1 && mem.device == -1 &&
             outcome.slowest_rank == -1;
  good = good && op.root == 0 && op.scale == 1 && op.weight != op.weight && op.device == -1 &&
         op.accumulate == -1 && op.wire == -1 && op.timeout_ns == 0 && op.epoch == 0;
  return good && step.weight != step.weight;
}
