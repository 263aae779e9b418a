#include "kernels/host_grid.h"

#include <algorithm>

namespace ftar::kernels {
namespace {

using HostFunction = void (*)(const Job& job, uint64_t chunk, uint32_t thread, uint32_t threads,
                              uint32_t* sum);

struct HostMaker {
  template <typename Work>
  static HostFunction Of() {
    return RunChunk<typename Work::Tile, Work::kUnroll>;
  }
};

Entries<HostFunction> MakeList() {
  Entries<HostFunction> list;
  Lister<HostMaker, HostFunction> lister(&list);
  lister.AddType<F32>();
  lister.AddType<F64>();
  lister.AddType<F16>();
  lister.AddType<BF16>();
  lister.AddType<F8E4M3>();
  lister.AddType<F8E5M2>();
  lister.AddType<I8>();
  lister.AddType<U8>();
  lister.AddType<I32>();
  lister.AddType<U32>();
  lister.AddType<I64>();
  lister.AddType<U64>();
  lister.AddAverage<AvgI8>();
  lister.AddAverage<AvgU8>();
  lister.AddAverage<AvgI32>();
  lister.AddAverage<AvgU32>();
  lister.AddWide();
  lister.AddMeasuring<F32>();
  lister.AddMeasuring<BF16>();
  lister.AddCopies();
  return list;
}

const Entries<HostFunction>& List() {
  static const Entries<HostFunction> kList = MakeList();
  return kList;
}

}  // namespace

Status RunOnHost(const Plan& plan, void (*before_chunk)(uint64_t chunk)) {
  const auto entry = std::find_if(List().begin(), List().end(),
                                  [&plan](const auto& e) { return e.id == plan.id; });
  if (entry == List().end()) return Status(Code::kUnsupported, "no such kernel");
  const Job& job = plan.job;
  const auto threads = static_cast<uint32_t>(plan.threads);
  const auto blocks = static_cast<uint64_t>(plan.blocks);
  uint32_t sum = 0;
  for (uint64_t block = 0; block < blocks; ++block) {
    for (uint64_t chunk = block; chunk < job.chunks; chunk += blocks) {
      if (before_chunk != nullptr) before_chunk(chunk);
      if (job.abort_word != nullptr && *job.abort_word != job.epoch) {
        if (job.stopped != nullptr) *job.stopped = 1;
        break;
      }
      for (uint32_t t = 0; t < threads; ++t) entry->function(job, chunk, t, threads, &sum);
    }
  }
  if (job.checksum != nullptr) *job.checksum += sum;
  return Status::Ok();
}

std::vector<Id> AllIds() {
  std::vector<Id> ids;
  for (const auto& entry : List()) ids.push_back(entry.id);
  return ids;
}

}  // namespace ftar::kernels
