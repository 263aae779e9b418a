// The survive matrix: real processes, one (or two) struck inside an operation at an exact point.
// Survivors must finish, all with the same verdict, participants and bits; a victim that lives on
// must agree with what they delivered.
#include <gtest/gtest.h>

#include <signal.h>

#include <set>

#include "tests/process/harness.h"
#include "tests/process/verdicts.h"

namespace {

using process::Coordinator;
using process::Field;
using process::FreeAddresses;
using process::ParticipantsOf;
using process::Process;
using process::Team;
using process::Variables;
using process::Verdicts;
using process::VerdictsOf;

constexpr int kOps = 8;
constexpr int kStruckOp = 3;
constexpr int kBatches = 5, kStruckBatch = 3;
constexpr int kPlaysMost = 30;  // a machine that is busy keeps somebody from them
constexpr double kPatience = 25;

struct Cell {
  std::string stage, kind, transport, plan;
  int replicas = 4;
  int victim = 0;
  int second = -1;  // a second victim at the same point
  int window = 1;
  bool in_place = false;
  bool lent = false;    // buffers that host-mates read where they lie
  bool lane = false;    // so small that it goes through the lane
  int shared_kib = 0;   // or so long, and it is shared in the lane
  int nth = -1;         // of the stage's points in the operation; -1: the first
  bool hosted = false;  // replica 0 coordinates
  std::string gpu;      // buffers in a GPU's memory, and its executor

  // What is shared goes in batches behind three barriers each (worker.cc). The first of one is
  // struck, when all have mapped what they read.
  int numbers() const { return shared_kib > 0 ? kBatches * (window + 3) : kOps; }
  int struck() const { return shared_kib > 0 ? kStruckBatch * (window + 3) + 3 : kStruckOp; }
  bool AllSum() const {
    return replicas == 2 && lent && !in_place && shared_kib > 0 && shared_kib <= 1024;
  }
  int ops() const { return shared_kib > 0 ? kBatches * window : kOps; }

  std::string Name() const {
    std::string out = stage + "_" + kind + "_" + std::to_string(victim);
    if (second >= 0) out += "and" + std::to_string(second);
    return out + "_" + transport + "_" + plan + "_w" + std::to_string(window) +
           (in_place ? "_inplace" : "") + (lent ? "_lent" : "") + (lane ? "_lane" : "") +
           (shared_kib > 0 ? "_shared" + std::to_string(shared_kib) : "") +
           (nth >= 0 ? "_nth" + std::to_string(nth) : "") +
           (replicas != 4 ? "_of" + std::to_string(replicas) : "") + (gpu.empty() ? "" : "_" + gpu);
  }
};

std::ostream& operator<<(std::ostream& out, const Cell& cell) { return out << cell.Name(); }

class Survive : public process::TeamTest, public testing::WithParamInterface<Cell> {
 protected:
  Variables VariablesOf() const {
    const Cell& cell = GetParam();
    // A death must be noticed long before any timeout; silence by its timeout.
    const bool silent = cell.kind == "stop" || cell.kind == "drop";
    Variables variables = {{"FTAR_TRANSPORT", cell.transport},
                           {"FTAR_PLAN", cell.plan},
                           {"FTAR_CHUNK", "64K"},  // so that each reduces some, on any machine
                           {"FTAR_TIMEOUT", silent ? "1s" : "20s"},
                           {"FTAR_LOG", "info"}};
    if (!cell.gpu.empty()) {
      variables["FTAR_GPU"] = FTAR_FAKE_GPU;
      variables["FTAR_GPU_EXECUTOR"] = cell.gpu;
    }
    variables["FTAR_LANE_MAX"] = cell.shared_kib > 0 ? "64MiB" : cell.lane ? "4KiB" : "0";
    // So that a chunk is several of the blocks in which it is made.
    if (cell.shared_kib >= 1024) variables["FTAR_CHUNK"] = "256K";
    if (cell.hosted) variables["FTAR_COORDINATOR_KIND"] = "hosted";
    return variables;
  }

  std::vector<std::string> Arguments(int replica) const {
    const Cell& cell = GetParam();
    // Whoever is struck when its line is out dies in the middle of the others' operation.
    const bool late = cell.stage == "sending" && IsVictim(replica);
    // Smaller blocks than 64 KiB are not lent.
    const int oneshot_count = cell.lane ? 500 : cell.lent ? 20000 : 5000;
    const int count = cell.shared_kib > 0      ? cell.shared_kib * 256
                      : cell.plan == "oneshot" ? oneshot_count
                                               : 100000;
    return {"ops=" + std::to_string(cell.numbers()),
            "count=" + std::to_string(count),
            "window=" + std::to_string(cell.window),
            "inplace=" + std::to_string(cell.in_place ? 1 : 0),
            "library=" + std::to_string(cell.lent ? 1 : 0),
            "together=" + std::to_string(cell.shared_kib > 0 ? 1 : 0),
            "late_us=" + std::to_string(late ? 200 : 0),
            "gpu=" + std::to_string(cell.gpu.empty() ? 0 : 1),
            "deadline_s=15"};
  }

  void PlayOnce() {
    const Cell& cell = GetParam();
    if (cell.hosted) {
      team_ = std::make_unique<Team>(FreeAddresses(cell.replicas), cell.replicas, VariablesOf(),
                                     std::vector<std::string>{});
    } else {
      team_.reset();
      coordinator_ = std::make_unique<Coordinator>();
      ASSERT_NE(coordinator_->address(), "");
      team_ = std::make_unique<Team>(coordinator_->address(), cell.replicas, VariablesOf(),
                                     std::vector<std::string>{});
    }
    std::string fault =
        cell.kind + "@seq=" + std::to_string(cell.struck()) + ",stage=" + cell.stage;
    if (cell.nth >= 0) fault += ",chunk=" + std::to_string(cell.nth);
    for (int replica = 0; replica < cell.replicas; ++replica) {
      const Variables own = IsVictim(replica) ? Variables{{"FTAR_TEST_FAULT", fault}} : Variables{};
      team_->StartWith(replica, own, Arguments(replica));
    }
    for (int replica = 0; replica < cell.replicas; ++replica) {
      if (!IsVictim(replica)) {
        EXPECT_EQ(team_->member(replica).WaitExit(kPatience), 0) << "replica " << replica;
      }
    }
  }

  // Whoever is kept from its core right behind the barriers goes by frames, and all do so then.
  void Play() {
    for (int i = 0; i < kPlaysMost; ++i) {
      PlayOnce();
      if (HasFailure() || GetParam().shared_kib == 0 || StruckIsShared()) return;
    }
    ADD_FAILURE() << "in none of " << kPlaysMost << " plays the struck operation was shared";
  }

  // Nobody shares what somebody has not published. A victim that was struck there says nothing.
  bool StruckIsShared() {
    const std::string struck = "op seq=" + std::to_string(GetParam().struck()) + " ";
    for (int replica = 0; replica < GetParam().replicas; ++replica) {
      Process& member = team_->member(replica);
      member.Collect();
      const std::vector<std::string> lines = member.LinesWith(struck);
      if (lines.empty() && IsVictim(replica)) continue;
      if (lines.size() != 1 || Field(lines[0], "lined") != "1") return false;
    }
    return true;
  }

  bool IsVictim(int replica) const {
    return replica == GetParam().victim || replica == GetParam().second;
  }

  // All survivors alike, every sum exact for its participants, and nobody missing who was there.
  void CheckSurvivors() {
    const Cell& cell = GetParam();
    for (int replica = 0; replica < cell.replicas; ++replica) {
      if (IsVictim(replica)) continue;
      Process& member = team_->member(replica);
      const Verdicts own = VerdictsOf(member, false);
      EXPECT_EQ(own.size(), static_cast<size_t>(cell.ops())) << "replica " << replica;
      if (agreed_.empty()) agreed_ = own;
      EXPECT_EQ(own, agreed_) << "replica " << replica;
      const std::vector<std::string> mapped = member.LinesWith("mapped ");
      ASSERT_EQ(mapped.size(), 1u) << "replica " << replica;
      if (cell.replicas > 2) {  // who is left alone has mapped nothing of others
        EXPECT_EQ(std::stoi(Field(mapped[0], "blocks")) > 0, cell.lent) << mapped[0];
      }
      EXPECT_EQ(std::stoi(Field(mapped[0], "lines")) > 0, cell.lane || cell.shared_kib > 0)
          << mapped[0];
      for (const std::string& line : member.LinesWith("op ")) {
        EXPECT_EQ(Field(line, "status"), "FTAR_OK") << line;
        EXPECT_EQ(Field(line, "wrong"), "0") << line;
        CheckParticipants(line);
      }
    }
  }

  void CheckParticipants(const std::string& line) {
    const Cell& cell = GetParam();
    const std::set<int> in = ParticipantsOf(line);
    const int seq = std::stoi(Field(line, "seq"));
    // What a victim has delivered has its part.
    const bool delivered = cell.stage == "between" && seq <= cell.struck();
    const bool before = seq < cell.struck() - cell.window + 1 || delivered;
    for (int other = 0; other < cell.replicas; ++other) {
      if (!IsVictim(other) || before) {
        EXPECT_TRUE(in.contains(other)) << line;
      }
    }
    // Nobody has what it owns, and its input lies where the others look no more; but where two each
    // sum all, the other may be through before it hears of the death. Not of one that is stopped:
    // its progress thread, if that is struck, goes on until another one has the signal.
    const bool unmade = cell.stage == "sending" || (cell.stage == "reducing" && cell.nth < 0);
    if (cell.shared_kib > 0 && cell.kind == "kill" && unmade && seq == cell.struck()) {
      if (!cell.AllSum()) {
        EXPECT_FALSE(in.contains(cell.victim)) << line;
      }
      EXPECT_EQ(std::stoi(Field(line, "attempts")) > 1, !in.contains(cell.victim)) << line;
    }
  }

  bool LastOpHas(int replica) {
    for (int other = 0; other < GetParam().replicas; ++other) {
      if (IsVictim(other)) continue;
      const std::vector<std::string> lines = team_->member(other).LinesWith("op ");
      return !lines.empty() && ParticipantsOf(lines.back()).contains(replica);
    }
    return false;
  }

  // It may end as if nothing had struck it; its log says what has. Shared memory has no paths.
  static void ExpectReset(const Process& victim) {
    const char* const said = GetParam().transport == "tcp" ? "reset by fault injection"
                                                           : "has nothing that this could strike";
    EXPECT_NE(victim.Errors().find(said), std::string::npos) << victim.Errors();
  }

  // A victim that lives on: what it delivered the survivors have delivered too, with the same bits;
  // else it says that it is out.
  void CheckVictim(int replica) {
    Process& victim = team_->member(replica);
    if (GetParam().kind == "kill") {
      EXPECT_EQ(victim.WaitExit(kPatience), 128 + SIGKILL);
      EXPECT_FALSE(LastOpHas(replica));
      return;
    }
    if (GetParam().kind ==
        "drop") {  // it hears nothing of its eviction; what it said before must hold
      victim.Collect();
      EXPECT_FALSE(LastOpHas(replica));
    } else {
      if (GetParam().kind == "stop") {
        EXPECT_FALSE(LastOpHas(replica));
        EXPECT_TRUE(victim.Stopped());
        victim.Signal(SIGCONT);
      }
      EXPECT_EQ(victim.WaitExit(kPatience), 0);
      if (GetParam().kind == "reset") ExpectReset(victim);
      const bool out = !victim.LinesWith("out").empty();
      EXPECT_NE(out, LastOpHas(replica)) << "out or in, not both";
    }
    for (const std::string& line : victim.LinesWith("op "))
      EXPECT_EQ(Field(line, "wrong"), "0") << line << ": a wrong result, or its input is not back";
    ExpectAgrees(victim);
  }
};

TEST_P(Survive, SurvivorsFinishAlike) {
  Play();
  if (HasFatalFailure()) return;
  CheckSurvivors();
  for (int replica = 0; replica < GetParam().replicas; ++replica) {
    if (IsVictim(replica)) CheckVictim(replica);
  }
}

constexpr const char* kStages[] = {"before",    "sending",   "reducing",
                                   "gathering", "stability", "between"};
constexpr const char* kKinds[] = {"kill", "stop", "reset", "drop"};
constexpr const char* kTransports[] = {"tcp", "shm"};

// Every stage with every kind and three victims; transports, plans and windows take turns so that
// each meets each.
std::vector<Cell> SingleCells() {
  std::vector<Cell> cells;
  int turn = 0;
  for (const char* stage : kStages) {
    for (const char* kind : kKinds) {
      for (const int victim : {0, 2, 3}) {
        Cell cell;
        cell.stage = stage;
        cell.kind = kind;
        cell.victim = victim;
        cell.transport = kTransports[turn % 2];
        // A oneshot exchange has no gathering.
        const char* const plans[] = {"direct", "ring", "oneshot"};
        cell.plan = plans[turn % (cell.stage == "gathering" ? 2 : 3)];
        cell.window = turn % 5 == 4 ? 3 : 1;
        cell.in_place = turn % 4 == 1;
        cells.push_back(cell);
        ++turn;
      }
      ++turn;  // so that the turns do not line up with the victims
    }
  }
  return cells;
}

std::vector<Cell> PairCells() {
  std::vector<Cell> cells;
  int turn = 0;
  for (const char* stage : kStages) {
    for (const char* kind : {"kill", "stop"}) {
      Cell cell;
      cell.stage = stage;
      cell.kind = kind;
      cell.victim = turn % 3;
      cell.second = cell.victim + 1;
      cell.transport = kTransports[turn / 2 % 2];
      cell.plan = turn % 3 == 0 ? "ring" : "direct";
      cells.push_back(cell);
      ++turn;
    }
  }
  return cells;
}

// Each member's memory is read by the others when one is struck, and overwritten by its user as
// soon as an operation is over for it.
std::vector<Cell> LentCells() {
  std::vector<Cell> cells;
  int turn = 0;
  for (const char* stage : kStages) {
    for (const char* kind : kKinds) {
      Cell cell;
      cell.stage = stage;
      cell.kind = kind;
      cell.victim = turn % 3;
      cell.transport = "shm";
      cell.plan = turn % 3 == 1 ? "oneshot" : "direct";
      if (cell.stage == "gathering") cell.plan = "direct";
      cell.window = turn % 5 == 4 ? 3 : 1;
      // In place a oneshot exchange sends a copy of the input.
      cell.in_place = turn % 2 == 1 && cell.plan != "oneshot";
      cell.lent = true;
      cells.push_back(cell);
      ++turn;
    }
    ++turn;
  }
  return cells;
}

// Struck before its line is out, when it is, when it has seen all lines, and when it has delivered.
std::vector<Cell> LaneCells() {
  std::vector<Cell> cells;
  int turn = 0;
  for (const char* stage : {"before", "sending", "reducing", "between"}) {
    for (const char* kind : {"kill", "stop", "drop"}) {
      for (const int window : {1, 3}) {
        Cell cell;
        cell.stage = stage;
        cell.kind = kind;
        cell.victim = turn % 4;
        cell.transport = "shm";
        cell.plan = "oneshot";
        cell.window = window;
        cell.in_place = turn % 4 == 1;
        cell.lane = true;
        cells.push_back(cell);
        ++turn;
      }
      ++turn;
    }
  }
  return cells;
}

// Struck when its line is out, before a block of its own and one of another's, when it has said
// that it is done, and when it has delivered. The others read its memory, or an area of the lane;
// killed with each in place and not, stopped with each in one of these.
std::vector<Cell> SharedCells() {
  std::vector<Cell> cells;
  int turn = 0;
  for (const char* stage : {"sending", "reducing", "gathering", "stability", "between"}) {
    for (const int kib : {256, 1024, 0}) {
      for (const bool in_place : {false, true}) {
        Cell cell;
        cell.stage = stage;
        cell.kind = "kill";
        cell.replicas = 2 + turn % 3;
        cell.victim = turn / 2 % cell.replicas;
        cell.transport = "shm";
        cell.plan = "direct";
        // Off the fast path, and what is called next goes by frames: where there are more members
        // than cores some would see those first.
        cell.window = turn % 2 == 1 && cell.replicas == 2 ? 3 : 1;
        cell.in_place = in_place;
        cell.lent = kib > 0;
        cell.shared_kib = kib > 0 ? kib : 256;
        const bool has_blocks = cell.stage == "reducing" || cell.stage == "gathering";
        if (has_blocks && kib == 1024 && !in_place) cell.nth = 1;
        cells.push_back(cell);
        if (in_place == (turn / 2 % 2 == 0)) {
          cell.kind = "stop";
          cell.window = 1;  // so that mostly the user's thread is struck
          cells.push_back(cell);
        }
        ++turn;
      }
    }
    ++turn;
  }
  return cells;
}

// Two of which each sums all: nobody gathers.
std::vector<Cell> AllSumCells() {
  std::vector<Cell> cells;
  int turn = 0;
  for (const char* stage : {"sending", "reducing", "stability", "between"}) {
    for (const char* kind : {"kill", "stop"}) {
      for (const int kib : {64, 512}) {  // less is not shown to others
        Cell cell;
        cell.stage = stage;
        cell.kind = kind;
        cell.replicas = 2;
        cell.victim = turn % 2;
        cell.transport = "shm";
        cell.plan = "direct";
        cell.lent = true;
        cell.shared_kib = kib;
        cells.push_back(cell);
        ++turn;
      }
      ++turn;
    }
  }
  return cells;
}

// Longer than the caches, and longer than one turn with the lock; in place their sums wait aside.
std::vector<Cell> LongCells() {
  std::vector<Cell> cells;
  int turn = 0;
  for (const char* stage : {"sending", "reducing", "gathering", "stability", "between"}) {
    Cell cell;
    cell.stage = stage;
    cell.kind = turn % 2 == 0 ? "kill" : "stop";
    cell.replicas = 2;
    cell.victim = turn / 2 % 2;
    cell.transport = "shm";
    cell.plan = "direct";
    cell.lent = true;
    cell.shared_kib = 12 << 10;
    cells.push_back(cell);
    cell.in_place = true;
    cells.push_back(cell);
    cell.kind = turn % 2 == 0 ? "stop" : "kill";
    cell.replicas = 3;
    cell.shared_kib = 2 << 10;
    cells.push_back(cell);
    cell.replicas = 2;
    cell.window = cell.kind == "kill" ? 3 : 1;  // 3: off the fast path
    cells.push_back(cell);
    ++turn;
  }
  return cells;
}

// The member that coordinates is struck, or another one where one coordinates.
std::vector<Cell> HostCells() {
  std::vector<Cell> cells;
  int turn = 0;
  for (const char* stage : kStages) {
    for (const char* kind : {"kill", "reset"}) {
      Cell cell;
      cell.stage = stage;
      cell.kind = kind;
      cell.victim = turn % 4 == 3 ? 2 : 0;
      cell.transport = kTransports[turn / 2 % 2];
      cell.plan = turn % 3 == 0 ? "ring" : "direct";
      cell.window = turn % 5 == 4 ? 3 : 1;
      cell.hosted = true;
      cells.push_back(cell);
      // It and the next one in its place. Not killed: of four that is half, and whether the two who
      // are left may go on depends on who is seen to die first (rule Q4).
      if (turn % 3 == 0 && cell.kind == "reset") {
        cell.victim = 0;
        cell.second = 1;
        cells.push_back(cell);
      }
      ++turn;
    }
  }
  return cells;
}

// Buffers in a GPU's memory, used on streams.
std::vector<Cell> GpuCells() {
  std::vector<Cell> cells;
  int turn = 0;
  for (const char* stage : kStages) {
    for (const char* kind : kKinds) {
      Cell cell;
      cell.stage = stage;
      cell.kind = kind;
      cell.victim = turn % 3;
      cell.transport = kTransports[turn % 2];
      const char* const plans[] = {"direct", "ring", "oneshot"};
      cell.plan = plans[turn % (cell.stage == "gathering" ? 2 : 3)];
      cell.window = turn % 7 > 3 ? 3 : 1;
      cell.in_place = turn / 2 % 2 == 1;
      cell.gpu = turn / 3 % 2 == 0 ? "bounded" : "resident";
      cells.push_back(cell);
      // The same GPU, or one that reaches it: kernels read the peers' memory where it lies.
      cell.transport = "shm";
      cell.plan = turn % 3 == 1 ? "oneshot" : "direct";
      if (cell.stage == "gathering") cell.plan = "direct";
      cell.in_place = turn % 2 == 1 && cell.plan != "oneshot";
      cell.lent = true;
      cells.push_back(cell);
      ++turn;
    }
    ++turn;
  }
  return cells;
}

std::string NameOf(const testing::TestParamInfo<Cell>& info) { return info.param.Name(); }

INSTANTIATE_TEST_SUITE_P(One, Survive, testing::ValuesIn(SingleCells()), NameOf);
INSTANTIATE_TEST_SUITE_P(Lent, Survive, testing::ValuesIn(LentCells()), NameOf);
INSTANTIATE_TEST_SUITE_P(Lane, Survive, testing::ValuesIn(LaneCells()), NameOf);
INSTANTIATE_TEST_SUITE_P(Shared, Survive, testing::ValuesIn(SharedCells()), NameOf);
INSTANTIATE_TEST_SUITE_P(AllSum, Survive, testing::ValuesIn(AllSumCells()), NameOf);
INSTANTIATE_TEST_SUITE_P(Long, Survive, testing::ValuesIn(LongCells()), NameOf);
INSTANTIATE_TEST_SUITE_P(Two, Survive, testing::ValuesIn(PairCells()), NameOf);
INSTANTIATE_TEST_SUITE_P(Gpu, Survive, testing::ValuesIn(GpuCells()), NameOf);
INSTANTIATE_TEST_SUITE_P(Host, Survive, testing::ValuesIn(HostCells()), NameOf);

}  // namespace
