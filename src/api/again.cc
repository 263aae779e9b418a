#include "api/again.h"

#include <bit>
#include <utility>

#include "api/call.h"
#include "api/mapped.h"
#include "api/op_desc.h"
#include "api/structs.h"
#include "api/translate.h"

namespace ftar::api {
namespace {

bool SameBits(double a, double b) {
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

// Alike but for the buffers, which are looked at, and the tag, which is nobody's business. Field by
// field, as they were written a moment ago: a wider read of them would wait until they have left
// the processor.
bool IsLike(const ftarOpDesc& a, const ftarOpDesc& b) {
  static_assert(sizeof(ftarOpDesc) == 168, "a new field is to be compared, too");
  return a.kind == b.kind && a.dtype == b.dtype && a.redop == b.redop && a.flags == b.flags &&
         a.count == b.count && a.root == b.root && a.priority == b.priority &&
         SameBits(a.weight, b.weight) && SameBits(a.scale, b.scale) &&
         a.timeout_ns == b.timeout_ns && a.send_mem == b.send_mem && a.recv_mem == b.recv_mem &&
         a.stream_kind == b.stream_kind && a.device == b.device && a.stream == b.stream &&
         a.accumulate == b.accumulate && a.wire == b.wire && a.plan == b.plan &&
         a.device_outcome == b.device_outcome && a.on_done == b.on_done && a.user == b.user &&
         a.epoch == b.epoch;
}

// Before a GPU is open a look for each buffer says that it is none's (OpContext::gpu_at).
bool OnHostAlone(const runtime::Job& job, const ftarOpDesc& desc) {
  if (!job.MayUseGpu()) return true;
  if (job.GpuIfOpen() != nullptr) return false;
  return (desc.send == nullptr || IsReadable(desc.send)) &&
         (desc.recv == nullptr || desc.recv == desc.send || IsReadable(desc.recv));
}

// Of an operation that nobody else has.
bool Start(const OpObject& claimed, const ftarOpDesc& desc) {
  const collective::Outcome* const last = runtime::OutcomeOf(claimed.op);
  if (last == nullptr || last->status != Code::kOk) return false;
  const JobObject& owner = *claimed.job;
  runtime::Job& job = *owner.job;
  const bool barrier = desc.kind == FTAR_BARRIER;
  try {
    if (owner.destroyed.load() || !HostBuffersFit(desc) || !OnHostAlone(job, desc)) return false;
    return job.StartAgain(*claimed.group, claimed.op,
                          {barrier ? nullptr : desc.send, barrier ? nullptr : desc.recv, desc.tag});
  } catch (...) {  // no memory: the long way says so
    return false;
  }
}

// Whether it has ended already, and well: then `answer` says how.
bool Answer(OpObject& claimed, ftarOutcome* answer) {
  const collective::Outcome* const result = runtime::OutcomeOf(claimed.op);
  if (result == nullptr || result->status != Code::kOk || answer == nullptr) return false;
  if (result->alike != 0 && result->alike == claimed.answered) {
    FillMoment(*result, answer);
  } else {
    FillOutcome(*result, answer);
    claimed.answered = result->alike;
  }
  return true;
}

bool Await(const OpObject& object) {
  try {
    return !object.job->destroyed.load() && object.job->job->WaitAgain(object.op);
  } catch (...) {
    return false;
  }
}

}  // namespace

GroupObject::~GroupObject() {
  if (const uintptr_t handle = recurs.load()) HandleTable::Get().EndRecurrence(handle);
}

void LetRecur(ftarOp_t op, ftarGroup_t group, const ftarOpDesc& desc) {
  if (desc.size != sizeof desc) return;  // first: a shorter one of an older header ends there
  const bool plain = desc.stream_kind == FTAR_STREAM_NONE && desc.device == -1 &&
                     desc.send_mem == nullptr && desc.recv_mem == nullptr && desc.plan == nullptr &&
                     desc.epoch == 0 && desc.on_done == nullptr;
  const bool fits = desc.kind == FTAR_ALLREDUCE || desc.kind == FTAR_BARRIER;
  if (!plain || !fits) return;
  const Used<ftarGroup_t> owner = FindHandle(group);
  const Used<ftarOp_t> object = FindHandle(op);
  if (owner == nullptr) return;  // closed meanwhile
  object->group_handle = group;
  object->group = owner->group;
  object->called = desc;
  HandleTable& table = HandleTable::Get();
  const auto handle = reinterpret_cast<uintptr_t>(op);
  table.LetRecur(handle);
  if (const uintptr_t last = owner->recurs.exchange(handle)) table.EndRecurrence(last);
  const auto beside = table.WordBeside(HandleKind::kGroup, reinterpret_cast<uintptr_t>(group));
  if (beside != nullptr) beside->store(handle, std::memory_order_release);
}

// Whose operation it is shows when it is claimed: until then the group may be closed, and its
// handle's place another one's.
bool StartAgain(ftarGroup_t group, const ftarOpDesc* desc, ftarOp_t* op) noexcept {
  if (op == nullptr || desc == nullptr || desc->size != sizeof *desc || Forked() ||
      runtime::Job::InCallback())
    return false;
  HandleTable& table = HandleTable::Get();
  const auto* const beside =
      table.WordBeside(HandleKind::kGroup, reinterpret_cast<uintptr_t>(group));
  const uintptr_t recurs = beside != nullptr ? beside->load(std::memory_order_acquire) : 0;
  auto* const object = recurs != 0 ? static_cast<OpObject*>(table.Claim(recurs)) : nullptr;
  if (object == nullptr) return false;
  if (object->group_handle != group || !IsLike(*desc, object->called) || !Start(*object, *desc)) {
    table.RestAgain(recurs);
    return false;
  }
  *op = reinterpret_cast<ftarOp_t>(table.Revive(recurs, Answer(*object, table.AnswerOf(recurs))));
  return true;
}

bool AwaitAgain(ftarOp_t handle, int64_t timeout_ns, ftarOutcome* outcome) noexcept {
  if (timeout_ns == 0 || timeout_ns < -1 || Forked() || runtime::Job::InCallback() ||
      (outcome != nullptr && outcome->size != sizeof *outcome))
    return false;
  if (const ftarOutcome* const answer =
          HandleTable::Get().FindAnswer(HandleKind::kOp, reinterpret_cast<uintptr_t>(handle))) {
    if (outcome != nullptr) *outcome = *answer;
    return true;
  }
  const auto object = FindHandle(handle);
  if (object == nullptr) return false;
  const collective::Outcome* result = runtime::OutcomeOf(object->op);
  if (result == nullptr && Await(*object)) result = runtime::OutcomeOf(object->op);
  if (result == nullptr || result->status != Code::kOk) return false;
  if (outcome != nullptr) FillOutcome(*result, outcome);
  return true;
}

bool ReleaseForAgain(ftarOp_t op) noexcept {
  return !Forked() && HandleTable::Get().Rest(HandleKind::kOp, reinterpret_cast<uintptr_t>(op));
}

}  // namespace ftar::api
