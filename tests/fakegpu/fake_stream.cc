#include "fake_stream.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <set>
#include <utility>

#include "fake_memory.h"

namespace ftar::fakegpu {
namespace {

// A real stream takes about so many things that it has not come to; whoever puts one more onto it
// waits.
constexpr size_t kQueueMax = 1024;

std::atomic<Mood> mood{Mood::kWell};
std::atomic<int> kernels{0}, fails_to_open{0}, fails_to_import{0};
std::atomic<bool> launches_block{false}, full{false};

// Of all streams that there are. Never destroyed: streams may outlive main.
struct Streams {
  std::mutex mutex;
  std::set<Stream*> all;
};
Streams& AllStreams() {
  static auto* const streams = new Streams;
  return *streams;
}

bool GpuIsIdle() {
  Streams& streams = AllStreams();
  const std::lock_guard<std::mutex> lock(streams.mutex);
  if (kernels.load() > 0) return false;
  return std::all_of(streams.all.begin(), streams.all.end(), [](Stream* s) { return s->idle(); });
}

// False if none is left.
bool TakeOne(std::atomic<int>* of) {
  int left = of->load();
  while (left > 0 && !of->compare_exchange_weak(left, left - 1)) {
  }
  return left > 0;
}

void Doze() { std::this_thread::sleep_for(std::chrono::microseconds(20)); }

}  // namespace

void SetMood(Mood wanted) { mood.store(wanted); }
Mood CurrentMood() { return mood.load(); }

void LetLaunchesBlock(bool block) { launches_block.store(block); }
bool LaunchesBlock() { return launches_block.load(); }

void Fill(bool fills) { full.store(fills); }
bool IsFull() { return full.load(); }

void FailToOpen(int times) { fails_to_open.store(times); }
bool FailsToOpen() { return TakeOne(&fails_to_open); }
void FailToImport(int times) { fails_to_import.store(times); }
bool FailsToImport() { return TakeOne(&fails_to_import); }

std::mutex& DriverLock() {
  static auto* const lock = new std::mutex;
  return *lock;
}

void AwaitIdleGpu() {
  while (CurrentMood() != Mood::kBroken && !GpuIsIdle()) Doze();
}

void CountKernels(int more) { kernels.fetch_add(more); }

Stream* Stream::Of(void* handle) {
  static auto* const standard = new Stream;  // kernels may outlive main
  return handle == nullptr ? standard : static_cast<Stream*>(handle);
}

Stream::Stream() : card_(CurrentCard()), thread_([this] { Main(); }) {
  Streams& streams = AllStreams();
  const std::lock_guard<std::mutex> lock(streams.mutex);
  streams.all.insert(this);
}

Stream::~Stream() {
  {
    Streams& streams = AllStreams();
    const std::lock_guard<std::mutex> lock(streams.mutex);
    streams.all.erase(this);
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
    queue_.clear();
  }
  changed_.notify_all();
  thread_.join();
}

bool Stream::Put(Action action) {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!capturing_ && queue_.size() >= kQueueMax && CurrentMood() != Mood::kBroken) {
    changed_.wait_for(lock, std::chrono::milliseconds(1));
  }
  if (CurrentMood() == Mood::kBroken) return false;
  if (capturing_) {
    recording_.push_back(std::move(action));
  } else {
    queue_.push_back(std::move(action));
  }
  changed_.notify_all();
  return true;
}

bool Stream::PutGraph(const Graph& graph) {
  for (const Action& action : graph) {
    if (!Put(action)) return false;
  }
  return true;
}

bool Stream::Wait() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (busy_ || !queue_.empty()) {
    if (CurrentMood() == Mood::kBroken) return false;
    changed_.wait_for(lock, std::chrono::milliseconds(1));
  }
  return CurrentMood() == Mood::kWell;
}

void Stream::BeginCapture() {
  const std::lock_guard<std::mutex> lock(mutex_);
  capturing_ = true;
  recording_.clear();
}

Graph Stream::EndCapture() {
  const std::lock_guard<std::mutex> lock(mutex_);
  capturing_ = false;
  return std::exchange(recording_, {});
}

bool Stream::capturing() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return capturing_;
}

bool Stream::idle() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return !busy_ && queue_.empty();
}

void Stream::Main() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stopping_) {
    if (queue_.empty()) {
      changed_.wait(lock);
      continue;
    }
    const Mood now = CurrentMood();
    if (now == Mood::kBroken) queue_.clear();
    if (now != Mood::kWell) {
      changed_.wait_for(lock, std::chrono::milliseconds(1));
      continue;
    }
    const Action action = std::move(queue_.front());
    queue_.pop_front();
    busy_ = true;
    lock.unlock();
    action();
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
}

bool PutGate(Stream* stream, device::Gate* gate, void* outcome) {
  const auto word = [](uint32_t& of) { return std::atomic_ref<uint32_t>(of); };
  const bool first =
      stream->Put([gate, word] { word(gate->ready).store(1, std::memory_order_release); });
  const bool second = stream->Put([gate, word] {
    while (word(gate->done).load(std::memory_order_acquire) != 1) {
      if (CurrentMood() == Mood::kBroken) return;
      Doze();
    }
  });
  const bool third = stream->Put([gate, word, outcome] {
    if (CurrentMood() == Mood::kBroken) return;
    if (outcome != nullptr) {
      void* const at = FakeMemory::Get().Reach(outcome);
      if (at == nullptr) return SetMood(Mood::kBroken);  // an illegal address
      std::memcpy(at, &gate->outcome, sizeof gate->outcome);
    }
    word(gate->done).store(0, std::memory_order_relaxed);
    word(gate->passed).store(1, std::memory_order_release);
  });
  return first && second && third;
}

}  // namespace ftar::fakegpu
