#include "device/executor.h"

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <new>

#include "device/conductor.h"
#include "device/launcher.h"
#include "device/mailbox.h"

namespace ftar::device {
namespace {

using Boxes = Mailboxes<HostMemory>;

// All that both sides write, in one piece of pinned memory.
struct Shared {
  LaunchWords launches;
  kernels::ResidentControl resident;
};

// Shorter than a handshake or two, a kernel would come and go within one operation.
constexpr TimeNs kSilenceMin = 100 * kMicrosecond;
// A kernel that leaves between two polls, before it was given anything, is launched for nothing.
constexpr TimeNs kPatience = kSecond;

// Both kinds: the bounded one is a schedule without blocks, so that every plan is launched.
class GpuExecutor final : public Executor {
 public:
  GpuExecutor(const std::shared_ptr<Gpu>& gpu, Shared* shared, const ExecutorOptions& options)
      : gpu_(gpu),
        options_(options),
        shared_(shared),
        boxes_(&shared->resident, HostMemory()),
        launcher_(gpu, &shared->launches, &shared->resident),
        conductor_({.blocks = options.kind == ExecutorKind::kResident ? options.blocks : 0,
                    .launches = Launcher::kOutstandingMax,
                    .stuck_ns = options.stuck_ns,
                    .silence_ns = options.silence_ns,
                    .patience_ns = options.silence_ns > 0 ? kPatience : 0},
                   &boxes_, &launcher_) {}
  ~GpuExecutor() override;

  const char* name() const override {
    return options_.kind == ExecutorKind::kResident ? "resident" : "bounded";
  }
  uint64_t Submit(const kernels::Plan& plan) override {
    submitted_ = conductor_.Submit(plan);
    launcher_.Expect(true);
    return submitted_;
  }
  uint64_t Poll(TimeNs now) override {
    const uint64_t done = conductor_.Poll(now);
    Measure(now);
    launcher_.Expect(done < submitted_ || held_);
    return done;
  }
  void Abort() override { conductor_.Abort(); }
  // Who waits for a stream that will never come, since the context is broken, has nothing submitted
  // to hear that by.
  void Hold(bool held) override {
    held_ = held;
    conductor_.Hold(held);
    launcher_.Expect(held || conductor_.schedule().done() < submitted_);
  }
  bool Stays() override { return Hopeless() || (conductor_.Stays() && launcher_.settled()); }
  Status status() const override;
  int64_t block_ns() override { return launcher_.meter().block_ns(); }

  // After the first kernel was launched, or could not be.
  Status Settle() {
    launcher_.Settle();
    return launcher_.status();
  }

 private:
  // Waits for `end`, looking at the lanes; false when the deadline is first.
  template <typename End>
  bool Await(TimeNs deadline, const End& end);
  void Measure(TimeNs now);
  // True if the GPU will say nothing more.
  bool Hopeless() const { return !launcher_.status().ok() || conductor_.broken(); }

  const std::shared_ptr<Gpu> gpu_;
  const ExecutorOptions options_;
  Shared* const shared_;
  Boxes boxes_;
  Launcher launcher_;
  Conductor<Boxes, Launcher> conductor_;
  bool held_ = false;
};

void GpuExecutor::Measure(TimeNs now) {
  launcher_.Measure(now);
  if (options_.kind != ExecutorKind::kResident) return;
  const TimeNs stays = options_.silence_ns > 0 ? options_.silence_ns : INT64_MAX;
  launcher_.meter().Resident(conductor_.Gone() ? 0 : options_.blocks, stays, now);
}

Status GpuExecutor::status() const {
  const Status launcher = launcher_.status();
  if (!launcher.ok()) return launcher;
  if (conductor_.broken()) {
    return Status(Code::kDevice, "the GPU's mailboxes hold what no kernel of ours has written");
  }
  if (!conductor_.schedule().stuck()) return Status::Ok();
  const char* const why =
      held_ ? "; streams wait meanwhile: one may stand before our kernels in a queue of the GPU's "
              "(CUDA_DEVICE_MAX_CONNECTIONS=32), or somebody's cudaFree keep the driver"
            : "";
  return Status(Code::kDevice, "the GPU has not moved for " +
                                   std::to_string(options_.stuck_ns / kMillisecond) +
                                   " ms, though it has work" + why);
}

template <typename End>
bool GpuExecutor::Await(TimeNs deadline, const End& end) {
  std::mutex mutex;
  std::condition_variable never;
  std::unique_lock<std::mutex> lock(mutex);
  while (!end()) {
    const TimeNs now = Launcher::Now();
    if (now > deadline) return false;
    Poll(now);
    never.wait_for(lock, std::chrono::microseconds(50));
  }
  return true;
}

GpuExecutor::~GpuExecutor() {
  const TimeNs patience = options_.stuck_ns > 0 ? options_.stuck_ns : 10 * kSecond;
  const TimeNs deadline = Launcher::Now() + patience;
  conductor_.Hold(false);
  Abort();
  Await(deadline, [this] { return conductor_.schedule().idle() || Hopeless(); });
  conductor_.Dismiss();
  Await(deadline, [this] { return conductor_.Gone() || Hopeless(); });
  // A thread that the driver keeps is left behind, and so is what it uses.
  const bool ended = Await(deadline, [this] { return launcher_.End(); });
  const bool quiet = conductor_.schedule().idle() && conductor_.Gone() && !Hopeless();
  if (quiet && ended) static_cast<void>(gpu_->FreePinned(shared_));
}

}  // namespace

Expected<std::unique_ptr<Executor>> OpenExecutor(const std::shared_ptr<Gpu>& gpu,
                                                 const ExecutorOptions& options) {
  if (gpu == nullptr) return Status(Code::kArg, "an executor needs a GPU");
  if (options.kind == ExecutorKind::kResident &&
      (options.blocks < 1 || options.blocks > kernels::kResidentBlocksMax)) {
    return Status(Code::kArg, "a resident kernel has 1 to 4 blocks");
  }
  if (options.silence_ns != 0 && options.silence_ns < kSilenceMin) {
    return Status(Code::kArg, "a resident kernel stays for at least 100 us");
  }
  FTAR_RETURN_IF_ERROR(gpu->LoadKernels());
  const Expected<void*> memory = gpu->AllocatePinned(sizeof(Shared));
  if (!memory.ok()) return memory.status();
  auto executor = std::make_unique<GpuExecutor>(gpu, new (*memory) Shared(), options);
  FTAR_RETURN_IF_ERROR(executor->Settle());
  return std::unique_ptr<Executor>(std::move(executor));
}

}  // namespace ftar::device
