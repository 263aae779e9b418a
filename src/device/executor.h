// Who carries out kernels' plans on a GPU, in the order in which they were given.
//
// Two executors stand behind this interface (design 9): one that launches a bounded kernel for each
// plan on a private stream, for a GPU that is shared, and one that hands plans to a resident kernel
// through mailboxes in pinned memory. The caller cannot tell them apart but by their speed: results
// have the same bits.
//
// Threads: one caller at a time (the job's lock). Nothing here calls the driver, blocks or waits: a
// call costs what it takes to write some words. Ownership: addresses in a plan belong to the
// caller, who gives none of them back before done() has reached the plan's number.
#ifndef FTAR_DEVICE_EXECUTOR_H_
#define FTAR_DEVICE_EXECUTOR_H_

#include <cstdint>
#include <memory>

#include "base/ids.h"
#include "base/status.h"
#include "device/gpu.h"
#include "kernels/plan.h"

namespace ftar::device {

class Executor {
 public:
  virtual ~Executor() = default;
  virtual const char* name() const = 0;  // "bounded", "resident"

  // Its effect is as if all plans ran one after the other, in this order; plans that touch
  // different memory may overlap. Returns the plan's number, one more than the last; the first is
  // 1. The plan's abort word, epoch and `stopped` are the executor's to fill.
  virtual uint64_t Submit(const kernels::Plan& plan) = 0;
  uint64_t submitted() const { return submitted_; }

  // Moves on whatever the host has to; returns the number through which all plans are done, or were
  // dropped by an abort, and touch no memory any more. Never falls.
  virtual uint64_t Poll(TimeNs now) = 0;

  // What has not begun is dropped, what runs stops at its next chunk; Poll says when it has. Plans
  // submitted later run as usual.
  virtual void Abort() = 0;

  // While it is held, and once Stays has said so, what the resident kernel knows needs no call of
  // the driver: for whoever waits for us may keep the driver. And either executor asks for the
  // context's health meanwhile.
  virtual void Hold(bool held) = 0;
  virtual bool Stays() = 0;

  // Why nothing moves any more: kDevice after a sticky error, or when a kernel has not moved for
  // longer than `stuck_ns` (given at creation). Abort and Poll may still be called.
  virtual Status status() const = 0;

  // What all that costs others: blocks times the time for which they were on the GPU, as the host
  // sees it.
  virtual int64_t block_ns() = 0;

 protected:
  uint64_t submitted_ = 0;
};

enum class ExecutorKind { kBounded, kResident };

struct ExecutorOptions {
  ExecutorKind kind = ExecutorKind::kBounded;
  int blocks = 2;                  // of the resident kernel
  TimeNs stuck_ns = 10 * kSecond;  // 0: never
  // The resident kernel leaves when there has been nothing to do for so long, and is launched again
  // for the next plan: until it leaves, a user's cudaDeviceSynchronize or cudaFree waits for it. 0:
  // it stays.
  TimeNs silence_ns = 2 * kMillisecond;
};

// Set-up: loads kernels, allocates mailboxes, starts the resident kernel. The destructor aborts,
// waits up to stuck_ns for the GPU to let go, and leaks pinned memory that it still might write. A
// thread that is inside the driver even then is left behind, and `gpu` lives as long as it does.
Expected<std::unique_ptr<Executor>> OpenExecutor(const std::shared_ptr<Gpu>& gpu,
                                                 const ExecutorOptions& options);

}  // namespace ftar::device

#endif  // FTAR_DEVICE_EXECUTOR_H_
