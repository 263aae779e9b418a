// The thread that launches: whatever the driver makes a call wait for, the job's lock is not held.
//
// Its owner, one thread at a time, hands commands over through a ring that never fills (the
// schedule bounds what is outstanding) and waits for nothing. What waits at the front of the ring
// and is of one run and one kernel goes out as one launch; what is alone goes at once. Kernels run
// one after the other on the Gpu's private stream; how far they are stands in pinned memory, and so
// does the word that stops them. While somebody says that there is work, or will be, the thread
// also asks for the context's health.
#ifndef FTAR_DEVICE_LAUNCHER_H_
#define FTAR_DEVICE_LAUNCHER_H_

#include <memory>
#include <thread>

#include "base/ids.h"
#include "base/status.h"
#include "device/gpu.h"
#include "device/meter.h"
#include "device/schedule.h"

namespace ftar::device {

// In pinned memory, each line written by one side only.
struct LaunchWords {
  alignas(128) uint32_t abort_epoch = 0;
  alignas(128) uint64_t done = 0;
};

class Launcher {
 public:
  static constexpr uint64_t kOutstandingMax = 64;
  static TimeNs Now();  // CLOCK_MONOTONIC

  // `words` outlive what was launched; `control` is the resident kernel's, or null.
  Launcher(std::shared_ptr<Gpu> gpu, LaunchWords* words, void* control);
  // Leaves a thread that is inside the driver behind if End has not been true, and the Gpu with it.
  ~Launcher();
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  // At most kOutstandingMax are not done.
  void Launch(const Post& post);
  void LaunchResident(int blocks);
  // What is launched from now on with an older epoch does nothing; what runs stops.
  void Abort(uint32_t epoch);
  // Through which number all are done.
  uint64_t Done() const;
  // Counts what was launched until now, the resident kernel apart.
  void Measure(TimeNs now);
  Meter& meter() { return meter_; }

  // Whether somebody waits for the GPU.
  void Expect(bool work);
  // The first thing that went wrong.
  Status status() const;
  // All that was handed over has been launched.
  bool settled() const;
  // Waits until all that was handed over has been launched (set-up).
  void Settle();
  // Tells the thread to end; true once it has. May be asked again.
  bool End();

 private:
  struct Command;
  class Ring;
  struct Core;
  void Wake();

  std::shared_ptr<Core> core_;
  Meter meter_;
  std::thread thread_;
};

}  // namespace ftar::device

#endif  // FTAR_DEVICE_LAUNCHER_H_
