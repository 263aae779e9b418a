// What the pure machines and the wire cost, without any byte of a user's.
//
// Engine/op/<members>/<chunks>: one all-reduce from the call to the last member's delivery, all
// members' machines on one thread, with links that are a queue; the time is that of all members
// together. Engine/fast/<members>: one of 8 bytes by the fast path, over a lane in plain memory; no
// input is read and none summed. Engine/view_change/<members>: one member is gone, from Prepare to
// the last survivor's new view; the member comes back off the clock. Wire/...: control messages to
// bytes and back, and the check of a frame's header.
#include <benchmark/benchmark.h>

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "engine/engine.h"
#include "wire/codec.h"
#include "wire/frame.h"

namespace {

using namespace ftar;  // NOLINT: the program is about its rooms
using engine::Event;

constexpr GroupKey kGroup = 7;
constexpr uint64_t kChunkBytes = 4096;

// Of all members, by segment.
using Lines = std::vector<std::array<collective::LaneLine, collective::kLaneSlots>>;

class LaneOfLines final : public collective::Lane {
 public:
  explicit LaneOfLines(const Lines* lines) : lines_(lines) {}
  int SegmentOf(MemberId member) const override { return static_cast<int>(member.lo) - 1; }
  collective::LaneRoom RoomFor(GroupKey, uint64_t) override { return collective::LaneRoom::kShort; }
  bool Look(int segment, GroupKey, Seq seq, collective::LaneLine* line) const override {
    *line = (*lines_)[static_cast<size_t>(segment)][seq % collective::kLaneSlots];
    return line->seq == seq && line->attempt != 0;
  }
  uint64_t Made(int, GroupKey, Seq) const override { return 0; }
  bool Done(int, GroupKey, Seq) const override { return false; }
  void RaiseFrozen(Epoch) override {}
  bool FlagUp(std::span<const int>, Epoch) const override { return false; }
  void Drop(MemberId) override {}

 private:
  const Lines* const lines_;
};

// A column of engines whose coordinator is the benchmark.
class Column {
 public:
  explicit Column(int members, bool lane = false) {
    if (lane) lines_.resize(static_cast<size_t>(members));
    for (int i = 0; i < members; ++i) AddMember(i);
    for (Member& member : members_) {
      Feed(member, engine::OpenGroup{kGroup, 0});
      for (const Member& other : members_) {
        if (other.card.id != member.card.id) Feed(member, engine::LinkIsUp{other.card.id});
      }
    }
    std::vector<wire::ViewEntry> all;
    for (const Member& member : members_) all.push_back({member.card, 0, {}, {}});
    ok_ = Change({}, all);
  }

  bool ok() const { return ok_; }
  size_t delivered() const { return delivered_; }

  void CallAll(uint64_t chunks) {
    collective::OpSpec spec;
    spec.element_bytes = spec.accumulator_bytes = 4;
    spec.count = chunks * kChunkBytes / 4;
    for (Member& member : members_) Feed(member, engine::StartOp{kGroup, spec, 0});
    Settle();
  }

  // All call, then each looks, as they would if all came at the same time. False: it went another
  // way.
  bool CallAllFast() {
    collective::OpSpec spec;
    spec.element_bytes = spec.accumulator_bytes = 4;
    spec.count = 2;
    for (size_t i = 0; i < members_.size(); ++i) {
      collective::LaneLine line;
      const bool like_last = std::exchange(members_[i].has_called, true);
      if (!members_[i].machine->StartFast(kGroup, {++now_, &spec, like_last, false, false}, &line))
        return false;
      lines_[i][line.seq % collective::kLaneSlots] = line;
    }
    for (Member& member : members_) {
      if (member.machine->LookFast(++now_) != collective::FastLook::kRead) return false;
      const collective::Outcome* const outcome = member.machine->EndFast(now_, now_);
      if (outcome == nullptr || outcome->members.size() != members_.size()) return false;
    }
    return true;
  }

  // Everybody but the last goes on alone.
  bool LoseLast() {
    std::vector<wire::ViewEntry> survivors(view_.entries.begin(), view_.entries.end() - 1);
    return Change(survivors, {});
  }

 private:
  struct Member {
    wire::MemberCard card;
    std::unique_ptr<LaneOfLines> lane;
    std::unique_ptr<engine::Engine> machine;
    engine::Ready used;
    bool has_called = false;
  };

  void AddMember(int index) {
    Member member;
    member.card.id = {static_cast<uint64_t>(index + 1) << 60, static_cast<uint64_t>(index + 1)};
    member.card.replica = index;
    engine::Config config;
    if (!lines_.empty()) {
      member.card.lane = true;
      member.card.host_key = "host";
      member.lane = std::make_unique<LaneOfLines>(&lines_);
      config.group.lane = member.lane.get();
    }
    config.job = "bench";
    config.self = member.card;
    config.replicas = 1;
    config.timeout_ns = 1'000'000 * kSecond;
    if (lines_.empty()) config.group.plan = plan::PlanKind::kDirect;
    config.group.chunk_bytes = kChunkBytes;
    member.machine = std::make_unique<engine::Engine>(config);
    members_.push_back(std::move(member));
  }

  Member* Find(MemberId id) {
    for (Member& member : members_) {
      if (member.card.id == id) return &member;
    }
    return nullptr;
  }

  void Post(MemberId to, Event event) { post_.emplace_back(to, std::move(event)); }

  void Settle() {
    while (!post_.empty()) {
      auto [to, event] = std::move(post_.front());
      post_.pop_front();
      Feed(*Find(to), event);
    }
  }

  void Feed(Member& member, const Event& event) {
    member.machine->Step(++now_, event);
    engine::Ready ready = std::move(member.used);
    member.machine->TakeReady(&ready);
    for (const wire::Message& message : ready.to_coordinator) {
      if (const auto* decided = std::get_if<wire::Decided>(&message)) decided_ = *decided;
    }
    for (engine::PeerMessage& message : ready.to_peers)
      Post(message.to, engine::FromPeer{member.card.id, std::move(message.message)});
    for (engine::GroupTodo& item : ready.todo) CarryOut(member, item);
    ready.Clear();
    member.used = std::move(ready);
  }

  void CarryOut(Member& member, engine::GroupTodo& item) {
    using Kind = collective::Todo::Kind;
    collective::Todo& todo = item.todo;
    if (todo.kind == Kind::kDeliver) ++delivered_;
    if (todo.kind == Kind::kWork && todo.work().id != 0)
      Post(member.card.id, engine::WorkDone{item.group, todo.work().id});
    if (todo.kind != Kind::kSend) return;
    collective::SendFrame& frame = todo.frame();
    const uint64_t inbound = frame.payload.bytes > 0 ? ++inbound_ : 0;
    Post(frame.to, engine::FrameArrived{
                       {member.card.id, frame.header, std::move(frame.ext), inbound}});
  }

  // Prepare, the leader's decision, Install.
  bool Change(const std::vector<wire::ViewEntry>& survivors,
              const std::vector<wire::ViewEntry>& newcomers) {
    wire::Prepare prepare;
    prepare.epoch = MakeEpoch(++counter_, 0);
    prepare.base = view_.epoch;
    prepare.members = survivors;
    for (const wire::ViewEntry& entry : survivors) prepare.survivors.push_back(entry.card.id);
    for (wire::ViewEntry entry : newcomers) {
      entry.joined_epoch = prepare.epoch;
      prepare.members.push_back(entry);
    }
    decided_ = {};
    for (const wire::ViewEntry& entry : prepare.members)
      Post(entry.card.id, engine::FromCoordinator{prepare});
    Settle();
    if (decided_.epoch != prepare.epoch) return false;
    view_ = {};
    view_.epoch = view_.era = prepare.epoch;
    view_.entries = prepare.members;
    for (wire::ViewEntry& entry : view_.entries) {
      for (const wire::BoundOf& bound : decided_.bounds) {
        if (bound.member != entry.card.id) continue;
        entry.first = bound.first;
        entry.last = bound.last;
      }
    }
    for (const wire::ViewEntry& entry : view_.entries)
      Post(entry.card.id, engine::FromCoordinator{wire::Install{view_, {}}});
    Settle();
    for (const wire::ViewEntry& entry : view_.entries) {
      const auto view = Find(entry.card.id)->machine->view();
      if (view == nullptr || view->epoch != view_.epoch) return false;
    }
    return true;
  }

  Lines lines_;  // none: no lane
  std::vector<Member> members_;
  std::deque<std::pair<MemberId, Event>> post_;
  wire::View view_;
  wire::Decided decided_;
  TimeNs now_ = kMillisecond;
  uint64_t counter_ = 0, inbound_ = 0;
  size_t delivered_ = 0;
  bool ok_ = false;
};

void BenchOp(benchmark::State& state, int members, uint64_t chunks) {
  Column column(members);
  if (!column.ok()) return state.SkipWithError("the column never formed");
  size_t expected = 0;
  for (auto _ : state) {
    column.CallAll(chunks);
    expected += static_cast<size_t>(members);
  }
  if (column.delivered() != expected) state.SkipWithError("an operation was not delivered");
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()));
}

void BenchFast(benchmark::State& state, int members) {
  Column column(members, /*lane=*/true);
  if (!column.ok()) return state.SkipWithError("the column never formed");
  for (auto _ : state) {
    if (!column.CallAllFast()) return state.SkipWithError("an operation went another way");
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()));
}

void BenchViewChange(benchmark::State& state, int members) {
  for (auto _ : state) {
    state.PauseTiming();
    auto column = std::make_unique<Column>(members);
    column->CallAll(1);
    state.ResumeTiming();
    if (!column->LoseLast()) return state.SkipWithError("the survivors did not install the view");
    state.PauseTiming();
    column.reset();
    state.ResumeTiming();
  }
}

wire::View ViewOf(int members) {
  wire::View view;
  view.epoch = view.era = MakeEpoch(3, 0);
  for (int i = 0; i < members; ++i) {
    wire::ViewEntry entry;
    entry.card.id = {static_cast<uint64_t>(i) << 32, static_cast<uint64_t>(i + 1)};
    entry.card.replica = i;
    entry.card.host = "host-" + std::to_string(i);
    entry.card.addresses = "shm=@name;tcp=10.0.0.3:4711";
    view.entries.push_back(entry);
  }
  return view;
}

void BenchEncode(benchmark::State& state, wire::Message message) {
  size_t bytes = 0;
  for (auto _ : state) {
    const std::vector<std::byte> encoded = wire::Encode(message);
    bytes = encoded.size();
    benchmark::DoNotOptimize(encoded.data());
  }
  state.counters["bytes"] = static_cast<double>(bytes);
}

void BenchDecode(benchmark::State& state, wire::Message message) {
  const std::vector<std::byte> encoded = wire::Encode(message);
  for (auto _ : state) {
    const auto decoded = wire::Decode(encoded);
    if (!decoded.ok()) return state.SkipWithError("a good message was refused");
    benchmark::DoNotOptimize(&decoded);
  }
}

void BenchHeader(benchmark::State& state) {
  wire::FrameHeader header;
  header.kind = wire::FrameKind::kRaw;
  header.payload_bytes = kChunkBytes;
  for (auto _ : state) {
    benchmark::DoNotOptimize(&header);
    const Status status = wire::ValidateHeader(header);
    if (!status.ok()) return state.SkipWithError("a good header was refused");
  }
}

void RegisterWire(const std::string& name, const wire::Message& message) {
  benchmark::RegisterBenchmark(("Wire/encode/" + name).c_str(), BenchEncode, message);
  benchmark::RegisterBenchmark(("Wire/decode/" + name).c_str(), BenchDecode, message);
}

void RegisterAll() {
  for (int members : {2, 4, 8}) {
    for (uint64_t chunks : {1, 16}) {
      const std::string name =
          "Engine/op/" + std::to_string(members) + "/" + std::to_string(chunks);
      benchmark::RegisterBenchmark(name.c_str(), BenchOp, members, chunks);
    }
  }
  for (int members : {2, 4, 8}) {
    benchmark::RegisterBenchmark(("Engine/fast/" + std::to_string(members)).c_str(), BenchFast,
                                 members);
  }
  for (int members : {3, 8, 32}) {
    benchmark::RegisterBenchmark(("Engine/view_change/" + std::to_string(members)).c_str(),
                                 BenchViewChange, members)
        ->Unit(benchmark::kMicrosecond);
  }
  RegisterWire("heartbeat", wire::Heartbeat{});
  for (int members : {8, 64})
    RegisterWire("install_" + std::to_string(members), wire::Install{ViewOf(members), {}});
  benchmark::RegisterBenchmark("Wire/validate_header", BenchHeader);
}

}  // namespace

int main(int argc, char** argv) {
  RegisterAll();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
