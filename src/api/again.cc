#include "api/again.h"

#include <cstring>
#include <utility>

#include "api/call.h"
#include "api/op_desc.h"
#include "api/structs.h"
#include "api/translate.h"

namespace ftar::api {
namespace {

// Alike but for the buffers, which are looked at, and the tag, which is nobody's business.
bool IsLike(const ftarOpDesc& desc, const ftarOpDesc& called) {
  ftarOpDesc same = desc;
  same.send = called.send;
  same.recv = called.recv;
  same.tag = called.tag;
  return std::memcmp(&same, &called, sizeof same) == 0;
}

// Of an operation that nobody else has.
bool Start(const GroupObject& group, const OpObject& kept, const ftarOpDesc& desc) {
  runtime::Job& job = *group.job->job;
  const bool barrier = desc.kind == FTAR_BARRIER;
  try {
    if (group.job->destroyed.load() || job.MayUseGpu() || !HostBuffersFit(desc)) return false;
    return job.StartAgain(group.group, kept.op,
                          {barrier ? nullptr : desc.send, barrier ? nullptr : desc.recv, desc.tag});
  } catch (...) {  // no memory: the long way says so
    return false;
  }
}

bool Await(const OpObject& object) {
  try {
    return !object.job->destroyed.load() && object.job->job->WaitAgain(object.op);
  } catch (...) {
    return false;
  }
}

void Keep(GroupObject& group, uintptr_t handle) {
  uintptr_t none = 0;
  if (group.kept.compare_exchange_strong(none, handle, std::memory_order_acq_rel)) return;
  HandleTable::Get().Discard(handle);
}

}  // namespace

GroupObject::~GroupObject() {
  if (const uintptr_t handle = kept.load()) HandleTable::Get().Discard(handle);
}

void LetRecur(ftarOp_t op, Used<ftarGroup_t> group, const ftarOpDesc& desc) {
  if (desc.size != sizeof desc) return;  // first: a shorter one of an older header ends there
  const bool plain = desc.stream_kind == FTAR_STREAM_NONE && desc.device == -1 &&
                     desc.send_mem == nullptr && desc.recv_mem == nullptr && desc.plan == nullptr &&
                     desc.epoch == 0 && desc.on_done == nullptr;
  const bool fits = desc.kind == FTAR_ALLREDUCE || desc.kind == FTAR_BARRIER;
  if (!plain || !fits) return;
  const auto object = FindHandle(op);
  object->group = std::move(group);
  object->called = desc;
}

bool StartAgain(ftarGroup_t handle, const ftarOpDesc* desc, ftarOp_t* op) noexcept {
  if (op == nullptr || desc == nullptr || desc->size != sizeof *desc || Forked() ||
      runtime::Job::InCallback())
    return false;
  Used<ftarGroup_t> group = FindHandle(handle);
  if (group == nullptr) return false;
  const uintptr_t kept = group->kept.exchange(0, std::memory_order_acq_rel);
  if (kept == 0) return false;
  HandleTable& table = HandleTable::Get();
  auto& object = *static_cast<OpObject*>(table.Retired(kept));
  if (!table.CanRevive(kept) || !IsLike(*desc, object.called)) {  // the next one takes its place
    table.Discard(kept);
    return false;
  }
  if (!Start(*group, object, *desc)) {
    Keep(*group, kept);
    return false;
  }
  object.group = std::move(group);
  *op = reinterpret_cast<ftarOp_t>(table.Revive(kept));
  return true;
}

bool AwaitAgain(ftarOp_t handle, int64_t timeout_ns, ftarOutcome* outcome) noexcept {
  if (timeout_ns == 0 || timeout_ns < -1 || Forked() || runtime::Job::InCallback() ||
      (outcome != nullptr && outcome->size != sizeof *outcome))
    return false;
  const auto object = FindHandle(handle);
  if (object == nullptr) return false;
  const collective::Outcome* result = runtime::OutcomeOf(object->op);
  if (result == nullptr && Await(*object)) result = runtime::OutcomeOf(object->op);
  if (result == nullptr || result->status != Code::kOk) return false;
  if (outcome != nullptr) WriteStruct(ToPublic(*result), outcome);
  return true;
}

bool ReleaseForAgain(ftarOp_t op) noexcept {
  if (Forked()) return false;
  HandleTable& table = HandleTable::Get();
  const auto handle = reinterpret_cast<uintptr_t>(op);
  auto* const object = static_cast<OpObject*>(table.Retire(HandleKind::kOp, handle));
  if (object == nullptr) return false;
  const Used<ftarGroup_t> group = std::move(object->group);
  const collective::Outcome* const result = runtime::OutcomeOf(object->op);
  if (group == nullptr || result == nullptr || result->status != Code::kOk) {
    table.Discard(handle);
  } else {
    Keep(*group, handle);
  }
  return true;
}

}  // namespace ftar::api
