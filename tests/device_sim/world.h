// One run of the executors' host half and of the resident kernel against each other, from a seed.
//
// The host's conductor and the loop of kernels/resident.h are the library's own code; memory is
// weak_memory.h's, every thread of every block is a fiber, and the seed decides who moves next,
// which blocks come late or only when others have left, who stands still, what is aborted when.
// Data are cells of 16 bytes with symbolic sums, so that a wrong order, a chunk done twice or a
// stale read shows in a value.
//
// What must hold:
//   right     nobody is waited for: all cells are what the plans give one after the other, and the
//             host can read nothing older
//   quiet     no plan touches a cell once the host counts it as done
//   looked    no chunk is begun without a look at the abort word, none after a look that has seen
//   it together  a block's threads meet at the same places, and none leaves while others wait crew
//   at most one kernel's block plays at a mailbox; nobody refuses a part ends      all that was
//   handed over is done, and all blocks leave, within a bounded time
#ifndef FTAR_TESTS_DEVICE_SIM_WORLD_H_
#define FTAR_TESTS_DEVICE_SIM_WORLD_H_

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device/conductor.h"
#include "fiber.h"
#include "tests/sim/random.h"
#include "weak_memory.h"

namespace ftar::device_sim {

class World;

// Drawn from the seed.
struct Weather {
  int blocks = 1;
  int threads = 1;
  int multiprocessors = 4;  // blocks that can be there at a time
  double staleness = 0;
  uint64_t late_steps = 0;  // until a block comes
  double stalls = 0;
  uint64_t stall_steps = 0;
  int rounds = 1;
  int plans = 1;             // of a round
  double aborts = 0;         // after a plan
  double launched = 0;       // plans that the resident kernel does not know
  uint64_t pause_steps = 0;  // between rounds
  TimeNs silence_ns = 0;
  TimeNs patience_ns = 0;
  std::string Text() const;
};

// What some thread does, and what it may still read.
struct Actor {
  Fiber fiber;
  View view;
  bool runs = false;
  bool blocked = false;
  uint64_t stalled_until = 0;
};

struct Block {
  uint32_t block = 0;
  int kernel = 0;  // kernels run one after the other
  std::vector<Actor*> threads;
  kernels::ResidentShared shared;
  // The meeting under way.
  uint32_t arrived = 0;
  uint32_t gone = 0;
  kernels::Meeting place = kernels::Meeting::kOrder;
  bool any = false;
  bool answer = false;
  // Looks at the abort word.
  bool looked = false;
  uint32_t seen_epoch = 0;
  std::vector<std::optional<uint32_t>> permits;  // of each thread, for a chunk: what was seen
};

// The conductor's views of the world.
class SimMemory {
 public:
  explicit SimMemory(World* world) : world_(world) {}
  template <typename T>
  T LoadAcquire(const T* word) const;
  template <typename T>
  void StoreRelaxed(T* word, T value) const;
  template <typename T>
  void StoreRelease(T* word, T value) const;
  void StorePack(kernels::Pack* to, const kernels::Pack& pack) const;

 private:
  World* world_;
};

class SimLaunches {
 public:
  explicit SimLaunches(World* world) : world_(world) {}
  void Launch(const device::Post& post);
  void LaunchResident(int blocks);
  void Abort(uint32_t epoch);
  uint64_t Done() const;

 private:
  World* world_;
};

class World {
 public:
  World();
  // Empty, or what did not hold.
  std::string Run(uint64_t seed);
  const Weather& weather() const { return weather_; }
  // Of all runs: so that a reader sees that seeds reach what they are for.
  struct Reached {
    uint64_t steps = 0, plans = 0, aborts = 0, dropped = 0, relaunches = 0;
    uint64_t launches = 0, batches = 0;
  };
  const Reached& reached() const { return reached_; }

  // ---- for the actors
  void Step();
  Value Load(uintptr_t address, bool acquires);
  void Store(uintptr_t address, Value value, bool releases);
  bool Meet(Block* block, kernels::Meeting place, bool mine);
  void LookedAt(Block* block, const void* word, uint64_t value);
  void BeginChunk(Block* block, uint32_t thread, const kernels::ResidentPart& part);
  void TouchChunk(const kernels::Job& job, uint64_t chunk, uint32_t thread, uint32_t threads);
  uint64_t NowNs() const { return step_ * kStepNs; }
  bool Draw(uint64_t in) { return random_.Below(in) == 0; }
  void Fail(const std::string& text);

  // ---- for the conductor
  void Launch(const device::Post& post);
  void LaunchResident(int blocks);
  void AbortLaunches(uint32_t epoch);
  uint64_t LaunchesDone();

 private:
  using Boxes = device::Mailboxes<SimMemory>;
  using Conductor = device::Conductor<Boxes, SimLaunches>;
  struct Launched {
    kernels::Plan plan;
    uint64_t number = 0;
    uint64_t run = 0;
    uint32_t epoch = 0;
    View view;
  };
  static constexpr uint64_t kStepNs = 20'000;
  static constexpr uint64_t kStepsMax = 400'000;
  static constexpr uint64_t kCells = 40;

  void DrawWeather(uint64_t seed);
  Actor* NewActor(std::function<void()> body);
  Actor* Pick();
  // The host.
  void PlayHost();
  void PlayRound();
  void WaitSome(uint64_t steps);
  void HoldSome();
  void SubmitPlan();
  void AbortPlans();
  void Drain();
  void FillCells();
  void CheckCells();
  kernels::Plan DrawPlan();
  // The device.
  void PlayStream();
  std::vector<Launched> TakeBatch();
  void PlayBatch(const std::vector<Launched>& batch);
  void StartBlocks();
  void PlayThread(Block* block, uint32_t thread);
  void EndThread(Block* block);
  void Release(Block* block);

  sim::Random random_{0};
  WeakMemory memory_{&random_};
  Weather weather_;
  Reached reached_;
  std::string failure_;
  uint64_t step_ = 0;

  std::vector<std::unique_ptr<Actor>> actors_;
  size_t actors_used_ = 0;
  Actor* now_ = nullptr;

  kernels::ResidentControl control_;
  std::unique_ptr<Boxes> boxes_;
  std::unique_ptr<SimLaunches> launches_;
  std::unique_ptr<Conductor> conductor_;
  bool host_ended_ = false;
  std::vector<std::optional<uint64_t>> truth_;
  std::vector<kernels::Plan> submitted_;  // of this round
  uint64_t before_round_ = 0;             // plans of earlier rounds

  std::deque<Launched> stream_;
  uint32_t launch_epoch_ = 0;
  std::deque<std::unique_ptr<Block>> waiting_;  // for a multiprocessor
  std::vector<std::unique_ptr<Block>> present_;
  bool stays_ = false;  // the host has been told that nobody leaves
  int kernels_ = 0;
  int resident_now_ = 0;
};

}  // namespace ftar::device_sim

#endif  // FTAR_TESTS_DEVICE_SIM_WORLD_H_
