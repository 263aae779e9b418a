// Who does which plan when: a machine without thread, clock or GPU.
//
// Plans come in an order and have to end as if they ran in it. Work goes to lanes, each of which
// does what it is handed one after the other: the blocks of the resident kernel, and the stream
// that kernels are launched on. A plan is handed over, whole or in parts of its chunks, when
// whatever it conflicts with is done, or is ahead of it on the one lane that it goes to itself. It
// is done when every lane has said so for its part; nothing else ends what runs, an abort neither.
//
// The resident kernel comes and goes: its blocks start one by one, maybe late, and may leave when
// they hear nothing. One that has left calls all of them home; what they have left undone is handed
// over again, to the blocks of a new kernel. Every call does one thing; then what is to be done is
// taken from here until nothing is left.
#ifndef FTAR_DEVICE_SCHEDULE_H_
#define FTAR_DEVICE_SCHEDULE_H_

#include <cstdint>
#include <deque>
#include <vector>

#include "base/ids.h"
#include "device/ranges.h"
#include "kernels/plan.h"

namespace ftar::device {

// Chunks first, first + stride, ... of a plan for a lane. The plan is good until the next call.
struct Post {
  int lane = 0;
  uint64_t number = 0;  // of the lane, from 1
  // The stream's lane: from 1, never falls. Plans of one run are of one epoch and touch nothing
  // that another one of them writes, so those that follow each other may go out as one launch.
  uint64_t run = 0;
  uint32_t epoch = 0;
  uint64_t first = 0;
  uint64_t stride = 1;
  const kernels::Plan* plan = nullptr;
};

enum class Call { kNothing, kLaunch, kRecall };

class Schedule {
 public:
  struct Options {
    int blocks = 0;          // lanes 0 to blocks - 1; the stream's is lane `blocks`
    uint64_t slots = 4;      // parts that a block holds
    uint64_t launches = 64;  // plans that the stream holds
    TimeNs stuck_ns = 0;     // 0: never
  };
  explicit Schedule(const Options& options);

  int launch_lane() const { return options_.blocks; }
  // `resident`: the resident kernel can do it; else it is launched.
  uint64_t Submit(const kernels::Plan& plan, bool resident);
  // The lane has done its parts up to this number. False if that cannot be: the lane is not to be
  // believed any more.
  [[nodiscard]] bool Acknowledge(int lane, uint64_t number);
  // What a block says of itself, for the generation of now.
  void SeeBlock(int block, bool up, bool left);
  // What waits is dropped; what was handed over is awaited.
  void Abort();
  // Held: the resident kernel is wanted, work or none.
  void Hold(bool held) { held_ = held; }
  // `motion` changes whenever something moves on some lane.
  void Tick(TimeNs now, uint64_t motion);

  // What to hand over now; false: nothing more.
  bool TakePost(Post* post);
  // What to do about the resident kernel now.
  Call TakeCall();
  // What a lane's next part will be called.
  uint64_t NextNumber(int lane) const { return lanes_[static_cast<size_t>(lane)].posted + 1; }

  uint64_t submitted() const { return first_ + window_.size() - 1; }
  // All plans up to this one are done or dropped.
  uint64_t done() const { return first_ - 1; }
  bool idle() const { return window_.empty(); }
  uint32_t epoch() const { return epoch_; }
  uint32_t generation() const { return generation_; }
  bool stuck() const { return stuck_; }
  // Plans wait for the resident kernel.
  bool LacksBlocks() const;
  bool crew_is_out() const { return crew_ == Crew::kOut; }
  bool block_left(int block) const { return lanes_[static_cast<size_t>(block)].left; }
  bool block_up(int block) const { return lanes_[static_cast<size_t>(block)].up; }

 private:
  enum class State { kWaiting, kRunning, kFinished };
  // Chunks first, first + stride, ...
  struct Part {
    uint64_t first = 0;
    uint64_t stride = 1;
  };
  struct Entry {
    kernels::Plan plan;
    Touched touched;
    bool resident = false;
    uint32_t epoch = 0;
    State state = State::kWaiting;
    int lane = -1;                        // the only one that it went to
    uint64_t run = 0;                     // 0: it was not launched
    int parts_left = 0;                   // of those that were handed over
    std::vector<uint64_t> blockers = {};  // earlier ones that it conflicts with
    std::vector<Part> again = {};         // parts that a kernel left undone; its others are done
  };
  struct Handed {
    uint64_t number = 0;
    uint64_t plan = 0;
    Part part;
  };
  struct Lane {
    uint64_t capacity = 0;
    bool up = false;
    bool left = false;
    uint64_t posted = 0;
    uint64_t acknowledged = 0;
    std::deque<Handed> handed;  // and not acknowledged
  };
  // kHome: no kernel. kOut: launched. kRecalled: told to leave.
  enum class Crew { kHome, kOut, kRecalled };

  Entry& Find(uint64_t plan) { return window_[plan - first_]; }
  bool CanTake(const Lane& lane) const { return lane.up && lane.handed.size() < lane.capacity; }
  // The lane behind whose work the entry may queue; kNone: nothing blocks it, kBlocked: more does.
  int LaneOfBlockers(Entry* entry);
  bool Start(uint64_t plan);
  bool StartSplit(uint64_t plan);
  bool StartAgain(uint64_t plan);
  void Hand(uint64_t plan, int lane, Part part);
  uint64_t RunFor(const Entry& entry);
  void Withdraw();
  int LeastLoaded() const;
  void FinishPart(uint64_t plan);
  void Retire();
  bool BlocksAreWanted() const;

  static constexpr int kNone = -1;
  static constexpr int kBlocked = -2;
  // How many waiting plans are looked at, beyond one that cannot begin.
  static constexpr size_t kLookAhead = 32;

  const Options options_;
  std::deque<Entry> window_;  // the first of which has number first_
  uint64_t first_ = 1;
  std::vector<Lane> lanes_;
  std::deque<Post> ready_;
  uint32_t epoch_ = 1;
  uint64_t run_ = 1;  // of what was launched last

  Crew crew_ = Crew::kHome;
  bool held_ = false;
  uint32_t generation_ = 0;

  TimeNs moved_at_ = 0, ticked_at_ = 0;
  uint64_t motion_ = 0;
  bool was_idle_ = true;
  bool stuck_ = false;
};

}  // namespace ftar::device

#endif  // FTAR_DEVICE_SCHEDULE_H_
