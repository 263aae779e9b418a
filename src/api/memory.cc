// ftarMem*.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "api/call.h"
#include "api/mapped.h"
#include "api/objects.h"
#include "api/structs.h"
#include "ftar/ftar.h"

using namespace ftar;  // NOLINT: the C functions below live outside every namespace
using api::Call;
using api::CallFor;
using api::Where;

namespace {

Status ReadDesc(const ftarMemDesc* in, ftarMemDesc* out) {
  ftarMemDesc& desc = *out;
  if (in != nullptr) FTAR_RETURN_IF_ERROR(api::ReadStruct(in, "desc", &desc));
  if (desc.kind < FTAR_MEM_AUTO || desc.kind > FTAR_MEM_CUDA) {
    return Status(Code::kArg, "desc.kind", "desc.kind is no kind of memory");
  }
  if (desc.flags != 0) {
    return Status(Code::kUnsupported, "desc.flags",
                  "desc.flags has a flag this library does not know");
  }
  if (desc.device != -1 && desc.kind != FTAR_MEM_CUDA) {
    return Status(Code::kArg, "desc.device", "desc.device is for FTAR_MEM_CUDA");
  }
  if (desc.numa != -1) {
    return Status(Code::kUnsupported, "desc.numa", "desc.numa must be -1 in this release");
  }
  return Status::Ok();
}

}  // namespace

ftarResult_t ftarMemAlloc(ftarJob_t job, size_t bytes, const ftarMemDesc* desc, void** memory) {
  return CallFor(memory, "ftarMemAlloc", Where::kAnywhere, [&] {
    const auto owner = api::FindHandle(job);
    if (owner == nullptr) return api::BadHandle(api::HandleKind::kJob, job);
    if (memory == nullptr) return Status(Code::kArg, "memory", "memory is null");
    if (bytes == 0) return Status(Code::kArg, "bytes", "bytes is 0");
    ftarMemDesc wanted = FTAR_MEM_DESC_INIT;
    FTAR_RETURN_IF_ERROR(ReadDesc(desc, &wanted));
    if (bytes > static_cast<size_t>(PTRDIFF_MAX)) {
      return Status(Code::kMemory, "bytes",
                    std::to_string(bytes) + " bytes are more than an address space has");
    }
    Expected<void*> made = wanted.kind == FTAR_MEM_CUDA
                               ? owner->job->MemAllocDevice(bytes, wanted.device)
                               : owner->job->MemAlloc(bytes);
    if (made.ok()) *memory = *made;
    return made.status();
  });
}

ftarResult_t ftarMemFree(ftarJob_t job, void* memory) {
  return Call("ftarMemFree", Where::kAnywhere, [&] {
    if (memory == nullptr) return Status::Ok();
    const auto owner = api::FindHandle(job);
    if (owner == nullptr) return api::BadHandle(api::HandleKind::kJob, job);
    const Status freed = owner->job->MemFree(memory);
    api::NoteUnmapped();
    return freed;
  });
}

ftarResult_t ftarMemRegister(ftarJob_t job, void* memory, size_t bytes, const ftarMemDesc* desc,
                             ftarMem_t* mem) {
  return CallFor(mem, "ftarMemRegister", Where::kAnywhere, [&] {
    if (api::FindHandle(job) == nullptr) return api::BadHandle(api::HandleKind::kJob, job);
    if (mem == nullptr) return Status(Code::kArg, "mem", "mem is null");
    if (memory == nullptr) return Status(Code::kArg, "memory", "memory is null");
    if (bytes == 0) return Status(Code::kArg, "bytes", "bytes is 0");
    if (reinterpret_cast<uintptr_t>(memory) > UINTPTR_MAX - bytes) {
      return Status(Code::kArg, "bytes", "bytes runs over the end of the address space");
    }
    ftarMemDesc wanted = FTAR_MEM_DESC_INIT;
    FTAR_RETURN_IF_ERROR(ReadDesc(desc, &wanted));
    auto object = std::make_shared<api::MemObject>();
    object->data = memory;
    object->bytes = bytes;
    Expected<ftarMem_t> handle = api::AddHandle<ftarMem_t>(std::move(object));
    if (handle.ok()) *mem = *handle;
    return handle.status();
  });
}

ftarResult_t ftarMemDeregister(ftarMem_t mem) {
  return Call("ftarMemDeregister", Where::kAnywhere, [&] {
    if (mem == nullptr || api::RemoveHandle(mem) != nullptr) return Status::Ok();
    return api::BadHandle(api::HandleKind::kMem, mem);
  });
}
