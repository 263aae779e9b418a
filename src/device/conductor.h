// What an executor does with its schedule's decisions: reads what the lanes say, hands plans over.
//
// A template over the mailboxes and the launches, so that the device simulator runs it too.
//   Launches: Launch(post) starts the post's plan behind what was launched before, with its run's
//   others or alone; Done() is the number through which all are done; LaunchResident(blocks) starts
//   the resident kernel; Abort(e) stops launches of epochs before e.
#ifndef FTAR_DEVICE_CONDUCTOR_H_
#define FTAR_DEVICE_CONDUCTOR_H_

#include <bit>
#include <cstdint>

#include "base/mutant.h"
#include "device/mailbox.h"
#include "device/schedule.h"
#include "kernels/resident_kernels.h"

namespace ftar::device {

template <typename Boxes, typename Launches>
class Conductor {
 public:
  struct Options {
    int blocks = 0;  // of the resident kernel; 0: everything is launched, and there are no boxes
    uint64_t launches = 64;
    TimeNs stuck_ns = 0;
    TimeNs silence_ns = 0;   // the resident kernel leaves when there is nothing to do for so long
    TimeNs patience_ns = 0;  // and waits so long for its first part
  };
  Conductor(const Options& options, Boxes* boxes, Launches* launches)
      : options_(options),
        boxes_(boxes),
        launches_(launches),
        schedule_({.blocks = options.blocks,
                   .slots = kernels::kResidentSlots,
                   .launches = options.launches,
                   .stuck_ns = options.stuck_ns}) {
    if (options_.blocks > 0) boxes_->Abort(schedule_.epoch());
    launches_->Abort(schedule_.epoch());
    Pump();
  }

  uint64_t Submit(const kernels::Plan& plan) {
    const bool resident = options_.blocks > 0 && kernels::ResidentKernelOf(plan.id) >= 0;
    const uint64_t number = schedule_.Submit(plan, resident);
    Pump();
    return number;
  }

  uint64_t Poll(TimeNs now) {
    if (broken_) return schedule_.done();
    Listen();
    if (options_.blocks > 0 && !schedule_.idle() && now - beat_at_ >= kBeatNs) {
      beat_at_ = now;
      boxes_->Beat();
    }
    schedule_.Tick(now, motion_);
    Pump();
    return schedule_.done();
  }

  void Abort() {
    schedule_.Abort();
    if (FTAR_MUTANT(kAbortUntold)) return;
    if (options_.blocks > 0) boxes_->Abort(schedule_.epoch());
    launches_->Abort(schedule_.epoch());
  }

  // Held: the resident kernel is there, or about to come without any call of the driver, as soon as
  // Stays says so, and until it is let go.
  void Hold(bool held) {
    if (options_.blocks == 0 || held == held_) return;
    held_ = held;
    launched_held_ = false;
    boxes_->Hold(held);
    schedule_.Hold(held);
    Pump();
  }
  bool Stays() {
    if (options_.blocks == 0) return true;
    Listen();
    Pump();
    if (!held_ || !schedule_.crew_is_out()) return false;
    for (int b = 0; b < options_.blocks; ++b) {
      if (schedule_.block_left(b)) return false;
      // One that has yet to come finds the host's word, if that was there before the launch.
      const bool knows = schedule_.block_up(b) ? boxes_->Heard(b) : launched_held_;
      if (!knows && !FTAR_MUTANT(kHoldUnheard)) return false;
    }
    return true;
  }

  // For the end: the resident kernel leaves when nothing is outstanding.
  void Dismiss() {
    if (options_.blocks > 0) boxes_->Recall();
  }
  bool Gone() const {
    for (int b = 0; b < options_.blocks; ++b) {
      if (!boxes_->Left(b)) return false;
    }
    return true;
  }

  const Schedule& schedule() const { return schedule_; }
  // A lane has said what cannot be: the memory that both sides share is not in order.
  bool broken() const { return broken_; }

 private:
  static constexpr TimeNs kBeatNs = 50 * kMicrosecond;

  void Listen() {
    uint64_t motion = 0;
    for (int b = 0; b < options_.blocks; ++b) {
      // Left before Done, so that what it did before it left is seen with it.
      const bool left = boxes_->Left(b);
      const bool up = boxes_->Up(b);
      const uint64_t done = boxes_->Done(b);
      // What it has refused it counts as done, so that is looked at behind Done, and nothing of it
      // believed.
      if (boxes_->Refused(b)) {
        broken_ = true;
      } else {
        Acknowledge(b, done);
      }
      schedule_.SeeBlock(b, up, left);
      motion = std::rotl(motion, 7) ^ boxes_->Moved(b) ^ boxes_->Done(b) ^ (up ? 1u : 0u);
    }
    const uint64_t launched = launches_->Done();
    Acknowledge(schedule_.launch_lane(), launched);
    motion_ = std::rotl(motion, 7) ^ launched;
  }

  void Acknowledge(int lane, uint64_t number) {
    if (!schedule_.Acknowledge(lane, number)) broken_ = true;
  }

  void Pump() {
    for (Call call = schedule_.TakeCall(); call != Call::kNothing; call = schedule_.TakeCall()) {
      if (call == Call::kRecall) {
        boxes_->Recall();
        continue;
      }
      // Patience is for a first part. One that is held is not to stay for long once it is let go.
      const TimeNs patience = schedule_.LacksBlocks() ? options_.patience_ns : options_.silence_ns;
      boxes_->Prepare(schedule_.generation(), options_.blocks,
                      static_cast<uint64_t>(options_.silence_ns), static_cast<uint64_t>(patience),
                      [this](int block) { return schedule_.NextNumber(block); });
      launched_held_ = held_;
      launches_->LaunchResident(options_.blocks);
    }
    for (Post post; schedule_.TakePost(&post);) {
      if (post.lane == schedule_.launch_lane()) {
        launches_->Launch(post);
        continue;
      }
      const int kernel = kernels::ResidentKernelOf(post.plan->id);
      boxes_->Post(post.lane, {.number = post.number,
                               .first = post.first,
                               .stride = post.stride,
                               .kernel = static_cast<uint32_t>(kernel),
                               .epoch = post.epoch,
                               .job = post.plan->job});
    }
  }

  const Options options_;
  Boxes* const boxes_;
  Launches* const launches_;
  Schedule schedule_;
  TimeNs beat_at_ = 0;
  uint64_t motion_ = 0;
  bool broken_ = false;
  bool held_ = false, launched_held_ = false;
};

}  // namespace ftar::device

#endif  // FTAR_DEVICE_CONDUCTOR_H_
