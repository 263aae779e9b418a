#include "device/executor.h"

namespace ftar::device {

Expected<std::unique_ptr<Executor>> OpenExecutor(Gpu* gpu, const ExecutorOptions& options) {
  if (gpu == nullptr) return Status(Code::kArg, "an executor needs a GPU");
  if (options.blocks < 1) return Status(Code::kArg, "an executor has at least one block");
  return Status(Code::kUnsupported, "no executor is built yet");
}

}  // namespace ftar::device
