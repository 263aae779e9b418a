// Streams and graphs of the fake GPU: each stream is a thread that does what was put onto it, one
// after the other.
//
// A stream that is being captured records instead; a graph plays its recording onto any stream, as
// often as it is launched. Any thread may put something onto a stream, and waits while the stream
// holds as much as a real one does. After Break (a sticky error) streams forget what they hold, and
// nothing put onto one is done.
#ifndef FTAR_TESTS_FAKEGPU_FAKE_STREAM_H_
#define FTAR_TESTS_FAKEGPU_FAKE_STREAM_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "device/gpu.h"

namespace ftar::fakegpu {

using Action = std::function<void()>;
using Graph = std::vector<Action>;

// The GPU as a whole.
enum class Mood { kWell, kBroken, kHung };
void SetMood(Mood mood);
Mood CurrentMood();

// As with CUDA_LAUNCH_BLOCKING: whoever launches a kernel waits until it has ended.
void LetLaunchesBlock(bool block);
bool LaunchesBlock();

// Full of somebody's kernels: the resident one that is launched does not come.
void Fill(bool full);
bool IsFull();

// As if the card were full at so many of the next tries to open it.
void FailToOpen(int times);
bool FailsToOpen();
// As if it could not reach the next so many of other processes' blocks.
void FailToImport(int times);
bool FailsToImport();

// What the driver holds while it launches, allocates or frees. A call that frees memory, or loads a
// module, holds it until everything that was put onto any stream is done, as the real one may.
std::mutex& DriverLock();
// Until nothing runs on the GPU and no stream holds anything, or the GPU is broken.
void AwaitIdleGpu();
// A kernel that is on no stream of these.
void CountKernels(int more);

class Stream {
 public:
  Stream();
  ~Stream();  // waits for nothing: what is left is forgotten
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // A user's handle's; null is the default stream's.
  static Stream* Of(void* handle);

  // False while the GPU is broken.
  bool Put(Action action);
  bool PutGraph(const Graph& graph);
  // Until all that was put is done; false if that will never be.
  bool Wait();

  void BeginCapture();
  Graph EndCapture();
  bool capturing();
  bool idle();
  int32_t card() const { return card_; }

 private:
  void Main();

  const int32_t card_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Action> queue_;
  bool busy_ = false, stopping_ = false, capturing_ = false;
  Graph recording_;
  std::thread thread_;
};

// The stream's side of a gate's cycle (device/gpu.h).
bool PutGate(Stream* stream, device::Gate* gate, void* outcome);

}  // namespace ftar::fakegpu

#endif  // FTAR_TESTS_FAKEGPU_FAKE_STREAM_H_
