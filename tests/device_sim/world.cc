#include "world.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>

namespace ftar::device_sim {
namespace {

using kernels::Meeting;
using kernels::Pack;
using kernels::ResidentPart;
using reduce::Combine;
using reduce::Dtype;

// Cells and the launches' words lie where nothing is.
constexpr uintptr_t kCellBase = 0x10000;
constexpr uintptr_t kLaunchEpoch = 0x1000;
constexpr uintptr_t kLaunchDone = 0x2000;
constexpr uint64_t kCellBytes = 16;

uintptr_t CellAddress(uint64_t cell) { return kCellBase + cell * kCellBytes; }
void* CellPointer(uint64_t cell) { return reinterpret_cast<void*>(CellAddress(cell)); }

// One more source of a sum whose order counts.
uint64_t Sum(uint64_t so_far, uint64_t source) {
  return std::rotl(so_far, 9) * 0x9e3779b97f4a7c15ull + source;
}

Value FromPack(const Pack& pack) { return std::bit_cast<Value>(pack); }

// A device thread's operations.
class SimOps {
 public:
  SimOps(World* world, Block* block, uint32_t thread)
      : world_(world), block_(block), thread_(thread) {}
  uint32_t Block() const { return block_->block; }
  uint32_t Thread() const { return thread_; }
  uint32_t Threads() const { return static_cast<uint32_t>(block_->threads.size()); }
  kernels::ResidentShared* Shared() const { return &block_->shared; }

  template <typename T>
  T LoadAcquire(const T* word) const {
    world_->Step();
    return static_cast<T>(world_->Load(reinterpret_cast<uintptr_t>(word), true).low);
  }
  uint64_t LoadRelaxed(const uint64_t* word) const { return LoadWord(word); }
  uint32_t LoadRelaxed(const uint32_t* word) const { return static_cast<uint32_t>(LoadWord(word)); }
  Pack LoadPack(const Pack* from) const {
    if (world_->Draw(8)) world_->Step();
    return std::bit_cast<Pack>(world_->Load(reinterpret_cast<uintptr_t>(from), false));
  }
  template <typename T>
  void StoreRelaxed(T* word, T value) const {
    world_->Step();
    world_->Store(reinterpret_cast<uintptr_t>(word), {.low = value}, false);
  }
  template <typename T>
  void StoreRelease(T* word, T value) const {
    world_->Step();
    world_->Store(reinterpret_cast<uintptr_t>(word), {.low = value}, true);
  }
  bool Any(Meeting place, bool mine) const { return world_->Meet(block_, place, mine); }
  uint64_t NowNs() const { return world_->NowNs(); }
  void Pause() const { world_->Step(); }
  void RunChunk(const ResidentPart& part, uint64_t chunk, uint32_t*) const {
    world_->BeginChunk(block_, thread_, part);
    world_->TouchChunk(part.job, chunk, thread_, Threads());
  }
  void AddToChecksum(uint32_t*, uint32_t) const {}

 private:
  template <typename T>
  uint64_t LoadWord(const T* word) const {
    world_->Step();
    const uint64_t value = world_->Load(reinterpret_cast<uintptr_t>(word), false).low;
    world_->LookedAt(block_, word, value);
    return value;
  }

  World* world_;
  device_sim::Block* block_;
  uint32_t thread_;
};

}  // namespace

std::string Weather::Text() const {
  char text[300];
  std::snprintf(text, sizeof text,
                "%d blocks of %d threads on %d multiprocessors, late %llu, stale %.2f, stalls %.3f "
                "x %llu, %d x %d plans, aborts %.2f, launched %.2f, pause %llu, silence %lld ns",
                blocks, threads, multiprocessors, static_cast<unsigned long long>(late_steps),
                staleness, stalls, static_cast<unsigned long long>(stall_steps), rounds, plans,
                aborts, launched, static_cast<unsigned long long>(pause_steps),
                static_cast<long long>(silence_ns));
  return text;
}

World::World() = default;

void World::DrawWeather(uint64_t seed) {
  random_ = sim::Random(seed);
  Weather w;
  w.blocks = static_cast<int>(random_.Between(1, 4));
  w.threads = static_cast<int>(random_.Between(1, 3));
  w.multiprocessors = random_.Chance(0.3) ? static_cast<int>(random_.Between(1, w.blocks)) : 4;
  w.staleness = random_.Chance(0.3) ? 0 : 0.6 * static_cast<double>(random_.Below(100)) / 100;
  w.late_steps = random_.Chance(0.5) ? random_.Below(2000) : 0;
  w.stalls = random_.Chance(0.5) ? 0.002 * static_cast<double>(random_.Below(10)) : 0;
  w.stall_steps = 20 + random_.Below(400);
  w.rounds = static_cast<int>(random_.Between(1, 3));
  w.plans = static_cast<int>(random_.Between(1, 14));
  w.aborts = random_.Chance(0.5) ? 0.01 * static_cast<double>(random_.Below(25)) : 0;
  w.launched = random_.Chance(0.5) ? 0.01 * static_cast<double>(random_.Below(60)) : 0;
  // Blocks that lack a multiprocessor come when others leave, and those leave when it is silent.
  // They wait for the first part for longer than the host takes to look at all lanes once.
  if (w.multiprocessors < w.blocks || random_.Chance(0.3)) {
    const uint64_t actors = 2 + static_cast<uint64_t>(w.blocks * w.threads);
    const uint64_t patience = actors * (100 + random_.Below(100)) + w.stall_steps;
    w.patience_ns = static_cast<TimeNs>(kStepNs * patience);
    w.silence_ns = static_cast<TimeNs>(kStepNs * (1 + random_.Below(patience)));
    w.pause_steps = random_.Below(3 * patience);
  }
  weather_ = w;
}

std::string World::Run(uint64_t seed) {
  DrawWeather(seed);
  memory_.Reset(weather_.staleness);
  failure_.clear();
  step_ = 0;
  actors_used_ = 0;
  now_ = nullptr;
  stream_.clear();
  waiting_.clear();
  present_.clear();
  resident_now_ = 0;
  kernels_ = 0;
  launch_epoch_ = 0;
  host_ended_ = stays_ = false;
  truth_.assign(kCells, std::nullopt);
  submitted_.clear();
  before_round_ = 0;
  conductor_.reset();
  NewActor([this] { PlayHost(); });
  NewActor([this] { PlayStream(); });
  for (bool more = true; more && failure_.empty();) {
    ++step_;
    if (step_ > kStepsMax) Fail("ends: somebody waits for ever");
    more = false;
    for (size_t i = 0; i < actors_used_ && !more; ++i) more = actors_[i]->runs;
    now_ = Pick();
    if (now_ == nullptr) continue;
    now_->fiber.Resume();
    if (now_->fiber.ended()) now_->runs = false;
  }
  reached_.steps += step_;
  return failure_;
}

Actor* World::NewActor(std::function<void()> body) {
  size_t place = 0;
  while (place < actors_used_ && actors_[place]->runs) ++place;
  if (place == actors_.size()) actors_.push_back(std::make_unique<Actor>());
  actors_used_ = std::max(actors_used_, place + 1);
  Actor* actor = actors_[place].get();
  actor->view.clear();
  if (now_ != nullptr) actor->view = now_->view;
  actor->runs = true;
  actor->blocked = false;
  actor->stalled_until = 0;
  actor->fiber.Start(std::move(body));
  return actor;
}

// Null if everybody stands still just now.
Actor* World::Pick() {
  const size_t from = random_.Below(actors_used_);
  for (size_t i = 0; i < actors_used_; ++i) {
    Actor* actor = actors_[(from + i) % actors_used_].get();
    if (actor->runs && !actor->blocked && actor->stalled_until <= step_) return actor;
  }
  return nullptr;
}

void World::Step() {
  if (weather_.stalls > 0 && random_.Chance(weather_.stalls)) {
    now_->stalled_until = step_ + random_.Below(weather_.stall_steps);
  }
  now_->fiber.HandBack();
}

void World::Fail(const std::string& text) {
  if (failure_.empty()) failure_ = text;
}

Value World::Load(uintptr_t address, bool acquires) {
  return memory_.Load(&now_->view, address, acquires);
}

void World::Store(uintptr_t address, Value value, bool releases) {
  memory_.Store(&now_->view, address, value, releases);
}

// ---- the host's side of the memory

template <typename T>
T SimMemory::LoadAcquire(const T* word) const {
  world_->Step();
  return static_cast<T>(world_->Load(reinterpret_cast<uintptr_t>(word), true).low);
}

template <typename T>
void SimMemory::StoreRelaxed(T* word, T value) const {
  world_->Step();
  world_->Store(reinterpret_cast<uintptr_t>(word), {.low = value}, false);
}

template <typename T>
void SimMemory::StoreRelease(T* word, T value) const {
  world_->Step();
  world_->Store(reinterpret_cast<uintptr_t>(word), {.low = value}, true);
}

void SimMemory::StorePack(Pack* to, const Pack& pack) const {
  if (world_->Draw(8)) world_->Step();
  world_->Store(reinterpret_cast<uintptr_t>(to), FromPack(pack), false);
}

void SimLaunches::Launch(const device::Post& post) { world_->Launch(post); }
void SimLaunches::LaunchResident(int blocks) { world_->LaunchResident(blocks); }
void SimLaunches::Abort(uint32_t epoch) { world_->AbortLaunches(epoch); }
uint64_t SimLaunches::Done() const { return world_->LaunchesDone(); }

// ---- the host

void World::PlayHost() {
  boxes_ = std::make_unique<Boxes>(&control_, SimMemory(this));
  launches_ = std::make_unique<SimLaunches>(this);
  conductor_ = std::make_unique<Conductor>(Conductor::Options{.blocks = weather_.blocks,
                                                              .launches = 4,
                                                              .stuck_ns = 0,
                                                              .silence_ns = weather_.silence_ns,
                                                              .patience_ns = weather_.patience_ns},
                                           boxes_.get(), launches_.get());
  for (int i = 0; i < weather_.rounds && failure_.empty(); ++i) {
    FillCells();
    PlayRound();
    Drain();
    CheckCells();
    before_round_ += submitted_.size();
    submitted_.clear();
    if (weather_.pause_steps > 0 && random_.Chance(0.5)) HoldSome();
    if (weather_.pause_steps > 0) WaitSome(weather_.pause_steps);
  }
  conductor_->Dismiss();
  while (!conductor_->Gone()) {
    conductor_->Poll(static_cast<TimeNs>(NowNs()));
    Step();
  }
  host_ended_ = true;
}

void World::WaitSome(uint64_t steps) {
  for (const uint64_t end = step_ + random_.Below(steps + 1); step_ < end;) Step();
}

// Nobody leaves for silence meanwhile, though the host stands still: not it, nor a launch, is
// needed.
void World::HoldSome() {
  conductor_->Hold(true);
  for (const uint64_t end = step_ + 4000; step_ < end && !stays_; stays_ = conductor_->Stays()) {
    conductor_->Poll(static_cast<TimeNs>(NowNs()));
    Step();
  }
  WaitSome(3 * weather_.pause_steps);
  if (stays_ && !conductor_->Stays()) Fail("stays: what was held is not there");
  stays_ = false;
  conductor_->Hold(false);
}

void World::PlayRound() {
  for (int i = 0; i < weather_.plans; ++i) {
    SubmitPlan();
    if (random_.Chance(0.5)) conductor_->Poll(static_cast<TimeNs>(NowNs()));
    if (random_.Chance(0.3)) WaitSome(60);
    if (random_.Chance(weather_.aborts)) {
      AbortPlans();
      if (random_.Chance(0.5)) WaitSome(60);
    }
  }
}

void World::FillCells() {
  for (uint64_t cell = 0; cell < kCells; ++cell) {
    const uint64_t value = random_.Next();
    truth_[cell] = value;
    Store(CellAddress(cell), {.low = value}, false);
  }
}

// Cells of each source and of the destination, maybe in place.
kernels::Plan World::DrawPlan() {
  kernels::Plan plan;
  kernels::Job& job = plan.job;
  const bool copies = random_.Chance(0.3);
  const Dtype dtype = random_.Chance(weather_.launched) ? Dtype::kF64 : Dtype::kF32;
  job.units = 1 + random_.Below(6);
  job.chunk = 1 + random_.Below(2);
  job.chunks = (job.units + job.chunk - 1) / job.chunk;
  job.vector = true;
  job.sources = copies ? 1 : 2 + static_cast<uint32_t>(random_.Below(2));
  for (uint32_t s = 0; s < job.sources; ++s) {
    job.source[s] = CellPointer(random_.Below(kCells - job.units + 1));
  }
  job.destinations = 1;
  job.destination[0] = CellPointer(random_.Below(kCells - job.units + 1));
  if (!copies && random_.Chance(0.5)) job.source[0] = job.destination[0];
  const size_t element = copies ? 1 : dtype == Dtype::kF64 ? 8 : 4;
  job.count = job.units * kCellBytes / element;
  plan.id = {.dtype = copies ? Dtype::kU8 : dtype,
             .op = Combine::kSum,
             .variant = copies             ? kernels::Variant::kCopy
                        : job.sources == 2 ? kernels::Variant::kTwo
                                           : kernels::Variant::kMany,
             .unroll = 1};
  plan.blocks = 1;
  plan.threads = 32;
  return plan;
}

// Reads the sources of a unit before it writes: what kernels promise of exact overlap. Sources that
// overlap the destination otherwise are nobody's; they are moved out of the way.
void World::SubmitPlan() {
  kernels::Plan plan = DrawPlan();
  const auto begin = reinterpret_cast<uintptr_t>(plan.job.destination[0]);
  const uint64_t bytes = plan.job.units * kCellBytes;
  for (uint32_t s = 0; s < plan.job.sources; ++s) {
    const auto at = reinterpret_cast<uintptr_t>(plan.job.source[s]);
    if (at != begin && at < begin + bytes && begin < at + bytes) {
      plan.job.source[s] = plan.job.destination[0];
    }
  }
  // So that whoever touches a cell can be asked for which plan.
  plan.job.stopped = reinterpret_cast<uint32_t*>(before_round_ + submitted_.size() + 1);
  for (uint64_t u = 0; u < plan.job.units; ++u) {
    std::optional<uint64_t> sum = 0;
    for (uint32_t s = 0; s < plan.job.sources; ++s) {
      const auto at = reinterpret_cast<uintptr_t>(plan.job.source[s]);
      const std::optional<uint64_t>& source = truth_[(at - kCellBase) / kCellBytes + u];
      sum = sum && source ? std::optional(Sum(*sum, *source)) : std::nullopt;
    }
    truth_[(begin - kCellBase) / kCellBytes + u] = sum;
  }
  submitted_.push_back(plan);
  ++reached_.plans;
  const uint64_t number = conductor_->Submit(plan);
  if (number != before_round_ + submitted_.size()) Fail("right: a plan has a wrong number");
}

void World::AbortPlans() {
  ++reached_.aborts;
  const uint64_t done = conductor_->schedule().done();
  for (uint64_t i = done - before_round_; i < submitted_.size(); ++i) {
    const kernels::Job& job = submitted_[i].job;
    const auto at = reinterpret_cast<uintptr_t>(job.destination[0]);
    for (uint64_t u = 0; u < job.units; ++u) {
      truth_[(at - kCellBase) / kCellBytes + u] = std::nullopt;
    }
  }
  conductor_->Abort();
  const uint32_t epoch = conductor_->schedule().epoch();
  const auto word = reinterpret_cast<uintptr_t>(&control_.host.abort_epoch);
  if (memory_.Last(word).low != epoch || memory_.Last(kLaunchEpoch).low != epoch) {
    Fail("looked: nobody told the device of an abort");
  }
}

void World::Drain() {
  while (conductor_->Poll(static_cast<TimeNs>(NowNs())) < before_round_ + submitted_.size()) {
    if (conductor_->broken()) Fail("crew: a lane says what cannot be, or refuses a part");
    Step();
  }
}

void World::CheckCells() {
  for (uint64_t cell = 0; cell < kCells; ++cell) {
    if (!memory_.MustSeeLast(now_->view, CellAddress(cell))) {
      Fail("right: the host may still read an old value of cell " + std::to_string(cell));
    }
    const uint64_t value = memory_.Last(CellAddress(cell)).low;
    if (truth_[cell] && *truth_[cell] != value) {
      Fail("right: cell " + std::to_string(cell) + " has a wrong value");
    }
  }
}

// ---- launches

void World::Launch(const device::Post& post) {
  ++reached_.launches;
  stream_.push_back({.plan = *post.plan,
                     .number = post.number,
                     .run = post.run,
                     .epoch = post.epoch,
                     .view = now_->view});
}

void World::AbortLaunches(uint32_t epoch) {
  Step();
  launch_epoch_ = epoch;
  Store(kLaunchEpoch, {.low = epoch}, true);
}

uint64_t World::LaunchesDone() {
  Step();
  return Load(kLaunchDone, true).low;
}

void World::PlayStream() {
  while (!host_ended_ || !stream_.empty()) {
    Step();
    if (stream_.empty()) continue;
    if (random_.Chance(0.3)) WaitSome(100);  // the driver takes its time
    const std::vector<Launched> batch = TakeBatch();
    // As the launcher judges: by the first, for all.
    if (batch.front().epoch == launch_epoch_) PlayBatch(batch);
    Store(kLaunchDone, {.low = batch.back().number}, true);
  }
}

// As many of the front's run as the seed lets have come by now.
std::vector<World::Launched> World::TakeBatch() {
  std::vector<Launched> batch;
  do {
    batch.push_back(stream_.front());
    stream_.pop_front();
    Join(&now_->view, batch.back().view);
  } while (!stream_.empty() && stream_.front().run == batch.front().run && !random_.Chance(0.2));
  if (batch.size() > 1) ++reached_.batches;
  return batch;
}

// Blocks go their own ways, so chunks of all its jobs come in any order.
void World::PlayBatch(const std::vector<Launched>& batch) {
  std::vector<std::pair<const Launched*, uint64_t>> chunks;
  for (const Launched& launched : batch) {
    for (uint64_t c = 0; c < launched.plan.job.chunks; ++c) chunks.emplace_back(&launched, c);
  }
  for (size_t left = chunks.size(); left > 0; --left) {
    std::swap(chunks[left - 1], chunks[random_.Below(left)]);
    const auto& [launched, chunk] = chunks[left - 1];
    Step();
    if (Load(kLaunchEpoch, false).low != launched->epoch) return;
    TouchChunk(launched->plan.job, chunk, 0, 1);
  }
}

// ---- the resident kernel

void World::LaunchResident(int blocks) {
  if (++kernels_ > 1) ++reached_.relaunches;
  size_t before = 0;
  for (const auto& block : waiting_) before += block->kernel < kernels_ ? 1 : 0;
  for (int b = 0; b < blocks; ++b) {
    auto block = std::make_unique<Block>();
    block->block = static_cast<uint32_t>(b);
    for (int t = 0; t < weather_.threads; ++t) {
      const auto thread = static_cast<uint32_t>(t);
      Block* const own = block.get();
      block->threads.push_back(NewActor([this, own, thread] { PlayThread(own, thread); }));
      block->threads.back()->blocked = true;
    }
    block->kernel = kernels_;
    const size_t place = before + random_.Below(static_cast<uint64_t>(b) + 1);
    waiting_.insert(waiting_.begin() + static_cast<ptrdiff_t>(place), std::move(block));
  }
  StartBlocks();
}

void World::StartBlocks() {
  const auto is_older = [this](const auto& block) {
    return block->gone < block->threads.size() && block->kernel < waiting_.front()->kernel;
  };
  while (!waiting_.empty() && resident_now_ < weather_.multiprocessors &&
         std::none_of(present_.begin(), present_.end(), is_older)) {
    std::unique_ptr<Block> block = std::move(waiting_.front());
    waiting_.pop_front();
    ++resident_now_;
    block->permits.assign(block->threads.size(), std::nullopt);
    const uint64_t late = random_.Below(weather_.late_steps + 1);
    for (Actor* actor : block->threads) {
      actor->blocked = false;
      actor->stalled_until = step_ + late;
    }
    present_.push_back(std::move(block));
  }
}

void World::PlayThread(Block* block, uint32_t thread) {
  SimOps ops(this, block, thread);
  kernels::RunResidentBlock(ops, &control_);
  EndThread(block);
}

void World::EndThread(Block* block) {
  ++block->gone;
  if (block->arrived > 0) Fail("together: a thread has left its block, and others wait for it");
  if (block->gone < block->threads.size()) return;
  if (stays_) Fail("stays: a block has left while it was held");
  --resident_now_;
  StartBlocks();
}

bool World::Meet(Block* block, Meeting place, bool mine) {
  Step();
  if (block->gone > 0) Fail("together: a thread waits for one that has left");
  if (block->arrived > 0 && block->place != place) {
    Fail("together: threads of a block meet at different places");
  }
  block->place = place;
  block->any = block->any || mine;
  if (++block->arrived == block->threads.size()) {
    Release(block);
  } else {
    now_->blocked = true;
    Step();
  }
  return block->answer;
}

void World::Release(Block* block) {
  View all;
  for (const Actor* actor : block->threads) Join(&all, actor->view);
  for (Actor* actor : block->threads) {
    actor->view = all;
    actor->blocked = false;
  }
  // What one of them has seen before they met is what all may act on.
  if (block->place == Meeting::kChunk && block->looked) {
    block->permits.assign(block->threads.size(), block->seen_epoch);
    block->looked = false;
  }
  block->answer = block->any;
  block->any = false;
  block->arrived = 0;
}

void World::LookedAt(Block* block, const void* word, uint64_t value) {
  if (word != &control_.host.abort_epoch) return;
  block->looked = true;
  block->seen_epoch = static_cast<uint32_t>(value);
}

void World::BeginChunk(Block* block, uint32_t thread, const ResidentPart& part) {
  std::optional<uint32_t>& permit = block->permits[thread];
  if (!permit) return Fail("looked: a chunk begins without a look at the abort word");
  if (kernels::IsBeyond(*permit, part.epoch)) {
    Fail("looked: a chunk of an aborted plan begins after its block has seen the abort");
  }
  permit.reset();
  if (part.kernel > 6) Fail("right: a kernel of no known number");
}

// One thread's units of a chunk.
void World::TouchChunk(const kernels::Job& job, uint64_t chunk, uint32_t thread, uint32_t threads) {
  const uint64_t begin = chunk * job.chunk;
  const uint64_t end = std::min(begin + job.chunk, job.units);
  for (uint64_t unit = begin + thread; unit < end; unit += threads) {
    uint64_t sum = 0;
    for (uint32_t s = 0; s <= job.sources; ++s) {
      Step();
      const bool last = s == job.sources;
      const void* base = last ? job.destination[0] : job.source[s];
      const uintptr_t address = reinterpret_cast<uintptr_t>(base) + unit * kCellBytes;
      if (s >= kernels::kMaxSources || address < kCellBase || address >= CellAddress(kCells)) {
        return Fail("right: an address that no plan has");
      }
      if (reinterpret_cast<uint64_t>(job.stopped) <= conductor_->schedule().done()) {
        return Fail("quiet: a plan touches memory that the host counts as done with");
      }
      if (last) {
        Store(address, {.low = sum}, false);
      } else {
        sum = Sum(sum, Load(address, false).low);
      }
    }
  }
}

}  // namespace ftar::device_sim
