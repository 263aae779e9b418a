// Proof of a host-mate's death, a fraction of a millisecond after it, however large the process is
// (design 5).
//
// Each process owns a sealed memfd with lock words, one for each peer, which a small thread of its
// own holds as robust futexes. When the process goes, by whatever way, the kernel marks the words
// as it takes that thread down, before it frees memory and closes descriptors; a forked child holds
// nothing of it. Peers map the memfd read-only. A peer's thread sleeps on the words of all its
// peers at once and signals an eventfd; `Poll` also looks at the words itself, so a spinning reader
// does not wait for the thread. A word to a peer, since the kernel wakes one waiter a word: a
// stopped peer cannot swallow another's wake-up.
//
// The words say "exited" only by the kernel's mark (or a peer's lie about itself); a peer that
// closes its watch in order leaves 0, which is no death. Usable without any transport: pass fd()
// and Assign()'s number to the peer, Add() what it sent. Threads: one thread at a time calls; the
// inner thread shares only what a mutex guards. Owns all descriptors and mappings.
#ifndef FTAR_TRANSPORT_WATCH_H_
#define FTAR_TRANSPORT_WATCH_H_

#include <linux/futex.h>
#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "transport/fd.h"

namespace ftar::transport {

class ProcessWatch {
 public:
  static Expected<std::unique_ptr<ProcessWatch>> Create();
  // Tells peers that this is an orderly end.
  ~ProcessWatch();
  ProcessWatch(const ProcessWatch&) = delete;
  ProcessWatch& operator=(const ProcessWatch&) = delete;

  // The memfd to pass to peers, and the number of the word that `peer` shall watch.
  int fd() const { return segment_fd_.get(); }
  uint32_t Assign(MemberId peer);

  // Watches word `index` of the peer's memfd, which is refused unless sealed and of the right size.
  Status Add(MemberId peer, UniqueFd segment, uint32_t index);
  void Remove(MemberId peer);
  bool Watches(MemberId peer) const { return peers_.contains(peer); }

  // Appends peers that have exited, each once. Cheap: one load a peer.
  void Poll(std::vector<MemberId>* exited);
  // Readable when Poll has something; level-triggered until Poll.
  int event_fd() const { return event_.get(); }

  // Async-signal-safe; the object must not be used or destroyed afterwards.
  void CloseInForkedChild();

 private:
  struct Word;
  struct Segment;
  struct Mapping;
  struct Watched {
    std::shared_ptr<Mapping> mapping;
    uint32_t index = 0;
  };

  ProcessWatch() = default;
  Status Start();
  static void* ThreadMain(void* self);
  void Run();
  void HoldWords();
  size_t WaitOnce(const std::vector<Watched>& watched, uint32_t generation);
  void Publish();
  void WakeThread();

  UniqueFd segment_fd_, event_;
  std::unique_ptr<robust_list_head> head_;  // read by the kernel when the thread ends
  std::shared_ptr<Mapping> own_;
  uint32_t next_index_ = 0;
  std::unordered_map<MemberId, Watched> peers_;

  pthread_t thread_{};
  bool thread_runs_ = false;
  std::mutex mutex_;  // guards the next three
  std::vector<Watched> published_;
  bool fresh_ = false;  // published_ is for the thread to take
  bool stop_ = false;
  std::atomic<uint32_t> generation_{0};  // the thread's own futex: changes with published_
  std::atomic<uint32_t> held_{0};        // 1 when the thread holds the words
  std::atomic<bool> signalled_{false};
};

}  // namespace ftar::transport

#endif  // FTAR_TRANSPORT_WATCH_H_
