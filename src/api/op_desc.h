// An operation's descriptor, checked and translated. Everything that one member alone can find
// wrong with a call is found here, so that neither peers nor the reduction ever see it. Pure but
// for looking up memory handles, and a GPU that the first address of its memory opens; any thread.
#ifndef FTAR_API_OP_DESC_H_
#define FTAR_API_OP_DESC_H_

#include <functional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "ftar/ftar.h"
#include "runtime/job.h"

namespace ftar::api {

// What must be known of the group, in the view that the call names; only NeedsContext kinds read
// it.
struct OpContext {
  int32_t members = 1;
  int32_t my_rank = -1;              // -1: not known yet
  const device::Gpu* gpu = nullptr;  // the job's, if it is open
  // Before one is open: the GPU at an address that the host cannot read, opened now (Job::GpuAt).
  // Empty: this process uses none.
  std::function<Expected<device::Gpu*>(const void*)> gpu_at = nullptr;
};
// Broadcast's root and the segments of reduce-scatter and all-gather depend on the group.
inline bool NeedsContext(ftarKind_t kind) {
  return kind == FTAR_BROADCAST || kind == FTAR_REDUCE_SCATTER || kind == FTAR_ALLGATHER;
}

// Checks `desc` (read by ReadStruct) and fills `request`, on_done left out. Errors name the field
// as `prefix` and the field's name, for example "desc.recv" or "desc[3].recv".
Status TranslateOp(const ftarOpDesc& desc, std::string_view prefix, const OpContext& context,
                   runtime::OpRequest* request);

// Of a call like one that was checked: whether its buffers, which are the host's, are what they
// should be.
bool HostBuffersFit(const ftarOpDesc& desc);

// Finds the plan's name.
Status ParsePlan(const char* text, const std::string& argument, plan::PlanKind* plan);

}  // namespace ftar::api

#endif  // FTAR_API_OP_DESC_H_
