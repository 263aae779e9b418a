#include "device/aside.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "base/signals_os.h"

namespace ftar::device {
namespace {

// What the thread uses; it lives as long as the thread does, though its owner be gone.
struct Core {
  std::shared_ptr<Gpu> gpu;
  std::mutex mutex;  // of what follows; never held while the driver is called
  std::condition_variable changed;
  std::deque<std::function<void()>> calls;
  bool stop = false, idle = true, late = false;

  void Run();
};

void Core::Run() {
  std::unique_lock<std::mutex> lock(mutex);
  while (!stop || !calls.empty()) {
    if (calls.empty()) {
      idle = true;
      late = false;
      changed.notify_all();
      changed.wait(lock, [this] { return stop || !calls.empty(); });
      continue;
    }
    idle = false;
    const std::function<void()> call = std::move(calls.front());
    calls.pop_front();
    lock.unlock();
    call();
    lock.lock();
  }
  idle = true;
  changed.notify_all();
}

class AsideGpu final : public Gpu {
 public:
  AsideGpu(std::unique_ptr<Gpu> gpu, TimeNs patience_ns)
      : patience_(patience_ns), core_(std::make_shared<Core>()) {
    core_->gpu = std::move(gpu);
    const SignalsBlocked quiet;
    thread_ = std::thread([core = core_] { core->Run(); });
  }
  // A thread that the driver keeps is left behind, and the Gpu with it.
  ~AsideGpu() override {
    std::unique_lock<std::mutex> lock(core_->mutex);
    core_->stop = true;
    core_->changed.notify_all();
    const bool ended =
        core_->changed.wait_for(lock, patience_, [this] { return core_->idle && Empty(); });
    lock.unlock();
    if (ended) {
      thread_.join();
    } else {
      thread_.detach();
    }
  }

  const Facts& facts() const override { return core_->gpu->facts(); }
  PointerFacts Identify(const void* address) const override {
    return core_->gpu->Identify(address);
  }
  bool Holds(const void* address, size_t bytes) const override {
    return core_->gpu->Holds(address, bytes);
  }

  Expected<SharedBlock> AllocateShared(size_t bytes) override {
    return Ask<SharedBlock>([bytes](Gpu& gpu) { return gpu.AllocateShared(bytes); },
                            [](Gpu& gpu, const SharedBlock& block) {
                              if (block.descriptor >= 0) close(block.descriptor);
                              return gpu.FreeShared(block.address);
                            });
  }
  Expected<void*> Import(int descriptor, size_t bytes) override {
    // The caller's may be closed before the call is made.
    const int own = ::fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
    if (own < 0) return Status::System("fcntl", errno);
    const std::shared_ptr<void> closed(nullptr, [own](void*) { close(own); });
    const auto import = [own, bytes, closed](Gpu& gpu) { return gpu.Import(own, bytes); };
    return Ask<void*>(import, [](Gpu& gpu, void* address) { return gpu.Unmap(address); });
  }
  Expected<DmaBuf> OpenDmaBuf(const void* address, size_t bytes) override {
    return Ask<DmaBuf>([address, bytes](Gpu& gpu) { return gpu.OpenDmaBuf(address, bytes); },
                       [](Gpu&, const DmaBuf& pages) {
                         close(pages.descriptor);
                         return Status::Ok();
                       });
  }
  Expected<void*> AllocatePinned(size_t bytes) override {
    return Ask<void*>([bytes](Gpu& gpu) { return gpu.AllocatePinned(bytes); },
                      [](Gpu& gpu, void* address) { return gpu.FreePinned(address); });
  }
  Status FreeShared(void* address) override {
    return Tell([address](Gpu& gpu) { return gpu.FreeShared(address); });
  }
  Status Unmap(void* address) override {
    return Tell([address](Gpu& gpu) { return gpu.Unmap(address); });
  }
  Status FreePinned(void* address) override {
    return Tell([address](Gpu& gpu) { return gpu.FreePinned(address); });
  }

  Status EnqueueGate(StreamHandle stream, Gate* gate, void* outcome) override {
    return core_->gpu->EnqueueGate(stream, gate, outcome);
  }
  Expected<bool> Captures(StreamHandle stream) override { return core_->gpu->Captures(stream); }
  Status LoadKernels() override { return core_->gpu->LoadKernels(); }
  Status Launch(const kernels::Batch& batch, uint64_t* done, uint64_t seq) override {
    return core_->gpu->Launch(batch, done, seq);
  }
  Status LaunchResident(void* control, int blocks) override {
    return core_->gpu->LaunchResident(control, blocks);
  }
  Status Health() override { return core_->gpu->Health(); }

 private:
  bool Empty() const { return core_->calls.empty(); }

  template <typename Call>
  Status Tell(Call call) {
    const std::lock_guard<std::mutex> lock(core_->mutex);
    core_->calls.push_back([core = core_.get(), call] { static_cast<void>(call(*core->gpu)); });
    core_->changed.notify_all();
    return Status::Ok();
  }

  template <typename Value, typename Call, typename Undo>
  Expected<Value> Ask(Call call, Undo undo);

  const std::chrono::nanoseconds patience_;
  const std::shared_ptr<Core> core_;
  std::thread thread_;
};

template <typename Value, typename Call, typename Undo>
Expected<Value> AsideGpu::Ask(Call call, Undo undo) {
  struct Answer {
    std::optional<Expected<Value>> value;
    bool unwanted = false;
  };
  const auto answer = std::make_shared<Answer>();
  const Status late(Code::kDevice, "the driver has not answered for " +
                                       std::to_string(patience_.count() / kMillisecond) +
                                       " ms: somebody's cudaFree may hold its lock");
  std::unique_lock<std::mutex> lock(core_->mutex);
  if (core_->late) return late;
  core_->calls.push_back([core = core_.get(), answer, call, undo] {
    Expected<Value> value = call(*core->gpu);
    std::unique_lock<std::mutex> inside(core->mutex);
    if (!answer->unwanted) {
      answer->value = std::move(value);
      core->changed.notify_all();
      return;
    }
    inside.unlock();
    if (value.ok()) static_cast<void>(undo(*core->gpu, *value));
  });
  core_->changed.notify_all();
  const auto done = [&] { return answer->value.has_value(); };
  if (core_->changed.wait_for(lock, patience_, done)) return std::move(*answer->value);
  answer->unwanted = true;
  core_->late = true;
  return late;
}

}  // namespace

std::shared_ptr<Gpu> CallAside(std::unique_ptr<Gpu> gpu, TimeNs patience_ns) {
  return std::make_shared<AsideGpu>(std::move(gpu), patience_ns);
}

}  // namespace ftar::device
