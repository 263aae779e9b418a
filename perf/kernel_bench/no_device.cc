#include "perf/kernel_bench/bench.h"

namespace ftar::kernel_bench {

Status DeviceRows(const Plan&, const Report&) {
  return Status(Code::kUnsupported, "built without nvcc");
}

}  // namespace ftar::kernel_bench
