#include "api/translate.h"

#include <algorithm>
#include <cstddef>

#include "api/structs.h"
#include "device/gpu.h"
#include "plan/role.h"
#include "reduce/types.h"

namespace ftar::api {
namespace {

// The public numbers are frozen; the internal ones follow them.
static_assert(sizeof(ftarDeviceOutcome) == sizeof(device::Gate::Outcome) &&
              offsetof(ftarDeviceOutcome, weight_sum) ==
                  offsetof(device::Gate::Outcome, weight_sum) &&
              offsetof(ftarDeviceOutcome, epoch) == offsetof(device::Gate::Outcome, epoch));
static_assert(static_cast<int>(Code::kTimeout) == FTAR_TIMEOUT);
static_assert(static_cast<int>(Code::kArg) == FTAR_ERR_ARG);
static_assert(static_cast<int>(Code::kHandle) == FTAR_ERR_HANDLE);
static_assert(static_cast<int>(Code::kState) == FTAR_ERR_STATE);
static_assert(static_cast<int>(Code::kConfig) == FTAR_ERR_CONFIG);
static_assert(static_cast<int>(Code::kUnsupported) == FTAR_ERR_UNSUPPORTED);
static_assert(static_cast<int>(Code::kForked) == FTAR_ERR_FORKED);
static_assert(static_cast<int>(Code::kVersion) == FTAR_ERR_VERSION);
static_assert(static_cast<int>(Code::kMismatch) == FTAR_ERR_MISMATCH);
static_assert(static_cast<int>(Code::kAborted) == FTAR_ERR_ABORTED);
static_assert(static_cast<int>(Code::kAbsent) == FTAR_ERR_ABSENT);
static_assert(static_cast<int>(Code::kLink) == FTAR_ERR_LINK);
static_assert(static_cast<int>(Code::kCorrupt) == FTAR_ERR_CORRUPT);
static_assert(static_cast<int>(Code::kPeer) == FTAR_ERR_PEER);
static_assert(static_cast<int>(Code::kAuth) == FTAR_ERR_AUTH);
static_assert(static_cast<int>(Code::kEvicted) == FTAR_ERR_EVICTED);
static_assert(static_cast<int>(Code::kLeft) == FTAR_ERR_LEFT);
static_assert(static_cast<int>(Code::kQuorum) == FTAR_ERR_QUORUM);
static_assert(static_cast<int>(Code::kCoordinator) == FTAR_ERR_COORDINATOR);
static_assert(static_cast<int>(Code::kMemory) == FTAR_ERR_MEMORY);
static_assert(static_cast<int>(Code::kSystem) == FTAR_ERR_SYSTEM);
static_assert(static_cast<int>(Code::kDevice) == FTAR_ERR_DEVICE);
static_assert(static_cast<int>(Code::kInternal) == FTAR_ERR_INTERNAL);
static_assert(static_cast<int>(plan::Kind::kAllReduce) == FTAR_ALLREDUCE);
static_assert(static_cast<int>(plan::Kind::kReduceScatter) == FTAR_REDUCE_SCATTER);
static_assert(static_cast<int>(plan::Kind::kAllGather) == FTAR_ALLGATHER);
static_assert(static_cast<int>(plan::Kind::kBroadcast) == FTAR_BROADCAST);
static_assert(static_cast<int>(plan::Kind::kBarrier) == FTAR_BARRIER);
static_assert(static_cast<int>(reduce::Dtype::kF32) == FTAR_F32);
static_assert(static_cast<int>(reduce::Dtype::kU64) == FTAR_U64);
static_assert(reduce::kDtypeCount == FTAR_U64 + 1);
static_assert(static_cast<int>(reduce::Redop::kSum) == FTAR_SUM);
static_assert(static_cast<int>(reduce::Redop::kWavg) == FTAR_WAVG);
static_assert(reduce::kRedopCount == FTAR_WAVG + 1);
static_assert(static_cast<int>(runtime::EventType::kView) == FTAR_EVENT_VIEW);
static_assert(static_cast<int>(runtime::EventType::kEvicted) == FTAR_EVENT_EVICTED);
static_assert(static_cast<int>(runtime::EventType::kLevel) == FTAR_EVENT_LEVEL);
static_assert(kNoSeq == FTAR_NO_SEQ);

const collective::Participant* FindMember(const collective::Outcome& outcome, MemberId id) {
  const auto found = std::find_if(outcome.members.begin(), outcome.members.end(),
                                  [&](const collective::Participant& p) { return p.id == id; });
  return found == outcome.members.end() ? nullptr : &*found;
}

}  // namespace

void FillErrorInfo(const runtime::Culprit& culprit, ftarErrorInfo* info) {
  info->code = static_cast<ftarResult_t>(culprit.code);
  info->rank = culprit.rank;
  info->replica = culprit.replica;
  info->shard = culprit.shard;
  info->member = ToPublic(culprit.member);
  info->epoch = culprit.epoch;
  info->seq = culprit.seq;
  info->last_progress_ns = culprit.last_progress_ns;
  CopyText(culprit.host, info->host);
  CopyText(culprit.stage, info->stage);
  CopyText(culprit.argument, info->argument);
  CopyText(culprit.text, info->text);
}

void FillOutcome(const collective::Outcome& from, ftarOutcome* out) {
  out->status = static_cast<ftarResult_t>(from.status);
  out->flags = 0;
  out->epoch = from.epoch;
  out->participants = from.participants;
  out->attempts = from.attempts;
  out->plan = static_cast<int32_t>(from.plan);
  const collective::Participant* const slowest =
      from.slowest.valid() ? FindMember(from, from.slowest) : nullptr;
  out->slowest_rank = slowest != nullptr ? slowest->rank : -1;
  out->weight_sum = from.weight_sum;
  out->bytes_resent = from.bytes_resent;
  out->digest = 0;
  out->arrival_skew_ns = from.arrival_skew_ns;
  out->culprit = ToPublic(from.culprit);
  FillMoment(from, out);
}

void FillMoment(const collective::Outcome& from, ftarOutcome* out) {
  out->seq = from.seq;
  out->start_ns = from.start_ns;
  out->complete_ns = from.complete_ns;
  out->delivered_ns = from.delivered_ns;
}

ftarOutcome ToPublic(const collective::Outcome& outcome) {
  ftarOutcome out = FTAR_OUTCOME_INIT;
  FillOutcome(outcome, &out);
  return out;
}

ftarEvent ToPublic(const runtime::JobEvent& event) {
  ftarEvent out = FTAR_EVENT_INIT;
  out.type = static_cast<ftarEventType_t>(event.type);
  out.cause = static_cast<ftarResult_t>(event.cause);
  out.epoch = event.epoch;
  out.seq = event.seq;
  out.time_ns = event.time_ns;
  FillErrorInfo(event.who, &out.who);
  return out;
}

ftarStepInfo ToPublic(const runtime::StepResult& step) {
  ftarStepInfo out = FTAR_STEP_INFO_INIT;
  out.step = step.step;
  out.epoch = step.epoch;
  out.participants = step.participants;
  out.joined = step.joined;
  out.left = step.left;
  out.source = step.source;
  out.rank = step.rank;
  out.weight_sum = step.weight_sum;
  return out;
}

ftarMemberInfo ToPublic(const collective::Participant& participant) {
  ftarMemberInfo out = FTAR_MEMBER_INFO_INIT;
  out.id = ToPublic(participant.id);
  out.rank = participant.rank;
  out.replica = participant.replica;
  out.shard = participant.shard;
  out.weight = participant.weight;
  return out;
}

}  // namespace ftar::api
