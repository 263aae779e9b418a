// Goal: on a real device both executors give the host's bits, hand over quickly, stop quickly at
// any moment; gates hold streams and graphs; processes that share memory outlive each other's
// death.
//
// A program of its own, like ftar-gpu-test. Exits with 77 where there is no device.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "fault.h"
#include "kernels/host_grid.h"

namespace ftar::device {

int failures = 0;

void Expect(bool good, const std::string& what) {
  if (good) return;
  if (++failures <= 20) std::printf("  FAILED: %s\n", what.c_str());
}

void ExpectOk(const Status& status, const std::string& what) {
  Expect(status.ok(), what + ": " + status.ToString());
}

TimeNs Now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

double Quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(q * static_cast<double>(values.size() - 1))];
}

void Bar(const std::string& name, double value, const std::string& unit, double goal) {
  const bool met = value <= goal;
  std::printf("bar %-28s  %.2f %s (goal %.2f): %s\n", name.c_str(), value, unit.c_str(), goal,
              met ? "MET" : "NOT MET");
}

Expected<std::unique_ptr<Gpu>> OpenThisGpu() { return OpenGpu(FTAR_CUDA_LIBRARY, -1); }

Memory::Memory(size_t bytes) : bytes_(bytes) {
  const Expected<void*> place = space_.Allocate(bytes);
  ExpectOk(place.status(), "allocate");
  if (place.ok()) data_ = *place;
}
Memory::~Memory() { ExpectOk(space_.Free(data_), "free"); }
void Memory::Write(const std::vector<unsigned char>& bytes) {
  ExpectOk(space_.CopyIn(data_, bytes.data(), bytes.size()), "copy in");
}
std::vector<unsigned char> Memory::Read() const {
  std::vector<unsigned char> bytes(bytes_);
  ExpectOk(space_.CopyOut(bytes.data(), data_, bytes_), "copy out");
  return bytes;
}

std::vector<unsigned char> RandomBytes(size_t bytes, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<unsigned char> out(bytes);
  for (size_t i = 0; i + 8 <= bytes; i += 8) {
    const uint64_t word = random();
    std::memcpy(&out[i], &word, 8);
  }
  return out;
}

kernels::Plan Copy(const void* from, void* to, size_t bytes) {
  return kernels::PlanCopy(from, {&to, 1}, bytes).value();
}

bool Drain(Executor* executor) {
  const TimeNs deadline = Now() + 10 * kSecond;
  while (executor->Poll(Now()) < executor->submitted()) {
    if (Now() > deadline || !executor->status().ok()) {
      ExpectOk(executor->status(), "the executor");
      Expect(false, "plans do not end");
      return false;
    }
  }
  return true;
}

namespace {

struct NamedOptions {
  const char* name;
  ExecutorOptions options;
};
constexpr NamedOptions kKinds[] = {
    {"bounded", {.kind = ExecutorKind::kBounded}},
    {"resident, 1 block", {.kind = ExecutorKind::kResident, .blocks = 1}},
    {"resident, 2 blocks", {.kind = ExecutorKind::kResident, .blocks = 2}},
    {"resident, 4 blocks", {.kind = ExecutorKind::kResident, .blocks = 4}},
};

constexpr size_t kArenaBytes = size_t{8} << 20;

// A reduction or a copy between random places, of a kind that the resident kernel knows or not.
kernels::Plan DrawPlan(std::mt19937_64* random, unsigned char* base) {
  using reduce::Dtype;
  static constexpr Dtype kDtypes[] = {Dtype::kF32, Dtype::kBF16, Dtype::kF16, Dtype::kI32,
                                      Dtype::kF64};
  const Dtype dtype = kDtypes[(*random)() % 5];
  const size_t count = 1 + (*random)() % 60000;
  const auto place = [&] { return base + (*random)() % 16 * (kArenaBytes / 16); };
  void* to = place();
  if ((*random)() % 3 == 0) return Copy(place(), to, to == base ? 0 : count);
  const reduce::Source sources[] = {{.data = place(), .format = dtype, .weight = 1},
                                    {.data = place(), .format = dtype, .weight = 1},
                                    {.data = to, .format = dtype, .weight = 1}};
  return kernels::PlanReduction({.dtype = dtype,
                                 .redop = reduce::Redop::kAvg,
                                 .sources = {sources, 2 + (*random)() % 2},
                                 .destinations = {&to, 1},
                                 .count = count,
                                 .divisor = 3},
                                {}, {.chunk_bytes = 65536})
      .value();
}

std::unique_ptr<Executor> Open(Gpu* gpu, const NamedOptions& kind) {
  auto executor = OpenExecutor(Unowned(gpu), kind.options);
  ExpectOk(executor.status(), kind.name);
  return executor.ok() ? std::move(*executor) : nullptr;
}

}  // namespace

void TestBits(Gpu* gpu, uint64_t seed) {
  const std::vector<unsigned char> before = RandomBytes(kArenaBytes, seed);
  std::vector<unsigned char> model = before;
  constexpr int kPlans = 200;
  std::mt19937_64 same(seed);
  for (int i = 0; i < kPlans; ++i) {
    ExpectOk(kernels::RunOnHost(DrawPlan(&same, model.data())), "host");
  }
  for (const NamedOptions& kind : kKinds) {
    Memory arena(kArenaBytes);
    arena.Write(before);
    const auto executor = Open(gpu, kind);
    if (executor == nullptr) continue;
    std::mt19937_64 random(seed);
    for (int i = 0; i < kPlans; ++i) {
      executor->Submit(DrawPlan(&random, arena.data()));
      if (i % 3 == 0) executor->Poll(Now());
    }
    Drain(executor.get());
    Expect(arena.Read() == model, std::string(kind.name) + ": other bits than the host");
  }
}

void TestHandshake(Gpu* gpu) {
  for (const NamedOptions& kind : kKinds) {
    const auto executor = Open(gpu, kind);
    if (executor == nullptr) continue;
    Memory memory(4096);
    const kernels::Plan plan = Copy(memory.data(), memory.data() + 2048, 64);
    std::vector<double> us;
    for (int i = 0; i < 5000; ++i) {
      const TimeNs start = Now();
      const uint64_t number = executor->Submit(plan);
      while (executor->Poll(Now()) < number && Now() < start + kSecond) {
      }
      if (i >= 500) us.push_back(static_cast<double>(Now() - start) / 1e3);
    }
    const double median = Quantile(us, 0.5);
    std::printf("  %-18s handshake median %.2f us, p99 %.2f us\n", kind.name, median,
                Quantile(us, 0.99));
    if (kind.options.kind == ExecutorKind::kResident && kind.options.blocks == 2) {
      Bar("handshake, resident", median, "us", 5);
    }
  }
}

// What a launch costs the host, alone and for eight plans: to the end of the last of many.
void TestLaunches(Gpu* gpu) {
  constexpr int kLaunches = 2000;
  const Expected<void*> memory = gpu->AllocatePinned(sizeof(uint64_t));
  ExpectOk(memory.status(), "pinned");
  if (!memory.ok()) return;
  auto* const done = static_cast<uint64_t*>(*memory);
  uint64_t seq = 0;
  Memory data(4096 * 2 * kernels::kMaxJobs);
  for (const uint32_t jobs : {1u, kernels::kMaxJobs}) {
    kernels::Batch batch;
    for (uint32_t j = 0; j < jobs; ++j) {
      unsigned char* const from = data.data() + 8192 * j;
      Expect(batch.Add(Copy(from, from + 4096, 64)), "a batch");
    }
    const TimeNs start = Now();
    for (int i = 0; i < kLaunches; ++i) ExpectOk(gpu->Launch(batch, done, ++seq), "launch");
    const TimeNs launched = Now();
    while (std::atomic_ref<uint64_t>(*done).load(std::memory_order_acquire) < seq) {
      if (Now() > launched + 10 * kSecond) return Expect(false, "launches do not end");
    }
    std::printf("  launch of %u jobs    %.2f us of the host, %.2f us to its end\n", jobs,
                static_cast<double>(launched - start) / 1e3 / kLaunches,
                static_cast<double>(Now() - start) / 1e3 / kLaunches);
  }
  ExpectOk(gpu->FreePinned(done), "free");
}

// Copies for milliseconds are under way; the abort comes anywhere among them.
void TestAborts(Gpu* gpu, uint64_t seed, int times) {
  constexpr size_t kBytes = size_t{16} << 20;
  Memory from(kBytes), to(kBytes);
  std::mt19937_64 random(seed);
  for (const NamedOptions& kind : {kKinds[0], kKinds[2]}) {
    const auto executor = Open(gpu, kind);
    if (executor == nullptr) continue;
    std::vector<double> ms;
    for (int i = 0; i < times; ++i) {
      for (int p = 0; p < 16; ++p) executor->Submit(Copy(from.data(), to.data(), kBytes));
      const TimeNs moment = Now() + static_cast<TimeNs>(random() % 3'000'000);
      while (Now() < moment) executor->Poll(Now());
      const TimeNs struck = Now();
      executor->Abort();
      if (!Drain(executor.get())) return;
      ms.push_back(static_cast<double>(Now() - struck) / 1e6);
    }
    std::printf("  %-18s %d aborts, median %.3f ms\n", kind.name, times, Quantile(ms, 0.5));
    Bar(std::string("abort p99, ") + executor->name(), Quantile(ms, 0.99), "ms", 1);
    // And the next one runs.
    from.Write(RandomBytes(kBytes, random()));
    executor->Submit(Copy(from.data(), to.data(), kBytes));
    Drain(executor.get());
    Expect(from.Read() == to.Read(), std::string(kind.name) + ": wrong after aborts");
  }
}

void ExpectCuda(int error, const std::string& what) {
  const auto code = static_cast<cudaError_t>(error);
  Expect(code == cudaSuccess, what + ": " + cudaGetErrorString(code));
}

namespace {

// One operation as the library carries it out: a stream's data are copied when its gate says so.
class GateDriver {
 public:
  GateDriver(Gpu* gpu, Executor* executor, Gate* gate) : executor_(executor), gate_(gate) {
    ExpectOk(gpu->Health(), "health");
  }
  // False: it has failed, and the stream is let go, since giving memory back would wait for it.
  bool Drive(const void* from, void* to, size_t bytes, uint64_t seq) {
    bool good = Await(&gate_->ready);
    if (good) executor_->Submit(Copy(from, to, bytes));
    good = good && Drain(executor_);
    gate_->outcome.seq = seq;
    std::atomic_ref<uint32_t>(gate_->done).store(1, std::memory_order_release);
    return good && Await(&gate_->passed);
  }

 private:
  bool Await(uint32_t* word) {
    const TimeNs deadline = Now() + 10 * kSecond;
    while (std::atomic_ref<uint32_t>(*word).load(std::memory_order_acquire) != 1) {
      if (Now() > deadline) {
        Expect(false, "a stream does not come to its gate");
        return false;
      }
    }
    std::atomic_ref<uint32_t>(*word).store(0, std::memory_order_relaxed);
    return true;
  }
  Executor* executor_;
  Gate* gate_;
};

// Outcomes go to the user's pinned memory, or to the device's.
struct GateSetting {
  static constexpr size_t kBytes = size_t{1} << 20;
  Memory in{kBytes}, out{kBytes}, seen{kBytes};
  void* outcome = nullptr;
  const bool pinned;
  cudaStream_t stream = nullptr;
  explicit GateSetting(bool in_pinned) : pinned(in_pinned) {
    constexpr size_t kOutcomeBytes = sizeof(Gate::Outcome);
    ExpectCuda(
        pinned ? cudaMallocHost(&outcome, kOutcomeBytes) : cudaMalloc(&outcome, kOutcomeBytes),
        "memory for an outcome");
    ExpectCuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  }
  ~GateSetting() {
    cudaStreamDestroy(stream);
    ExpectCuda(pinned ? cudaFreeHost(outcome) : cudaFree(outcome), "free");
  }

  // The user's work, the operation, and work that needs its result.
  void Enqueue(Gpu* gpu, Gate* gate, int value) {
    ExpectCuda(cudaMemsetAsync(in.data(), value, kBytes, stream), "set");
    ExpectOk(gpu->EnqueueGate(stream, gate, outcome), "gate");
    ExpectCuda(cudaMemcpyAsync(seen.data(), out.data(), kBytes, cudaMemcpyDeviceToDevice, stream),
               "copy");
  }
  void Check(int value, uint64_t seq) {
    ExpectCuda(cudaStreamSynchronize(stream), "synchronize");
    const std::vector<unsigned char> bytes = seen.Read();
    Expect(bytes == std::vector<unsigned char>(kBytes, static_cast<unsigned char>(value)),
           "the stream went on without the result");
    Gate::Outcome told;
    ExpectCuda(cudaMemcpy(&told, outcome, sizeof told, cudaMemcpyDefault), "read an outcome");
    Expect(told.seq == seq, "another outcome");
  }
};

}  // namespace

void TestGates(Gpu* gpu, int times) {
  const Expected<void*> memory = gpu->AllocatePinned(sizeof(Gate));
  ExpectOk(memory.status(), "gate");
  if (!memory.ok()) return;
  auto* gate = static_cast<Gate*>(*memory);
  const int before = failures;
  for (const NamedOptions& kind : {kKinds[0], kKinds[2]}) {
    const auto executor = Open(gpu, kind);
    if (executor == nullptr) continue;
    GateSetting setting(kind.options.kind == ExecutorKind::kBounded);
    GateDriver driver(gpu, executor.get(), gate);
    const auto drive = [&](uint64_t seq) {
      return driver.Drive(setting.in.data(), setting.out.data(), GateSetting::kBytes, seq);
    };
    for (int i = 0; i < times / 10; ++i) {
      setting.Enqueue(gpu, gate, i % 251);
      if (!drive(static_cast<uint64_t>(i))) return;
      setting.Check(i % 251, static_cast<uint64_t>(i));
    }
    // The same in a graph, captured in the strictest mode and replayed.
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    ExpectCuda(cudaStreamBeginCapture(setting.stream, cudaStreamCaptureModeGlobal), "capture");
    const Expected<bool> captures = gpu->Captures(setting.stream);
    Expect(captures.ok() && *captures, "a capture is not seen");
    setting.Enqueue(gpu, gate, 77);
    ExpectCuda(cudaStreamEndCapture(setting.stream, &graph), "end of capture");
    ExpectCuda(cudaGraphInstantiate(&exec, graph, 0), "instantiate");
    for (int i = 0; i < times && exec != nullptr && failures == before; ++i) {
      // Whoever did not wait would see this.
      ExpectCuda(cudaMemsetAsync(setting.out.data(), 0, GateSetting::kBytes, setting.stream),
                 "wipe");
      ExpectCuda(cudaGraphLaunch(exec, setting.stream), "replay");
      if (!drive(static_cast<uint64_t>(1000 + i))) return;
      if (i % 50 == 0) setting.Check(77, static_cast<uint64_t>(1000 + i));
    }
    ExpectCuda(cudaStreamSynchronize(setting.stream), "synchronize");
    if (exec != nullptr) cudaGraphExecDestroy(exec);
    if (graph != nullptr) cudaGraphDestroy(graph);
    std::printf("  %-18s %d gates on a stream, %d replays\n", kind.name, times / 10, times);
  }
  ExpectOk(gpu->FreePinned(gate), "free");
}

namespace {

int Report(const char* part, int before) {
  std::printf("%-18s %s\n", part, failures == before ? "ok" : "FAILED");
  std::fflush(stdout);
  return failures;
}

int Main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // whoever is ended by a watchdog has said why
  bool quick = false;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--child" && i + 1 < argc) return RunChild(argv[i + 1]);
    if (word != "--quick") {
      std::fprintf(stderr, "usage: ftar-gpu-fault [--quick]\n");
      return 2;
    }
    quick = true;
  }
  const uint64_t seed = std::random_device{}();
  // First, since its processes must not inherit a context.
  const int killed = RunKills(quick ? 10 : 100);
  if (killed == 77) return 77;
  int before = Report("kills", killed == 0 ? failures : failures - 1);
  auto gpu = OpenThisGpu();
  if (!gpu.ok()) {
    std::printf("FAILED: %s\n", gpu.status().text().c_str());
    return 1;
  }
  std::printf("%s, seed %llu\n", (*gpu)->facts().name.c_str(),
              static_cast<unsigned long long>(seed));
  TestBits(gpu->get(), seed);
  before = Report("bits", before);
  TestHandshake(gpu->get());
  before = Report("handshake", before);
  TestLaunches(gpu->get());
  before = Report("launches", before);
  TestAborts(gpu->get(), seed, quick ? 50 : 1000);
  before = Report("aborts", before);
  TestGates(gpu->get(), quick ? 100 : 1000);
  before = Report("gates", before);
  TestBesideClosedGate(gpu->get());
  before = Report("closed gate", before);
  TestQueues(gpu->get());
  Report("queues", before);
  std::printf("ftar-gpu-fault: %d failures\n", failures);
  return failures > 0 ? 1 : 0;
}

}  // namespace
}  // namespace ftar::device

int main(int argc, char** argv) { return ftar::device::Main(argc, argv); }
