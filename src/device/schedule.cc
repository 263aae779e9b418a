#include "device/schedule.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "base/mutant.h"

namespace ftar::device {

Schedule::Schedule(const Options& options) : options_(options) {
  lanes_.resize(static_cast<size_t>(options.blocks) + 1);
  for (Lane& lane : lanes_) lane.capacity = options.slots;
  lanes_.back().capacity = options.launches;
  lanes_.back().up = true;
}

uint64_t Schedule::Submit(const kernels::Plan& plan, bool resident) {
  Entry entry{.plan = plan, .touched = Touched(plan), .resident = resident, .epoch = epoch_};
  if (plan.blocks == 0) entry.state = State::kFinished;
  for (size_t i = 0; i < window_.size() && entry.state == State::kWaiting; ++i) {
    const Entry& earlier = window_[i];
    if (earlier.state == State::kFinished || !entry.touched.Conflicts(earlier.touched)) continue;
    if (!FTAR_MUTANT(kOverlapTogether)) entry.blockers.push_back(first_ + i);
  }
  if (window_.empty()) was_idle_ = true;
  window_.push_back(std::move(entry));
  const uint64_t number = submitted();
  Retire();
  return number;
}

bool Schedule::Acknowledge(int lane_number, uint64_t number) {
  Lane& lane = lanes_[static_cast<size_t>(lane_number)];
  if (number < lane.acknowledged || number > lane.posted) return false;
  lane.acknowledged = number;
  while (!lane.handed.empty() && lane.handed.front().number <= number) {
    const uint64_t plan = lane.handed.front().plan;
    lane.handed.pop_front();
    if (plan >= first_) FinishPart(plan);
  }
  Retire();
  return true;
}

void Schedule::FinishPart(uint64_t plan) {
  Entry& entry = Find(plan);
  if (entry.state == State::kFinished) return;
  assert(entry.state == State::kRunning && entry.parts_left > 0);
  --entry.parts_left;
  if (entry.parts_left == 0 || FTAR_MUTANT(kOneBlockSpeaksForAll)) entry.state = State::kFinished;
}

void Schedule::Retire() {
  while (!window_.empty() && window_.front().state == State::kFinished) {
    window_.pop_front();
    ++first_;
  }
}

void Schedule::SeeBlock(int block, bool up, bool left) {
  Lane& lane = lanes_[static_cast<size_t>(block)];
  lane.left = left;
  lane.up = up && !left;
}

void Schedule::Abort() {
  ++epoch_;
  if (!FTAR_MUTANT(kRunAcrossEpochs)) ++run_;
  for (Entry& entry : window_) {
    if (entry.state == State::kWaiting || FTAR_MUTANT(kAbortEndsRunning)) {
      entry.state = State::kFinished;
    }
  }
  Retire();
}

void Schedule::Tick(TimeNs now, uint64_t motion) {
  // Nobody looked for long: this process was stopped, and its launches with it. That counts little.
  const TimeNs unseen = now - std::exchange(ticked_at_, now);
  moved_at_ += std::max<TimeNs>(unseen - options_.stuck_ns / 4, 0);
  if (motion != motion_ || was_idle_) moved_at_ = now;
  motion_ = motion;
  was_idle_ = window_.empty();
  if (!was_idle_ && options_.stuck_ns > 0 && now - moved_at_ > options_.stuck_ns) stuck_ = true;
}

// ---- handing over

bool Schedule::TakePost(Post* post) {
  // With every poll, and the window may be long.
  if (ready_.empty() && options_.blocks == 0 && !CanTake(lanes_.back())) return false;
  size_t looked = 0;
  for (size_t i = 0; ready_.empty() && i < window_.size() && looked < kLookAhead; ++i) {
    if (window_[i].state != State::kWaiting) continue;
    ++looked;
    if (Start(first_ + i)) break;
  }
  if (ready_.empty()) return false;
  *post = ready_.front();
  ready_.pop_front();
  return true;
}

int Schedule::LaneOfBlockers(Entry* entry) {
  std::erase_if(entry->blockers, [this](uint64_t plan) {
    return plan < first_ || Find(plan).state == State::kFinished;
  });
  int behind = kNone;
  for (const uint64_t plan : entry->blockers) {
    const Entry& blocker = Find(plan);
    if (blocker.state != State::kRunning || blocker.lane == kNone) return kBlocked;
    if (behind != kNone && behind != blocker.lane) return kBlocked;
    behind = blocker.lane;
  }
  return behind;
}

bool Schedule::Start(uint64_t plan) {
  Entry& entry = Find(plan);
  const int behind = LaneOfBlockers(&entry);
  if (behind == kBlocked) return false;
  if (!entry.resident) {
    const bool in_order = behind == kNone || behind == launch_lane();
    if (!in_order || !CanTake(lanes_.back())) return false;
    Hand(plan, launch_lane(), {});
    return true;
  }
  if (crew_ != Crew::kOut) return false;
  if (!entry.again.empty()) return behind == kNone && StartAgain(plan);
  if (behind == kNone) return StartSplit(plan);
  // On one block, behind what it waits for, if that costs nothing.
  if (behind == launch_lane() || entry.plan.job.chunks > 1) return false;
  if (!CanTake(lanes_[static_cast<size_t>(behind)])) return false;
  Hand(plan, behind, {});
  return true;
}

// Over as many of the blocks that are there as it has chunks, first those that have least to do.
bool Schedule::StartSplit(uint64_t plan) {
  std::vector<int> blocks;
  for (int b = 0; b < options_.blocks; ++b) {
    if (lanes_[static_cast<size_t>(b)].up || FTAR_MUTANT(kAbsentBlockServed)) blocks.push_back(b);
  }
  std::stable_sort(blocks.begin(), blocks.end(), [this](int a, int b) {
    return lanes_[static_cast<size_t>(a)].handed.size() <
           lanes_[static_cast<size_t>(b)].handed.size();
  });
  const uint64_t chunks = Find(plan).plan.job.chunks;
  const auto parts = static_cast<size_t>(std::min<uint64_t>(chunks, blocks.size()));
  if (parts == 0) return false;
  // The last of them has most.
  const Lane& fullest = lanes_[static_cast<size_t>(blocks[parts - 1])];
  if (fullest.handed.size() >= fullest.capacity && !FTAR_MUTANT(kSlotReused)) return false;
  for (size_t i = 0; i < parts; ++i) Hand(plan, blocks[i], {.first = i, .stride = parts});
  return true;
}

// All parts that were left undone, in one go, wherever there is room.
bool Schedule::StartAgain(uint64_t plan) {
  size_t room = 0;
  for (int b = 0; b < options_.blocks; ++b) {
    const Lane& lane = lanes_[static_cast<size_t>(b)];
    if (lane.up) room += lane.capacity - lane.handed.size();
  }
  const std::vector<Part> parts = Find(plan).again;
  if (room < parts.size()) return false;
  Find(plan).again.clear();
  for (const Part& part : parts) Hand(plan, LeastLoaded(), part);
  return true;
}

// Of the blocks that are there.
int Schedule::LeastLoaded() const {
  int least = kNone;
  for (int b = 0; b < options_.blocks; ++b) {
    const Lane& lane = lanes_[static_cast<size_t>(b)];
    if (!lane.up) continue;
    if (least == kNone || lane.handed.size() < lanes_[static_cast<size_t>(least)].handed.size()) {
      least = b;
    }
  }
  return least;
}

void Schedule::Hand(uint64_t plan, int lane_number, Part part) {
  Entry& entry = Find(plan);
  Lane& lane = lanes_[static_cast<size_t>(lane_number)];
  entry.state = State::kRunning;
  entry.lane = part.stride == 1 ? lane_number : kNone;
  ++entry.parts_left;
  if (lane_number == launch_lane()) entry.run = RunFor(entry);
  lane.handed.push_back({.number = ++lane.posted, .plan = plan, .part = part});
  ready_.push_back({.lane = lane_number,
                    .number = lane.posted,
                    .run = entry.run,
                    .epoch = entry.epoch,
                    .first = part.first,
                    .stride = part.stride,
                    .plan = &entry.plan});
}

// What conflicts with it and is of the run is one of its blockers: a later plan that was launched
// ahead of it would have waited for it.
uint64_t Schedule::RunFor(const Entry& entry) {
  const bool conflicts =
      std::any_of(entry.blockers.begin(), entry.blockers.end(),
                  [this](uint64_t plan) { return plan >= first_ && Find(plan).run == run_; });
  if (conflicts && !FTAR_MUTANT(kRunInConflict)) ++run_;
  return run_;
}

// All blocks have left: what they have not done, nobody has begun.
void Schedule::Withdraw() {
  for (size_t b = 0; b + 1 < lanes_.size() && !FTAR_MUTANT(kLeftUndoneLost); ++b) {
    for (const Handed& handed : lanes_[b].handed) {
      if (handed.plan < first_) continue;
      Entry& entry = Find(handed.plan);
      // What was aborted meanwhile needs no kernel to be dropped.
      entry.state = entry.epoch == epoch_ ? State::kWaiting : State::kFinished;
      entry.lane = kNone;
      --entry.parts_left;
      entry.again.push_back(handed.part);
    }
    lanes_[b].handed.clear();
  }
  Retire();
}

// ---- the resident kernel

bool Schedule::BlocksAreWanted() const { return generation_ == 0 || held_ || LacksBlocks(); }

bool Schedule::LacksBlocks() const {
  return std::any_of(window_.begin(), window_.end(), [](const Entry& entry) {
    return entry.resident && entry.state == State::kWaiting;
  });
}

Call Schedule::TakeCall() {
  if (options_.blocks == 0) return Call::kNothing;
  const auto left =
      std::count_if(lanes_.begin(), lanes_.end() - 1, [](const Lane& lane) { return lane.left; });
  if (crew_ == Crew::kOut && left > 0) {
    crew_ = Crew::kRecalled;
    return Call::kRecall;
  }
  const bool all_left = left == options_.blocks || FTAR_MUTANT(kLaunchedTwice);
  if (crew_ == Crew::kRecalled && all_left) {
    crew_ = Crew::kHome;
    Withdraw();
  }
  if (crew_ != Crew::kHome || !BlocksAreWanted()) return Call::kNothing;
  crew_ = Crew::kOut;
  ++generation_;
  for (int b = 0; b < options_.blocks; ++b) SeeBlock(b, false, false);
  return Call::kLaunch;
}

}  // namespace ftar::device
