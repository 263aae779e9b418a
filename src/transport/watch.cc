#include "transport/watch.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstddef>

#include "base/signals_os.h"
#include "transport/sealed_memory.h"

namespace ftar::transport {
namespace {

constexpr uint32_t kWords = 511;
constexpr uint64_t kWatchMagic = 0x3168637461776674;  // "tfwatch1"
// The kernel waits on at most 128 words, one of which is the thread's own.
constexpr size_t kSleepMax = FUTEX_WAITV_MAX - 1;
// A rescan now and then covers a wake-up that went to an evicted peer which still sleeps on the
// same word.
constexpr int64_t kRescanNs = 250 * kMillisecond;
// If not all words can be slept on: too many peers, or a kernel before 5.16.
constexpr int64_t kShortRescanNs = kMillisecond;
constexpr size_t kStackBytes = 512 * 1024;
#ifndef SYS_futex_waitv
constexpr long kSysFutexWaitv = 449;  // the same number on all architectures
#else
constexpr long kSysFutexWaitv = SYS_futex_waitv;
#endif

long FutexWake(const std::atomic<uint32_t>* word) {
  return ::syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace

// A word and, beside it, what the kernel needs to find it in the holder's robust list.
struct ProcessWatch::Word {
  robust_list node;
  std::atomic<uint32_t> value;
  uint32_t unused;
};

struct ProcessWatch::Segment {
  uint64_t magic;
  uint32_t words;
  uint32_t unused;
  Word word[kWords];
};

struct ProcessWatch::Mapping {
  std::shared_ptr<MappedMemory> memory;
  Segment* segment() const { return reinterpret_cast<Segment*>(memory->data()); }
  uint32_t Load(uint32_t index) const {
    return segment()->word[index].value.load(std::memory_order_acquire);
  }
};

Expected<std::unique_ptr<ProcessWatch>> ProcessWatch::Create() {
  static_assert(sizeof(Word) == 16 && std::atomic<uint32_t>::is_always_lock_free);
  std::unique_ptr<ProcessWatch> watch(new ProcessWatch);
  if (const Status status = watch->Start(); !status.ok()) return status;
  return watch;
}

Status ProcessWatch::Start() {
  auto sealed = CreateSealedMemory("ftar-watch", sizeof(Segment), Pages::kNow);
  if (!sealed.ok()) return sealed.status();
  segment_fd_ = std::move(sealed->fd);
  own_ = std::make_shared<Mapping>();
  own_->memory = std::move(sealed->memory);
  own_->segment()->magic = kWatchMagic;
  own_->segment()->words = kWords;
  event_ = UniqueFd(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!event_.valid()) return Status::System("eventfd", errno);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  head_ = std::make_unique<robust_list_head>();
  const int error = [&] {
    const SignalsBlocked quiet;
    return pthread_create(&thread_, &attributes, &ProcessWatch::ThreadMain, this);
  }();
  pthread_attr_destroy(&attributes);
  if (error != 0) return Status::System("starting the process watch's thread", error);
  thread_runs_ = true;
  pthread_setname_np(thread_, "ftar-watch");
  // Nothing may be passed to peers before the words are held.
  while (held_.load(std::memory_order_acquire) == 0)
    ::syscall(SYS_futex, &held_, FUTEX_WAIT_PRIVATE, 0, nullptr, nullptr, 0);
  return {};
}

ProcessWatch::~ProcessWatch() {
  if (!thread_runs_) return;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  WakeThread();
  pthread_join(thread_, nullptr);
}

uint32_t ProcessWatch::Assign(MemberId /*peer*/) {
  // In turn, so that a word comes back to use as late as possible: a peer that is long gone may
  // still sleep on it.
  const uint32_t index = next_index_;
  next_index_ = (next_index_ + 1) % kWords;
  own_->segment()->word[index].value.fetch_or(FUTEX_WAITERS);
  return index;
}

Status ProcessWatch::Add(MemberId peer, UniqueFd segment, uint32_t index) {
  if (index >= kWords)
    return {Code::kPeer, "the peer's process watch has no word " + std::to_string(index)};
  auto memory = MapSealedMemory(segment, sizeof(Segment), sizeof(Segment));
  if (!memory.ok()) return memory.status();
  auto mapping = std::make_shared<Mapping>();
  mapping->memory = std::move(*memory);
  if (mapping->segment()->magic != kWatchMagic || mapping->segment()->words != kWords) {
    return {Code::kPeer, "the peer's process watch has an unknown layout"};
  }
  peers_[peer] = Watched{std::move(mapping), index};
  Publish();
  return {};
}

void ProcessWatch::Remove(MemberId peer) {
  if (peers_.erase(peer) > 0) Publish();
}

void ProcessWatch::Poll(std::vector<MemberId>* exited) {
  if (signalled_.load(std::memory_order_relaxed) && signalled_.exchange(false)) {
    uint64_t count = 0;
    [[maybe_unused]] const ssize_t got = ::read(event_.get(), &count, sizeof count);
  }
  bool changed = false;
  for (auto it = peers_.begin(); it != peers_.end();) {
    const uint32_t value = it->second.mapping->Load(it->second.index);
    if (value != 0 && (value & FUTEX_OWNER_DIED) == 0) {
      ++it;
      continue;
    }
    if (value != 0) exited->push_back(it->first);
    it = peers_.erase(it);
    changed = true;
  }
  if (changed) Publish();
}

void ProcessWatch::CloseInForkedChild() {
  segment_fd_.Reset();
  event_.Reset();
  thread_runs_ = false;
}

void ProcessWatch::Publish() {
  std::vector<Watched> all;
  for (const auto& [peer, watched] : peers_) all.push_back(watched);
  {
    const std::lock_guard lock(mutex_);
    published_.swap(all);
    fresh_ = true;
  }
  WakeThread();
}

void ProcessWatch::WakeThread() {
  generation_.fetch_add(1);
  FutexWake(&generation_);
}

// ---- the thread

void* ProcessWatch::ThreadMain(void* self) {
  static_cast<ProcessWatch*>(self)->Run();
  return nullptr;
}

// Takes no memory: nobody could be told that there is none.
void ProcessWatch::Run() {
  HoldWords();
  std::vector<Watched> watched;
  uint32_t generation = 0;
  bool stop = false;
  while (!stop) {
    generation = generation_.load();
    {
      const std::lock_guard lock(mutex_);
      if (std::exchange(fresh_, false)) {
        watched.clear();
        watched.swap(published_);
      }
      stop = stop_;
    }
    // Words that are decided are reported once and not slept on: the owner takes them out.
    const size_t decided = std::erase_if(watched, [](const Watched& w) {
      const uint32_t value = w.mapping->Load(w.index);
      return value == 0 || (value & FUTEX_OWNER_DIED) != 0;
    });
    if (decided > 0) {
      // In this order: whoever polls in between would look for what has not been written yet, and
      // never again, and what is written then would let nobody sleep.
      const uint64_t one = 1;
      [[maybe_unused]] const ssize_t put = ::write(event_.get(), &one, sizeof one);
      signalled_.store(true);
    }
    while (!stop && generation_.load() == generation && WaitOnce(watched, generation) == 0) {
    }
  }
  // An orderly end: 0 is no owner and no death.
  Segment* segment = own_->segment();
  for (Word& word : segment->word) {
    word.value.store(0);
    FutexWake(&word.value);
  }
  head_->list.next = &head_->list;
}

// Takes all words and registers them with the kernel; from here on they fall when this thread does.
void ProcessWatch::HoldWords() {
  robust_list_head* head = head_.get();
  Segment* segment = own_->segment();
  const auto tid = static_cast<uint32_t>(::syscall(SYS_gettid));
  for (uint32_t i = 0; i < kWords; ++i) {
    segment->word[i].value.store(tid);
    segment->word[i].node.next = i + 1 < kWords ? &segment->word[i + 1].node : &head->list;
  }
  head->list.next = &segment->word[0].node;
  head->futex_offset = offsetof(Word, value) - offsetof(Word, node);
  ::syscall(SYS_set_robust_list, head, sizeof *head);
  held_.store(1, std::memory_order_release);
  ::syscall(SYS_futex, &held_, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

// Sleeps until a word or the generation changes. Returns how many words are decided.
size_t ProcessWatch::WaitOnce(const std::vector<Watched>& watched, uint32_t generation) {
  futex_waitv waits[FUTEX_WAITV_MAX] = {};
  size_t count = 0;
  const auto add = [&](const std::atomic<uint32_t>* word, uint32_t value) {
    waits[count].val = value;
    waits[count].uaddr = reinterpret_cast<uintptr_t>(word);
    waits[count++].flags = FUTEX_32;
  };
  const auto decided = [&] {
    return static_cast<size_t>(std::count_if(watched.begin(), watched.end(), [](const Watched& w) {
      const uint32_t value = w.mapping->Load(w.index);
      return value == 0 || (value & FUTEX_OWNER_DIED) != 0;
    }));
  };
  add(&generation_, generation);
  for (size_t i = 0; i < std::min(watched.size(), kSleepMax); ++i) {
    const uint32_t value = watched[i].mapping->Load(watched[i].index);
    if (value == 0 || (value & FUTEX_OWNER_DIED) != 0) return 1;
    add(&watched[i].mapping->segment()->word[watched[i].index].value, value);
  }
  const auto deadline_after = [](int64_t ns) {
    timespec deadline{};
    ::clock_gettime(CLOCK_MONOTONIC, &deadline);
    deadline.tv_nsec += ns;
    if (deadline.tv_nsec >= kSecond) {
      deadline.tv_nsec -= kSecond;
      ++deadline.tv_sec;
    }
    return deadline;
  };
  timespec deadline = deadline_after(watched.size() > kSleepMax ? kShortRescanNs : kRescanNs);
  const long result = ::syscall(kSysFutexWaitv, waits, count, 0,
                                watched.empty() ? nullptr : &deadline, CLOCK_MONOTONIC);
  if (result < 0 && errno != EAGAIN && errno != ETIMEDOUT && errno != EINTR) {
    // No such system call: sleep on the own word alone and look around every millisecond.
    const timespec wait{0, kShortRescanNs};
    ::syscall(SYS_futex, &generation_, FUTEX_WAIT, generation, &wait, nullptr, 0);
  }
  return decided();
}

}  // namespace ftar::transport
