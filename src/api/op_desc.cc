#include "api/op_desc.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

#include "api/mapped.h"
#include "api/objects.h"
#include "reduce/reduce.h"

namespace ftar::api {
namespace {

// No view is larger in one column, so a count that fits this often fits whatever the view is.
constexpr uint64_t kMembersMax = 65'536;

bool Reduces(ftarKind_t kind) { return kind == FTAR_ALLREDUCE || kind == FTAR_REDUCE_SCATTER; }

std::string FieldOf(std::string_view prefix, const char* field) {
  return std::string(prefix) + "." + field;
}

Status Arg(std::string_view prefix, const char* field, const std::string& what) {
  const std::string name = FieldOf(prefix, field);
  return Status(Code::kArg, name, name + " " + what);
}

Status Unknown(std::string_view prefix, const char* field) {
  const std::string name = FieldOf(prefix, field);
  return Status(Code::kDevice, name,
                name + " cannot be looked up: CUDA's context in this process is broken");
}

Status Unsupported(std::string_view prefix, const char* field, const std::string& what) {
  const std::string name = FieldOf(prefix, field);
  return Status(Code::kUnsupported, name, name + " " + what);
}

Status CheckEnumerations(const ftarOpDesc& desc, std::string_view prefix) {
  if (desc.kind < FTAR_ALLREDUCE || desc.kind > FTAR_BARRIER) {
    return Arg(prefix, "kind", "is no operation: " + std::to_string(desc.kind));
  }
  if (desc.kind == FTAR_BARRIER) return Status::Ok();
  if (desc.dtype < FTAR_F32 || desc.dtype > FTAR_U64) {
    return Arg(prefix, "dtype", "is no element type: " + std::to_string(desc.dtype));
  }
  if (!Reduces(desc.kind)) return Status::Ok();
  if (desc.redop < FTAR_SUM || desc.redop > FTAR_WAVG) {
    return Arg(prefix, "redop", "is no operator: " + std::to_string(desc.redop));
  }
  if (!reduce::Supports(static_cast<reduce::Dtype>(desc.dtype),
                        static_cast<reduce::Redop>(desc.redop))) {
    return Arg(prefix, "redop", "FTAR_WAVG needs a floating type");
  }
  return Status::Ok();
}

Status CheckNumbers(const ftarOpDesc& desc, std::string_view prefix) {
  if (!std::isnan(desc.weight) && !(std::isfinite(desc.weight) && desc.weight >= 0)) {
    return Arg(prefix, "weight", "must be finite and not negative (NaN: the default)");
  }
  if (!std::isfinite(desc.scale) || desc.scale == 0) {
    return Arg(prefix, "scale", "must be finite and not 0; FTAR_OP_DESC_INIT sets 1");
  }
  if (Reduces(desc.kind) &&
      !reduce::TakesScale(static_cast<reduce::Dtype>(desc.dtype), desc.scale)) {
    return Arg(prefix, "scale", "is out of the range of f32, in which this type is computed");
  }
  if (desc.scale != 1 && (desc.kind == FTAR_BROADCAST || desc.kind == FTAR_ALLGATHER)) {
    return Unsupported(prefix, "scale", "must be 1: a broadcast and an all-gather only copy");
  }
  if (desc.timeout_ns < -1) return Arg(prefix, "timeout_ns", "is negative");
  return Status::Ok();
}

// Fields that wait for a later release.
Status CheckReserved(const ftarOpDesc& desc, std::string_view prefix) {
  if (desc.flags != 0) return Unsupported(prefix, "flags", "has a flag this library does not know");
  if (desc.priority != 0) {
    return Unsupported(prefix, "priority",
                       "must be 0: a group's operations are delivered in the order of their calls; "
                       "what is more urgent goes to a group with a priority of its own "
                       "(ftarGroupConfig.priority)");
  }
  return Status::Ok();
}

// Another GPU's memory, or another context's, is out of reach of this one's kernels.
Status CheckGpu(const device::PointerFacts& facts, const device::Gpu& gpu, std::string_view prefix,
                const char* field) {
  const int32_t ours = gpu.facts().device;
  if (facts.kind == device::PointerKind::kForeign) {
    return Arg(prefix, field,
               "is of a CUDA context that a program has made itself (cuCtxCreate), and this job "
               "uses the primary one of GPU " +
                   std::to_string(ours));
  }
  if (facts.kind != device::PointerKind::kDevice || facts.device == ours) return Status::Ok();
  return Arg(prefix, field,
             "is on GPU " + std::to_string(facts.device) + ", and this job uses GPU " +
                 std::to_string(ours));
}

Status CheckStream(const ftarOpDesc& desc, std::string_view prefix, const device::Gpu* gpu) {
  const bool on_stream = desc.stream_kind == FTAR_STREAM_CUDA;
  if (gpu == nullptr && (on_stream || desc.device != -1)) {
    const std::string field = FieldOf(prefix, on_stream ? "stream_kind" : "device");
    return Status(Code::kDevice, field, field + " needs a GPU, and there is none");
  }
  if (on_stream) {
    if (desc.device_outcome == nullptr) return Status::Ok();
    const device::PointerFacts facts = gpu->Identify(desc.device_outcome);
    if (facts.kind == device::PointerKind::kUnknown) return Unknown(prefix, "device_outcome");
    FTAR_RETURN_IF_ERROR(CheckGpu(facts, *gpu, prefix, "device_outcome"));
    const bool reachable = facts.kind != device::PointerKind::kHost &&
                           gpu->Holds(desc.device_outcome, sizeof(ftarDeviceOutcome));
    if (reachable) return Status::Ok();
    return Arg(prefix, "device_outcome", "is neither pinned memory nor the GPU's");
  }
  if (desc.stream_kind != FTAR_STREAM_NONE) return Arg(prefix, "stream_kind", "is no kind");
  if (desc.stream != nullptr) return Arg(prefix, "stream", "needs stream_kind FTAR_STREAM_CUDA");
  if (desc.device_outcome != nullptr) {
    return Arg(prefix, "device_outcome", "is written in the order of a stream, and there is none");
  }
  return Status::Ok();
}

// What a type is added up in and travels as is fixed in this release; a caller may spell it out.
Status CheckFormats(const ftarOpDesc& desc, std::string_view prefix) {
  const auto dtype = static_cast<reduce::Dtype>(desc.dtype);
  const ftarDtype_t accumulator = Reduces(desc.kind)
                                      ? static_cast<ftarDtype_t>(reduce::AccumulatorOf(
                                            dtype, static_cast<reduce::Redop>(desc.redop)))
                                      : desc.dtype;
  if (desc.accumulate != -1 && desc.accumulate != accumulator) {
    return Unsupported(prefix, "accumulate", "must be -1 or the accumulator the type gets anyway");
  }
  if (desc.wire != -1 && desc.wire != desc.dtype) {
    return Unsupported(prefix, "wire", "must be -1 or the element type");
  }
  return Status::Ok();
}

struct Range {
  uintptr_t begin = 0;
  uint64_t bytes = 0;
};

Status CheckBuffer(const void* data, uint64_t bytes, std::string_view prefix, const char* field) {
  if (bytes == 0) return Status::Ok();
  if (data == nullptr) return Arg(prefix, field, "is null but count is not 0");
  if (reinterpret_cast<uintptr_t>(data) > UINTPTR_MAX - bytes) {
    return Arg(prefix, field, "plus count runs over the end of the address space");
  }
  return Status::Ok();
}

bool Overlap(const Range& a, const Range& b) {
  return a.bytes > 0 && b.bytes > 0 && a.begin < b.begin + b.bytes && b.begin < a.begin + a.bytes;
}

Status CheckMem(ftarMem_t mem, const Range& range, std::string_view prefix, const char* field) {
  if (mem == nullptr) return Status::Ok();
  const auto object = FindHandle(mem);
  if (object == nullptr) return BadHandle(HandleKind::kMem, mem);
  const uintptr_t begin = reinterpret_cast<uintptr_t>(object->data);
  const bool inside = range.bytes == 0 || (range.begin >= begin && range.bytes <= object->bytes &&
                                           range.begin - begin <= object->bytes - range.bytes);
  if (inside) return Status::Ok();
  return Arg(prefix, field, "does not hold the whole buffer");
}

// Before a GPU is open: one is opened for what the host cannot read, so that calls on the host's
// memory open none, and what no GPU can be opened for is never followed.
Status FindGpu(const OpContext& context, const void* data, uint64_t bytes, std::string_view prefix,
               const char* field, const device::Gpu** gpu) {
  const bool known = *gpu != nullptr || context.gpu_at == nullptr || bytes == 0;
  if (known || IsReadable(data)) return Status::Ok();
  const Expected<device::Gpu*> found = context.gpu_at(data);
  if (found.ok() && *found != nullptr) {
    *gpu = *found;
    return Status::Ok();
  }
  if (found.ok() || !IsMapped(data, bytes)) {
    return Arg(prefix, field, "is not mapped, or not as far as count says, or cannot be read");
  }
  const std::string name = FieldOf(prefix, field);
  return Status(found.status().code(), name,
                name + " cannot be read by the host, and no GPU could be opened for it: " +
                    found.status().text());
}

// Of an address that the call reads or writes.
Status CheckPlace(const device::Gpu* gpu, const void* data, uint64_t bytes, std::string_view prefix,
                  const char* field, bool* on_device) {
  *on_device = false;
  if (gpu == nullptr || bytes == 0) return Status::Ok();
  const device::PointerFacts facts = gpu->Identify(data);
  if (facts.kind == device::PointerKind::kUnknown) return Unknown(prefix, field);
  FTAR_RETURN_IF_ERROR(CheckGpu(facts, *gpu, prefix, field));
  *on_device = facts.kind == device::PointerKind::kDevice;
  if (!*on_device) return Status::Ok();
  if (gpu->Holds(data, bytes)) return Status::Ok();
  return Arg(prefix, field, "is not allocated as far as count says");
}

// Both buffers are the GPU's, or both the host's, or there is only one.
Status CheckPlaces(const ftarOpDesc& desc, std::string_view prefix, const OpContext& context,
                   uint64_t send_bytes, uint64_t recv_bytes, bool* on_device) {
  bool send = false, recv = false;
  const device::Gpu* gpu = context.gpu;
  FTAR_RETURN_IF_ERROR(FindGpu(context, desc.send, send_bytes, prefix, "send", &gpu));
  FTAR_RETURN_IF_ERROR(FindGpu(context, desc.recv, recv_bytes, prefix, "recv", &gpu));
  FTAR_RETURN_IF_ERROR(CheckPlace(gpu, desc.send, send_bytes, prefix, "send", &send));
  FTAR_RETURN_IF_ERROR(CheckPlace(gpu, desc.recv, recv_bytes, prefix, "recv", &recv));
  *on_device = send || recv;
  if (send_bytes == 0 || recv_bytes == 0 || send == recv) return Status::Ok();
  return Arg(prefix, "recv", "and send must both be the GPU's memory or both the host's");
}

// `unit`: bytes of `count` elements.
Status CheckBuffers(const ftarOpDesc& desc, std::string_view prefix, const OpContext& context,
                    uint64_t unit, bool* on_device) {
  const uint64_t members = static_cast<uint64_t>(context.members > 0 ? context.members : 1);
  Range send{reinterpret_cast<uintptr_t>(desc.send), unit};
  Range recv{reinterpret_cast<uintptr_t>(desc.recv), unit};
  if (desc.kind == FTAR_REDUCE_SCATTER) send.bytes *= members;
  if (desc.kind == FTAR_ALLGATHER) recv.bytes *= members;
  // Only the root's input of a broadcast is read; the others need not have one.
  const bool reads = desc.kind != FTAR_BROADCAST || context.my_rank == desc.root;
  if (!reads) send.bytes = 0;
  FTAR_RETURN_IF_ERROR(CheckBuffer(desc.send, send.bytes, prefix, "send"));
  FTAR_RETURN_IF_ERROR(CheckBuffer(desc.recv, recv.bytes, prefix, "recv"));
  if (desc.send != desc.recv && Overlap(send, recv)) {
    return Arg(prefix, "recv", "overlaps send without being equal to it");
  }
  FTAR_RETURN_IF_ERROR(CheckMem(desc.send_mem, send, prefix, "send_mem"));
  FTAR_RETURN_IF_ERROR(CheckMem(desc.recv_mem, recv, prefix, "recv_mem"));
  FTAR_RETURN_IF_ERROR(CheckPlaces(desc, prefix, context, send.bytes, recv.bytes, on_device));
  if (*on_device) return Status::Ok();
  const bool covered = desc.send == desc.recv && send.bytes <= recv.bytes;
  if (!covered && MappedTogether(desc.send, send.bytes, desc.recv, recv.bytes)) return Status::Ok();
  if (!covered && !IsMapped(desc.send, send.bytes)) {
    return Arg(prefix, "send", "is not mapped, or not as far as count says");
  }
  if (IsMapped(desc.recv, recv.bytes)) return Status::Ok();
  return Arg(prefix, "recv", "is not mapped, or not as far as count says");
}

Status CountBytes(const ftarOpDesc& desc, std::string_view prefix, uint64_t* bytes) {
  const uint64_t element = reduce::ElementBytes(static_cast<reduce::Dtype>(desc.dtype));
  const bool segments = desc.kind == FTAR_REDUCE_SCATTER || desc.kind == FTAR_ALLGATHER;
  const uint64_t times = segments ? element * kMembersMax : element;
  if (desc.count > static_cast<uint64_t>(PTRDIFF_MAX) / times) {
    return Arg(prefix, "count",
               "is " + std::to_string(desc.count) + ", more bytes than an address space has");
  }
  *bytes = desc.count * element;
  return Status::Ok();
}

void FillSpec(const ftarOpDesc& desc, runtime::OpRequest* request) {
  collective::OpSpec& spec = request->spec;
  const auto dtype = static_cast<reduce::Dtype>(desc.dtype);
  // Operators and types that a kind does not read are set alike on all members, so that the digest
  // of the call does not see a difference that is none.
  const bool barrier = desc.kind == FTAR_BARRIER;
  spec.kind = static_cast<plan::Kind>(desc.kind);
  spec.dtype = barrier ? static_cast<uint8_t>(FTAR_U8) : static_cast<uint8_t>(desc.dtype);
  spec.redop = Reduces(desc.kind) ? static_cast<uint8_t>(desc.redop) : 0;
  const auto redop = static_cast<reduce::Redop>(spec.redop);
  spec.element_bytes = barrier ? 1 : static_cast<uint32_t>(reduce::ElementBytes(dtype));
  spec.accumulator_bytes =
      Reduces(desc.kind)
          ? static_cast<uint32_t>(reduce::ElementBytes(reduce::AccumulatorOf(dtype, redop)))
          : spec.element_bytes;
  spec.count = barrier ? 0 : desc.count;
  spec.in_place = !barrier && desc.send == desc.recv;
  spec.layout = desc.epoch;
  spec.weight = desc.weight;
  spec.scale = Reduces(desc.kind) ? desc.scale : 1;
  spec.timeout_ns = desc.timeout_ns > 0 ? desc.timeout_ns : 0;
  spec.tag = desc.tag;
  request->root_rank = desc.kind == FTAR_BROADCAST ? desc.root : 0;
  request->layout_epoch = desc.epoch;
  request->send = barrier ? nullptr : desc.send;
  request->recv = barrier ? nullptr : desc.recv;
  request->weight = desc.weight;
  request->timeout_ns = spec.timeout_ns;
  request->on_stream = desc.stream_kind == FTAR_STREAM_CUDA;
  request->stream = desc.stream;
  request->device_outcome = desc.device_outcome;
}

}  // namespace

Status ParsePlan(const char* text, const std::string& argument, plan::PlanKind* plan) {
  for (plan::PlanKind kind : {plan::PlanKind::kAuto, plan::PlanKind::kOneShot,
                              plan::PlanKind::kDirect, plan::PlanKind::kRing}) {
    if (std::strcmp(text, plan::PlanName(kind)) != 0) continue;
    *plan = kind;
    return Status::Ok();
  }
  const std::string shown(text, strnlen(text, 40));
  return Status(Code::kArg, argument,
                argument + " is '" + shown + "', not one of auto, oneshot, direct, ring");
}

bool HostBuffersFit(const ftarOpDesc& desc) {
  if (desc.kind == FTAR_BARRIER) return true;
  const uint64_t bytes = desc.count * reduce::ElementBytes(static_cast<reduce::Dtype>(desc.dtype));
  const Range send{reinterpret_cast<uintptr_t>(desc.send), bytes};
  const Range recv{reinterpret_cast<uintptr_t>(desc.recv), bytes};
  // Most often there is nothing to be said against them: the shorter way to find that out.
  const bool low = std::max(send.begin, recv.begin) <= UINTPTR_MAX - bytes;
  if (desc.send != nullptr && desc.recv != nullptr && low &&
      (desc.send == desc.recv || !Overlap(send, recv)) &&
      MappedTogether(desc.send, bytes, desc.recv, bytes))
    return true;
  bool on_device = false;
  return CheckBuffers(desc, "desc", OpContext(), bytes, &on_device).ok();
}

Status TranslateOp(const ftarOpDesc& desc, std::string_view prefix, const OpContext& context,
                   runtime::OpRequest* request) {
  FTAR_RETURN_IF_ERROR(CheckEnumerations(desc, prefix));
  FTAR_RETURN_IF_ERROR(CheckNumbers(desc, prefix));
  FTAR_RETURN_IF_ERROR(CheckReserved(desc, prefix));
  FTAR_RETURN_IF_ERROR(CheckStream(desc, prefix, context.gpu));
  FTAR_RETURN_IF_ERROR(CheckFormats(desc, prefix));
  if (desc.plan != nullptr) {
    FTAR_RETURN_IF_ERROR(ParsePlan(desc.plan, FieldOf(prefix, "plan"), &request->spec.plan));
  }
  if (desc.kind == FTAR_BROADCAST && (desc.root < 0 || desc.root >= context.members)) {
    return Arg(prefix, "root",
               "is " + std::to_string(desc.root) + ", not a rank below " +
                   std::to_string(context.members));
  }
  if (desc.kind == FTAR_BARRIER) {
    if (desc.count != 0) return Arg(prefix, "count", "must be 0 for a barrier");
  } else {
    uint64_t bytes = 0;
    FTAR_RETURN_IF_ERROR(CountBytes(desc, prefix, &bytes));
    FTAR_RETURN_IF_ERROR(CheckBuffers(desc, prefix, context, bytes, &request->on_device));
  }
  FillSpec(desc, request);
  return Status::Ok();
}

}  // namespace ftar::api
