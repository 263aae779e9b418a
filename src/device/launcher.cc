#include "device/launcher.h"

#include <array>
#include <atomic>
#include <cassert>
#include <chrono>
#include <condition_variable>
#include <mutex>

namespace ftar::device {
namespace {

constexpr std::chrono::milliseconds kHealthPeriod(20);

struct Command {
  kernels::Plan plan;
  uint64_t number = 0;
  int resident_blocks = 0;  // above 0: the resident kernel, no plan
};

// One thread pushes, one pops.
class Ring {
 public:
  bool Push(const Command& command) {
    const uint64_t tail = tail_.load(std::memory_order_relaxed);
    if (tail - head_.load(std::memory_order_acquire) == commands_.size()) return false;
    commands_[tail % commands_.size()] = command;
    tail_.store(tail + 1, std::memory_order_release);
    return true;
  }
  // Null if there is none; Pop when it has been carried out.
  const Command* Front() const {
    const uint64_t head = head_.load(std::memory_order_relaxed);
    if (head == tail_.load(std::memory_order_acquire)) return nullptr;
    return &commands_[head % commands_.size()];
  }
  void Pop() { head_.store(head_.load(std::memory_order_relaxed) + 1, std::memory_order_release); }
  bool empty() const {
    return head_.load(std::memory_order_acquire) == tail_.load(std::memory_order_acquire);
  }

 private:
  // Plans, and the resident kernel, which is called at most once at a time.
  std::array<Command, Launcher::kOutstandingMax + 2> commands_;
  std::atomic<uint64_t> head_{0};
  std::atomic<uint64_t> tail_{0};
};

}  // namespace

// What the thread uses. It lives as long as the thread does, though its owner be gone.
struct Launcher::Core {
  Gpu* gpu = nullptr;
  LaunchWords* words = nullptr;
  void* control = nullptr;
  Ring ring;
  std::atomic<uint32_t> epoch{0};
  std::atomic<bool> work{false};
  std::atomic<bool> ended{false};

  std::mutex mutex;  // of what follows; never held while the driver is called
  std::condition_variable changed;
  bool stop = false;
  Status failure;
  std::atomic<bool> failed{false};

  void Fail(const Status& status) {
    const std::lock_guard<std::mutex> lock(mutex);
    if (failure.ok()) failure = status;
    failed.store(true, std::memory_order_release);
  }
  void CarryOut(const Command& command);
  bool AwaitCommand();
  void Run();
};

void Launcher::Core::CarryOut(const Command& command) {
  if (failed.load(std::memory_order_relaxed)) return;  // Behind a failure nothing ever ends.
  if (command.resident_blocks > 0) {
    const Status launched = gpu->LaunchResident(control, command.resident_blocks);
    if (!launched.ok()) Fail(launched);
    return;
  }
  kernels::Plan plan = command.plan;
  // What was dropped still has its number stored, in its turn.
  if (plan.job.epoch != epoch.load(std::memory_order_acquire)) plan.blocks = 0;
  const Status launched = gpu->Launch(plan, &words->done, command.number);
  if (!launched.ok()) Fail(launched);
}

// False if there will be none.
bool Launcher::Core::AwaitCommand() {
  std::unique_lock<std::mutex> lock(mutex);
  const auto ready = [this] { return stop || !ring.empty(); };
  while (!ready()) {
    if (!work.load(std::memory_order_relaxed)) {
      changed.wait(lock, [&] { return ready() || work.load(std::memory_order_relaxed); });
    } else if (!changed.wait_for(lock, kHealthPeriod, ready)) {
      lock.unlock();
      const Status health = gpu->Health();
      if (!health.ok()) Fail(health);
      lock.lock();
    }
  }
  return !ring.empty();
}

void Launcher::Core::Run() {
  while (AwaitCommand()) {
    CarryOut(*ring.Front());
    ring.Pop();
    const std::lock_guard<std::mutex> lock(mutex);
    changed.notify_all();  // Settle
  }
  ended.store(true, std::memory_order_release);
}

TimeNs Launcher::Now() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

Launcher::Launcher(Gpu* gpu, LaunchWords* words, void* control) : core_(std::make_shared<Core>()) {
  core_->gpu = gpu;
  core_->words = words;
  core_->control = control;
  thread_ = std::thread([core = core_] { core->Run(); });
}

Launcher::~Launcher() {
  if (End()) {
    thread_.join();
  } else {
    thread_.detach();
  }
}

void Launcher::Push(int blocks, const kernels::Plan* plan, uint64_t number) {
  Command command{.plan = {}, .number = number, .resident_blocks = blocks};
  if (plan != nullptr) command.plan = *plan;
  const bool pushed = core_->ring.Push(command);
  assert(pushed);
  static_cast<void>(pushed);
  const std::lock_guard<std::mutex> lock(core_->mutex);
  core_->changed.notify_all();
}

void Launcher::Launch(const kernels::Plan& plan, uint64_t number, uint32_t epoch) {
  kernels::Plan mine = plan;
  mine.job.abort_word = &core_->words->abort_epoch;
  mine.job.epoch = epoch;
  mine.job.stopped = nullptr;
  meter_.Launch(number, mine.blocks, Now());
  Push(0, &mine, number);
}

void Launcher::LaunchResident(int blocks) { Push(blocks, nullptr, 0); }

void Launcher::Abort(uint32_t epoch) {
  std::atomic_ref<uint32_t>(core_->words->abort_epoch).store(epoch, std::memory_order_release);
  core_->epoch.store(epoch, std::memory_order_release);
}

uint64_t Launcher::Done() const {
  return std::atomic_ref<uint64_t>(core_->words->done).load(std::memory_order_acquire);
}

void Launcher::Expect(bool work) {
  if (core_->work.exchange(work, std::memory_order_relaxed) || !work) return;
  const std::lock_guard<std::mutex> lock(core_->mutex);
  core_->changed.notify_all();
}

Status Launcher::status() const {
  if (!core_->failed.load(std::memory_order_acquire)) return Status::Ok();
  const std::lock_guard<std::mutex> lock(core_->mutex);
  return core_->failure;
}

bool Launcher::settled() const { return core_->ring.empty(); }

void Launcher::Settle() {
  std::unique_lock<std::mutex> lock(core_->mutex);
  core_->changed.wait(lock, [this] { return core_->ring.empty(); });
}

bool Launcher::End() {
  {
    const std::lock_guard<std::mutex> lock(core_->mutex);
    core_->stop = true;
    core_->changed.notify_all();
  }
  return core_->ended.load(std::memory_order_acquire);
}

}  // namespace ftar::device
