// The resident kernel: a few blocks that stay on the device and take their work out of mailboxes in
// pinned memory, so that the host hands over a plan by storing some words and calls no driver.
//
// The loop's text is one for the device, for threads of the host that play it (host_resident.h) and
// for the device simulator of the tests: it is a template over the operations on memory, on the
// block's threads and on time. A block's threads run it together:
//  - one thread of a block looks at memory and waits; what it sees reaches the others through a
//    barrier, and all of them leave a wait by the same way;
//  - a number is read with acquire order before the descriptor that it stands for, and the number
//    of what is done is stored with release order after all of the block's data;
//  - nothing that the other side wrote bounds a loop or makes an address without a check.
// A block leaves between two parts only, so what it was handed is then either done or not begun.
// The memory belongs to the host and outlives the kernel.
#ifndef FTAR_KERNELS_RESIDENT_H_
#define FTAR_KERNELS_RESIDENT_H_

#include <cstddef>

#include "base/mutant.h"
#include "kernels/block_job.h"
#include "kernels/job.h"

namespace ftar::kernels {

inline constexpr int kResidentBlocksMax = 4;
inline constexpr uint64_t kResidentSlots = 4;  // parts that a block has been handed at a time
inline constexpr uint64_t kResidentLookNs = 10'000;

// A block's part of a plan: chunks first, first + stride, and so on.
struct alignas(16) ResidentPart {
  uint64_t number = 0;  // the slot's, again
  uint64_t first = 0;
  uint64_t stride = 1;
  uint32_t kernel = 0;  // resident_kernels.h
  uint32_t epoch = 0;   // dropped where the host's word is beyond it
  Job job;
};
inline constexpr uint32_t kResidentPartPacks = sizeof(ResidentPart) / sizeof(Pack);
static_assert(sizeof(ResidentPart) % sizeof(Pack) == 0);

// Each line is written by one side only.
struct alignas(128) ResidentHostLine {
  uint32_t generation = 0;   // of the kernel that is launched; set before it is
  uint32_t stop = 0;         // kernels of this generation leave
  uint32_t abort_epoch = 0;  // parts of older epochs are dropped
  uint32_t alive = 0;        // changes while there is work; odd: nobody leaves for silence
  // Set before the launch, like each block's first part. Blocks leave if `alive` has not changed,
  // nor a part come, for so long; 0: never.
  uint64_t silence_ns = 0;
  uint64_t patience_ns = 0;  // instead, until the first part
  uint64_t first[kResidentBlocksMax] = {};
};
struct alignas(128) ResidentDeviceLine {
  uint64_t done = 0;     // all parts up to this number are done or dropped
  uint64_t moved = 0;    // changes with each chunk
  uint32_t up = 0;       // the generation that has come
  uint32_t left = 0;     // the generation that has left
  uint32_t refused = 0;  // a part made no sense: the rest of it was not done
  uint32_t heard = 0;    // the host's `alive`, as seen last
};
struct alignas(128) ResidentSlot {
  uint64_t number = 0;  // from 1; number % kResidentSlots is the slot's place
  alignas(128) ResidentPart part;
};
struct ResidentControl {
  ResidentHostLine host;
  ResidentDeviceLine device[kResidentBlocksMax];
  ResidentSlot slot[kResidentBlocksMax][kResidentSlots];
};
static_assert(sizeof(ResidentHostLine) == 128 && sizeof(ResidentDeviceLine) == 128);

// Epochs and generations go round.
FTAR_HD bool IsBeyond(uint32_t a, uint32_t b) { return static_cast<int32_t>(a - b) > 0; }

// The places where a block's threads meet.
enum class Meeting : uint32_t { kOrder, kRead, kChunk, kDone };

// What a block's waiting thread remembers.
struct ResidentWatch {
  uint32_t generation = 0;
  uint32_t alive = 0;
  uint64_t patience_ns = 0;  // how long it waits
  uint64_t silence_ns = 0;   // and from the first part on
  uint64_t looked_ns = 0;    // when it looked for the host's words
  uint64_t heard_ns = 0;     // when they had changed
};

// What a block keeps in memory that its threads share: registers are for the data.
struct ResidentShared {
  ResidentPart part;
  uint64_t number = 0;  // the last part
  ResidentWatch watch;  // of the thread that waits
};

// True if the block has to leave. Memory is asked every 10 us, not each time; and all of it at
// once, since every answer takes a microsecond in which nobody looks for parts.
template <typename Ops>
FTAR_HD bool HasToLeave(Ops& ops, ResidentControl* control, ResidentWatch* watch) {
  const uint64_t now = ops.NowNs();
  if (now - watch->looked_ns < kResidentLookNs) return false;
  watch->looked_ns = now;
  const uint32_t stop = ops.LoadRelaxed(&control->host.stop);
  const uint32_t alive = ops.LoadRelaxed(&control->host.alive);
  uint32_t left[kResidentBlocksMax];
  FTAR_UNROLL for (int b = 0; b < kResidentBlocksMax; ++b) {
    left[b] = ops.LoadRelaxed(&control->device[b].left);
  }
  // A kernel has ended when all of its blocks have: one that leaves takes the others along.
  bool leaves = stop == watch->generation;
  FTAR_UNROLL for (int b = 0; b < kResidentBlocksMax; ++b) {
    leaves = leaves || left[b] == watch->generation;
  }
  if (leaves) return true;
  if (alive != watch->alive) {
    watch->alive = alive;
    watch->heard_ns = now;
    // Whoever reads an odd one here knows that the block stays until it sees another.
    ops.StoreRelease(&control->device[ops.Block()].heard, alive);
  }
  if ((alive & 1) != 0 && !FTAR_MUTANT(kHeldLeaves)) return false;
  return watch->patience_ns != 0 && now - watch->heard_ns > watch->patience_ns;
}

// One thread waits for the next part; true if it has to leave instead.
template <typename Ops>
FTAR_HD bool AwaitPart(Ops& ops, ResidentControl* control) {
  ResidentShared* shared = ops.Shared();
  const uint64_t number = shared->number + 1;
  const uint64_t* word = &control->slot[ops.Block()][number % kResidentSlots].number;
  for (;;) {
    const uint64_t seen =
        FTAR_MUTANT(kNumberUnordered) ? ops.LoadRelaxed(word) : ops.LoadAcquire(word);
    if (seen == number) break;
    if (HasToLeave(ops, control, &shared->watch)) return true;
    ops.Pause();
  }
  shared->number = number;
  shared->watch.patience_ns = shared->watch.silence_ns;
  return false;
}

// One thread looks, all learn.
template <typename Ops>
FTAR_HD bool IsDropped(Ops& ops, const ResidentControl& control, const ResidentPart& part) {
  bool dropped = false;
  if (ops.Thread() == 0 && !FTAR_MUTANT(kStaleEpochRuns)) {
    dropped = IsBeyond(ops.LoadRelaxed(&control.host.abort_epoch), part.epoch);
  }
  if (FTAR_MUTANT(kAbortSeenByOne)) {
    // The one that looked goes its own way.
    if (!dropped) ops.Any(Meeting::kChunk, false);
    return dropped;
  }
  return ops.Any(Meeting::kChunk, dropped);
}

// The block's own copy of its next part; false if it makes no sense.
template <typename Ops>
FTAR_HD bool ReadPart(Ops& ops, ResidentControl* control) {
  ResidentShared* shared = ops.Shared();
  const uint64_t number = shared->number;
  const ResidentSlot& slot = control->slot[ops.Block()][number % kResidentSlots];
  const auto* from = reinterpret_cast<const Pack*>(&slot.part);
  auto* to = reinterpret_cast<Pack*>(&shared->part);
  for (uint32_t i = ops.Thread(); i < kResidentPartPacks; i += ops.Threads()) {
    to[i] = ops.LoadPack(&from[i]);
  }
  ops.Any(Meeting::kRead, false);
  return shared->part.number == number && shared->part.stride != 0;
}

// The thread that leads a block, before the block's first part.
template <typename Ops>
FTAR_HD void ComeUp(Ops& ops, ResidentControl* control) {
  const ResidentHostLine& host = control->host;
  ResidentDeviceLine* line = &control->device[ops.Block()];
  ResidentShared* shared = ops.Shared();
  shared->number = FTAR_MUTANT(kCountsFromOne) ? 0 : ops.LoadRelaxed(&host.first[ops.Block()]) - 1;
  ResidentWatch* watch = &shared->watch;
  watch->generation = ops.LoadRelaxed(&host.generation);
  watch->patience_ns = ops.LoadRelaxed(&host.patience_ns);
  watch->silence_ns = ops.LoadRelaxed(&host.silence_ns);
  watch->alive = ops.LoadRelaxed(&host.alive);
  watch->looked_ns = watch->heard_ns = ops.NowNs();
  ops.StoreRelease(&line->heard, watch->alive);
  ops.StoreRelease(&line->up, watch->generation);
}

// The chunks of the block's part.
template <typename Ops>
FTAR_HD void RunPart(Ops& ops, ResidentControl* control, const ResidentPart& part) {
  ResidentDeviceLine* line = &control->device[ops.Block()];
  uint32_t sum = 0;
  FTAR_NO_UNROLL for (uint64_t chunk = part.first; chunk < part.job.chunks; chunk += part.stride) {
    if (IsDropped(ops, *control, part)) break;
    ops.RunChunk(part, chunk, &sum);
    if (ops.Thread() == 0) ops.StoreRelaxed(&line->moved, (part.number << 32) + chunk + 1);
  }
  if (part.job.checksum != nullptr) ops.AddToChecksum(part.job.checksum, sum);
}

// The number of what is done, after the data of all threads.
template <typename Ops>
FTAR_HD void TellDone(Ops& ops, ResidentControl* control) {
  uint64_t* done = &control->device[ops.Block()].done;
  const bool leads = ops.Thread() == 0;
  if (FTAR_MUTANT(kDoneBeforeData)) {
    if (leads) ops.StoreRelaxed(done, ops.Shared()->number);
    ops.Any(Meeting::kDone, false);
    return;
  }
  ops.Any(Meeting::kDone, false);
  if (!leads) return;
  ops.StoreRelease(done, ops.Shared()->number);
  ops.Shared()->watch.heard_ns = ops.NowNs();
}

// All of a block's threads. Ops is one thread's.
template <typename Ops>
FTAR_HD void RunResidentBlock(Ops& ops, ResidentControl* control) {
  ResidentDeviceLine* line = &control->device[ops.Block()];
  ResidentShared* shared = ops.Shared();
  const bool leads = ops.Thread() == 0;
  if (leads) ComeUp(ops, control);
  for (;;) {
    const bool leaves = leads && AwaitPart(ops, control);
    if (FTAR_MUTANT(kReturnsFromWait) && leaves) return;
    if (ops.Any(Meeting::kOrder, leaves)) break;
    if (ReadPart(ops, control)) {
      RunPart(ops, control, shared->part);
    } else if (leads) {
      ops.StoreRelaxed(&line->refused, 1u);
    }
    TellDone(ops, control);
  }
  if (leads) ops.StoreRelease(&line->left, shared->watch.generation);
}

}  // namespace ftar::kernels

#endif  // FTAR_KERNELS_RESIDENT_H_
