// ftarOp*, ftarGroupOutcome and the named collectives.
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/again.h"
#include "api/call.h"
#include "api/objects.h"
#include "api/op_desc.h"
#include "api/structs.h"
#include "api/translate.h"
#include "base/undo.h"
#include "ftar/ftar.h"

using namespace ftar;  // NOLINT: the C functions below live outside every namespace
using api::Call;
using api::CallFor;
using api::Where;

namespace {

constexpr size_t kStartManyMax = 65'536;

Status ReadRequest(const ftarOpDesc* in, std::string_view prefix, const api::GroupObject& group,
                   runtime::OpRequest* request) {
  ftarOpDesc desc = FTAR_OP_DESC_INIT;
  FTAR_RETURN_IF_ERROR(api::ReadStruct(in, prefix, &desc));
  api::OpContext context;
  if (api::NeedsContext(desc.kind)) {
    // Who is out has no view to look ranks up in.
    Status may = group.job->job->MayStart(group.group);
    if (!may.ok()) return api::WithCulprit(*group.job->job, std::move(may));
    const runtime::GroupInfo info = group.job->job->group_info(group.group, desc.epoch);
    if (desc.epoch != 0 && info.epoch == 0) {
      const std::string field = std::string(prefix) + ".epoch";
      return Status(Code::kArg, field,
                    field + " is " + std::to_string(desc.epoch) +
                        ", none of this group's last views; a step or a group's info has one");
    }
    context.members = info.members;
    context.my_rank = info.rank;
    // Buffers are checked for these members: a view that comes before the start may have more.
    if (desc.epoch == 0) desc.epoch = info.epoch;
  }
  runtime::Job& job = *group.job->job;
  if (desc.stream_kind == FTAR_STREAM_CUDA || desc.device != -1) {
    const void* const buffers[] = {desc.send, desc.recv};
    const Expected<device::Gpu*> gpu =
        desc.device != -1 ? job.Gpu(desc.device) : job.GpuOfCall(desc.stream, buffers);
    if (!gpu.ok()) {
      return Status(gpu.status().code(), std::string(prefix) + ".device", gpu.status().text());
    }
  }
  context.gpu = job.GpuIfOpen();
  if (job.MayUseGpu()) context.gpu_at = [&job](const void* address) { return job.GpuAt(address); };
  const Status translated = api::TranslateOp(desc, prefix, context, request);
  // Of a broken context nothing comes any more: the others are not to wait for this member.
  if (translated.code() == Code::kDevice && job.GpuIfOpen() != nullptr)
    static_cast<void>(job.Abort(translated.text(), Code::kDevice));
  FTAR_RETURN_IF_ERROR(translated);
  if (desc.on_done != nullptr) {
    request->on_done = [fn = desc.on_done, user = desc.user](const collective::Outcome& outcome) {
      const ftarOutcome translated = api::ToPublic(outcome);
      fn(&translated, user);
    };
  }
  return Status::Ok();
}

// Starts `ops`, all or none. The handles are made first: what has been started is never lost for
// want of memory. `handles` is null if nobody will wait.
Status StartAll(const api::GroupObject& group, std::span<const runtime::OpPtr> ops,
                ftarOp_t* handles) {
  Status status;
  size_t made = 0;
  Undo undo([&] {
    for (size_t i = 0; i < made; ++i) api::RemoveHandle(std::exchange(handles[i], nullptr));
  });
  while (handles != nullptr && made < ops.size()) {
    auto object = std::make_shared<api::OpObject>();
    object->job = group.job;
    object->op = ops[made];
    Expected<ftarOp_t> handle = api::AddHandle<ftarOp_t>(std::move(object));
    status = handle.status();
    if (!handle.ok()) break;
    handles[made++] = *handle;
  }
  if (status.ok()) status = group.job->job->Start(group.group, ops);
  if (status.ok()) {
    undo.Keep();
    return status;
  }
  return api::WithCulprit(*group.job->job, std::move(status));
}

Status CheckGroup(ftarGroup_t group, api::Used<ftarGroup_t>* object) {
  *object = api::FindHandle(group);
  if (*object == nullptr) return api::BadHandle(api::HandleKind::kGroup, group);
  if (!(*object)->job->destroyed.load()) return Status::Ok();
  return Status(Code::kState, "group", "the job of this group was destroyed");
}

Status StartOne(const char* prefix, ftarGroup_t group, const ftarOpDesc* desc, ftarOp_t* op) {
  api::Used<ftarGroup_t> object;
  FTAR_RETURN_IF_ERROR(CheckGroup(group, &object));
  const runtime::OpPtr made = runtime::NewOp();
  FTAR_RETURN_IF_ERROR(ReadRequest(desc, prefix, *object, &runtime::RequestOf(made)));
  FTAR_RETURN_IF_ERROR(StartAll(*object, {&made, 1}, op));
  if (op != nullptr) api::LetRecur(*op, group, *desc);
  return Status::Ok();
}

Status StartMany(ftarGroup_t group, const ftarOpDesc* desc, size_t stride, size_t n,
                 ftarOp_t* ops) {
  if (n > kStartManyMax) return Status(Code::kArg, "n", "n is above 65536");
  api::Used<ftarGroup_t> object;
  FTAR_RETURN_IF_ERROR(CheckGroup(group, &object));
  if (n == 0) return Status::Ok();
  if (desc == nullptr) return Status(Code::kArg, "desc", "desc is null");
  if (stride < 2 * sizeof(size_t) || stride % alignof(ftarOpDesc) != 0) {
    return Status(Code::kArg, "stride",
                  "stride is " + std::to_string(stride) + ", not the size of a descriptor");
  }
  std::vector<runtime::OpPtr> made;
  made.reserve(n);
  for (size_t i = 0; i < n; ++i) {
    const auto* at =
        reinterpret_cast<const ftarOpDesc*>(reinterpret_cast<const std::byte*>(desc) + i * stride);
    const std::string prefix = "desc[" + std::to_string(i) + "]";
    if (at->size > stride) {
      return Status(Code::kArg, prefix + ".size", prefix + ".size is larger than stride");
    }
    made.push_back(runtime::NewOp());
    FTAR_RETURN_IF_ERROR(ReadRequest(at, prefix, *object, &runtime::RequestOf(made.back())));
  }
  return StartAll(*object, made, ops);
}

bool IsFinal(Code code) {
  return code != Code::kInProgress && code != Code::kTimeout && code != Code::kQuorum &&
         code != Code::kCoordinator;
}

Status WaitFor(ftarOp_t op, int64_t timeout_ns, ftarOutcome* outcome) {
  const auto object = api::FindHandle(op);
  if (object == nullptr) return api::BadHandle(api::HandleKind::kOp, op);
  if (timeout_ns < -1) return Status(Code::kArg, "timeout_ns", "timeout_ns is below -1");
  if (outcome != nullptr) FTAR_RETURN_IF_ERROR(api::CheckOutput(outcome, "outcome"));
  Status status;
  // In a callback, and after the job's end, there is nothing to drive: only to look.
  if (runtime::OutcomeOf(object->op) != nullptr || object->job->destroyed.load() ||
      runtime::Job::InCallback()) {
    status = runtime::OpStatusOf(object->op);
  } else {
    status = object->job->job->Wait(object->op, timeout_ns);
    // The job may have been destroyed meanwhile by another thread; then the op has its own answer.
    if (status.code() == Code::kState) status = runtime::OpStatusOf(object->op);
  }
  if (status.code() == Code::kTimeout && timeout_ns == 0) return Status(Code::kInProgress, "");
  static const collective::Outcome kNone;
  const collective::Outcome* const found = runtime::OutcomeOf(object->op);
  const collective::Outcome& result = found != nullptr ? *found : kNone;
  if (IsFinal(status.code()) && outcome != nullptr) {
    ftarOutcome out = api::ToPublic(result);
    out.status = static_cast<ftarResult_t>(status.code());
    api::WriteStruct(out, outcome);
  }
  if (!status.ok() && status.code() != Code::kInProgress) {
    api::NoteCulprit(object->job->job->CulpritOf(object->op, status.code()));
  }
  return status;
}

Status ListParticipants(ftarOp_t op, ftarMemberInfo* members, size_t stride, size_t capacity,
                        size_t* n) {
  const auto object = api::FindHandle(op);
  if (object == nullptr) return api::BadHandle(api::HandleKind::kOp, op);
  if (n == nullptr) return Status(Code::kArg, "n", "n is null");
  *n = 0;
  if (capacity > 0) {
    if (members == nullptr) return Status(Code::kArg, "members", "members is null");
    if (stride < 2 * sizeof(size_t) || stride % alignof(ftarMemberInfo) != 0) {
      return Status(Code::kArg, "stride",
                    "stride is " + std::to_string(stride) + ", not the size of a member");
    }
  }
  const collective::Outcome* const result = runtime::OutcomeOf(object->op);
  if (result == nullptr) return Status(Code::kInProgress, "");
  *n = result->members.size();
  for (size_t i = 0; i < result->members.size() && i < capacity; ++i) {
    auto* at =
        reinterpret_cast<ftarMemberInfo*>(reinterpret_cast<std::byte*>(members) + i * stride);
    at->size = stride < sizeof(ftarMemberInfo) ? stride : sizeof(ftarMemberInfo);
    api::WriteStruct(api::ToPublic(result->members[i]), at);
  }
  return Status::Ok();
}

}  // namespace

[[gnu::hot]] ftarResult_t ftarOpStart(ftarGroup_t group, const ftarOpDesc* desc, ftarOp_t* op) {
  if (api::StartAgain(group, desc, op)) return FTAR_OK;
  return CallFor(op, "ftarOpStart", Where::kNotInCallback,
                 [&] { return StartOne("desc", group, desc, op); });
}

ftarResult_t ftarOpStartMany(ftarGroup_t group, const ftarOpDesc* desc, size_t stride, size_t n,
                             ftarOp_t* ops) {
  for (size_t i = 0; ops != nullptr && i < n && n <= kStartManyMax; ++i) ops[i] = nullptr;
  return Call("ftarOpStartMany", Where::kNotInCallback,
              [&] { return StartMany(group, desc, stride, n, ops); });
}

ftarResult_t ftarOpTest(ftarOp_t op, ftarOutcome* outcome) {
  return Call("ftarOpTest", Where::kAnywhere, [&] { return WaitFor(op, 0, outcome); });
}

[[gnu::hot]] ftarResult_t ftarOpWait(ftarOp_t op, int64_t timeout_ns, ftarOutcome* outcome) {
  if (api::AwaitAgain(op, timeout_ns, outcome)) return FTAR_OK;
  return Call("ftarOpWait", Where::kNotInCallback,
              [&] { return WaitFor(op, timeout_ns, outcome); });
}

ftarResult_t ftarOpParticipants(ftarOp_t op, ftarMemberInfo* members, size_t stride,
                                size_t capacity, size_t* n) {
  return Call("ftarOpParticipants", Where::kAnywhere,
              [&] { return ListParticipants(op, members, stride, capacity, n); });
}

[[gnu::hot]] ftarResult_t ftarOpRelease(ftarOp_t op) {
  if (op != nullptr && api::ReleaseForAgain(op)) return FTAR_OK;
  return Call("ftarOpRelease", Where::kAnywhere, [&] {
    if (op == nullptr || api::RemoveHandle(op) != nullptr) return Status::Ok();
    return api::BadHandle(api::HandleKind::kOp, op);
  });
}

ftarResult_t ftarGroupOutcome(ftarGroup_t group, uint64_t seq, ftarOutcome* outcome) {
  return Call("ftarGroupOutcome", Where::kAnywhere, [&] {
    api::Used<ftarGroup_t> object;
    FTAR_RETURN_IF_ERROR(CheckGroup(group, &object));
    FTAR_RETURN_IF_ERROR(api::CheckOutput(outcome, "outcome"));
    const auto found = object->job->job->OutcomeOf(object->group, seq);
    if (!found.ok()) return found.status();
    if (found->status == Code::kInProgress) return Status(Code::kInProgress, "");
    api::WriteStruct(api::ToPublic(*found), outcome);
    return Status::Ok();
  });
}

ftarResult_t ftarAllReduce(const void* send, void* recv, uint64_t count, ftarDtype_t dtype,
                           ftarRedop_t redop, ftarGroup_t group, ftarOp_t* op) {
  ftarOpDesc desc = FTAR_OP_DESC_INIT;
  desc.send = send;
  desc.recv = recv;
  desc.count = count;
  desc.dtype = dtype;
  desc.redop = redop;
  return ftarOpStart(group, &desc, op);
}

ftarResult_t ftarReduceScatter(const void* send, void* recv, uint64_t recv_count, ftarDtype_t dtype,
                               ftarRedop_t redop, ftarGroup_t group, ftarOp_t* op) {
  ftarOpDesc desc = FTAR_OP_DESC_INIT;
  desc.kind = FTAR_REDUCE_SCATTER;
  desc.send = send;
  desc.recv = recv;
  desc.count = recv_count;
  desc.dtype = dtype;
  desc.redop = redop;
  return ftarOpStart(group, &desc, op);
}

ftarResult_t ftarAllGather(const void* send, void* recv, uint64_t send_count, ftarDtype_t dtype,
                           ftarGroup_t group, ftarOp_t* op) {
  ftarOpDesc desc = FTAR_OP_DESC_INIT;
  desc.kind = FTAR_ALLGATHER;
  desc.send = send;
  desc.recv = recv;
  desc.count = send_count;
  desc.dtype = dtype;
  return ftarOpStart(group, &desc, op);
}

ftarResult_t ftarBroadcast(const void* send, void* recv, uint64_t count, ftarDtype_t dtype,
                           int32_t root, ftarGroup_t group, ftarOp_t* op) {
  ftarOpDesc desc = FTAR_OP_DESC_INIT;
  desc.kind = FTAR_BROADCAST;
  desc.send = send;
  desc.recv = recv;
  desc.count = count;
  desc.dtype = dtype;
  desc.root = root;
  return ftarOpStart(group, &desc, op);
}

ftarResult_t ftarBarrier(ftarGroup_t group, ftarOp_t* op) {
  ftarOpDesc desc = FTAR_OP_DESC_INIT;
  desc.kind = FTAR_BARRIER;
  return ftarOpStart(group, &desc, op);
}
