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

// What device_kernel.h's kernel does, for all threads of a block.
void RunBlock(const Batch& batch, HostFunction run, uint32_t block,
              void (*before_chunk)(uint64_t chunk)) {
  const auto threads = static_cast<uint32_t>(batch.threads);
  const auto blocks = static_cast<uint32_t>(batch.blocks);
  uint32_t chunk = block;
  for (uint32_t j = 0; j < batch.jobs.count; ++j) {
    const Job& job = batch.jobs.job[j];
    uint32_t sum = 0;
    for (; chunk < job.chunks; chunk += blocks) {
      if (before_chunk != nullptr) before_chunk(chunk);
      if (job.abort_word != nullptr && *job.abort_word != job.epoch) {
        if (job.stopped != nullptr) *job.stopped = 1;
        return;
      }
      for (uint32_t t = 0; t < threads; ++t) run(job, chunk, t, threads, &sum);
    }
    if (job.checksum != nullptr) *job.checksum += sum;
    chunk -= static_cast<uint32_t>(job.chunks);
  }
}

}  // namespace

Status RunOnHost(const Batch& batch, void (*before_chunk)(uint64_t chunk)) {
  const auto entry = std::find_if(List().begin(), List().end(),
                                  [&batch](const auto& e) { return e.id == batch.id; });
  if (entry == List().end()) return Status(Code::kUnsupported, "no such kernel");
  for (int block = 0; block < batch.blocks; ++block) {
    RunBlock(batch, entry->function, static_cast<uint32_t>(block), before_chunk);
  }
  return Status::Ok();
}

std::vector<Id> AllIds() {
  std::vector<Id> ids;
  for (const auto& entry : List()) ids.push_back(entry.id);
  return ids;
}

}  // namespace ftar::kernels
