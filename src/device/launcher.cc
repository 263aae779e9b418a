#include "device/launcher.h"

#include <array>
#include <atomic>
#include <cassert>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "base/signals_os.h"

namespace ftar::device {
namespace {

constexpr std::chrono::milliseconds kHealthPeriod(20);

}  // namespace

struct Launcher::Command {
  kernels::Plan plan;
  uint64_t number = 0;
  uint64_t run = 0;         // 0: no plan
  int resident_blocks = 0;  // above 0: the resident kernel, no plan
};

// One thread pushes, one pops.
class Launcher::Ring {
 public:
  // To be filled, and then pushed.
  Command* Back() {
    const uint64_t tail = tail_.load(std::memory_order_relaxed);
    assert(tail - head_.load(std::memory_order_acquire) < commands_.size());
    return &commands_[tail % commands_.size()];
  }
  void Push() { tail_.store(tail_.load(std::memory_order_relaxed) + 1, std::memory_order_release); }
  // From the front, counted from 0. Null if there is none; Pop when it has been carried out.
  const Command* At(uint64_t place) const {
    const uint64_t at = head_.load(std::memory_order_relaxed) + place;
    if (at == tail_.load(std::memory_order_acquire)) return nullptr;
    return &commands_[at % commands_.size()];
  }
  void Pop(uint64_t count) {
    head_.store(head_.load(std::memory_order_relaxed) + count, std::memory_order_release);
  }
  bool empty() const {
    return head_.load(std::memory_order_acquire) == tail_.load(std::memory_order_acquire);
  }

 private:
  // Plans, and the resident kernel, which is called at most once at a time.
  std::array<Command, kOutstandingMax + 2> commands_;
  std::atomic<uint64_t> head_{0};
  std::atomic<uint64_t> tail_{0};
};

// What the thread uses. It lives as long as the thread does, though its owner be gone.
struct Launcher::Core {
  std::shared_ptr<Gpu> gpu;
  LaunchWords* words = nullptr;
  void* control = nullptr;
  Ring ring;
  kernels::Batch batch;
  // Of the launch that each plan went out with, by its number. As many again as are outstanding:
  // they are read some time after they are done.
  std::array<std::atomic<int>, 2 * kOutstandingMax> blocks = {};
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
  uint64_t CarryOut();
  uint64_t TakeBatch();
  bool AwaitCommand();
  void Run();
};

// Into `batch`, which it fills as far as commands wait now; answers how many it has taken.
uint64_t Launcher::Core::TakeBatch() {
  batch.Clear();
  const uint64_t run = ring.At(0)->run;
  uint64_t taken = 0;
  for (const Command* next = ring.At(0); next != nullptr; next = ring.At(taken)) {
    if (next->run != run || !batch.Add(next->plan)) break;
    ++taken;
  }
  // What was dropped still has its number stored, in its turn. A run is of one epoch.
  if (ring.At(0)->plan.job.epoch != epoch.load(std::memory_order_acquire)) batch.Clear();
  for (uint64_t i = 0; i < taken; ++i) {
    const uint64_t number = ring.At(i)->number;
    blocks[number % blocks.size()].store(batch.blocks, std::memory_order_relaxed);
  }
  return taken;
}

// From the front of the ring; answers how many commands that were.
uint64_t Launcher::Core::CarryOut() {
  const Command& front = *ring.At(0);
  if (failed.load(std::memory_order_relaxed)) return 1;  // Behind a failure nothing ever ends.
  if (front.resident_blocks > 0) {
    const Status launched = gpu->LaunchResident(control, front.resident_blocks);
    if (!launched.ok()) Fail(launched);
    return 1;
  }
  const uint64_t taken = TakeBatch();
  const Status launched = gpu->Launch(batch, &words->done, ring.At(taken - 1)->number);
  if (!launched.ok()) Fail(launched);
  return taken;
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
  while (!ring.empty() || AwaitCommand()) {
    ring.Pop(CarryOut());
    if (!ring.empty()) continue;
    const std::lock_guard<std::mutex> lock(mutex);
    changed.notify_all();  // Settle
  }
  ended.store(true, std::memory_order_release);
}

TimeNs Launcher::Now() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

Launcher::Launcher(std::shared_ptr<Gpu> gpu, LaunchWords* words, void* control)
    : core_(std::make_shared<Core>()) {
  core_->gpu = std::move(gpu);
  core_->words = words;
  core_->control = control;
  const SignalsBlocked quiet;
  thread_ = std::thread([core = core_] { core->Run(); });
}

Launcher::~Launcher() {
  if (End()) {
    thread_.join();
  } else {
    thread_.detach();
  }
}

void Launcher::Wake() {
  const std::lock_guard<std::mutex> lock(core_->mutex);
  core_->changed.notify_all();
}

void Launcher::Launch(const Post& post) {
  meter_.Launch(post.number, Now());
  Command* const command = core_->ring.Back();
  command->plan = *post.plan;
  command->number = post.number;
  command->run = post.run;
  command->resident_blocks = 0;
  kernels::Job& job = command->plan.job;
  job.abort_word = &core_->words->abort_epoch;
  job.epoch = post.epoch;
  job.stopped = nullptr;
  core_->ring.Push();
  Wake();
}

void Launcher::LaunchResident(int blocks) {
  Command* const command = core_->ring.Back();
  command->run = 0;
  command->resident_blocks = blocks;
  core_->ring.Push();
  Wake();
}

void Launcher::Abort(uint32_t epoch) {
  std::atomic_ref<uint32_t>(core_->words->abort_epoch).store(epoch, std::memory_order_release);
  core_->epoch.store(epoch, std::memory_order_release);
}

uint64_t Launcher::Done() const {
  return std::atomic_ref<uint64_t>(core_->words->done).load(std::memory_order_acquire);
}

void Launcher::Measure(TimeNs now) {
  const auto blocks_of = [this](uint64_t number) {
    const auto& blocks = core_->blocks;
    return blocks[number % blocks.size()].load(std::memory_order_relaxed);
  };
  meter_.Done(Done(), blocks_of, now);
}

void Launcher::Expect(bool work) {
  if (core_->work.exchange(work, std::memory_order_relaxed) || !work) return;
  Wake();
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
