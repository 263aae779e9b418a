#include "lab.h"

#include <algorithm>

#include "wire/codec.h"

namespace ftar::lab {

struct Lab::Member {
  int name = 0;
  wire::MemberCard card;
  std::unique_ptr<engine::Engine> engine;
  std::unique_ptr<sim::MemberLane> lane;
  sim::FastBlocks blocks;
  Seq fast = 0;               // the last operation that was called on the fast path
  collective::LaneLine line;  // its
  bool looks = false;  // it is about to look again
  bool ends = false;   // and about to look at the flags, and to deliver
  bool fast_before = false;
  sim::Memory memory;
  std::map<Seq, collective::OpSpec> specs;
  std::deque<collective::OpSpec> unnumbered;
  std::vector<collective::Outcome> outcomes;
  std::vector<MemberId> revoked;
  bool alive = true;
  bool stands_still = false;
};

Lab::Lab(LabOptions options) : options_(options) {
  for (int name = 1; name <= options_.members; ++name) {
    auto member = std::make_unique<Member>();
    member->name = name;
    member->card.id = {static_cast<uint64_t>(name) << 60, static_cast<uint64_t>(name)};
    member->card.replica = name;
    member->card.lane = options_.lanes;
    if (options_.cores > 0) {
      member->card.host_key = "host";
      member->card.cores = options_.cores;
    }
    engine::Config config;
    config.job = "lab";
    config.self = member->card;
    config.replicas = options_.members;
    config.group.window = options_.window;
    config.group.plan = options_.plan;
    config.group.fault_tolerant = options_.fault_tolerant;
    config.group.chunk_bytes = 64;
    config.group.all_sum_bytes_min = 0;
    config.group.all_sum_members_max = static_cast<size_t>(options_.all_sum);
    config.group.block_most = static_cast<uint64_t>(options_.block) * sim::kElementBytes;
    config.group.block_least = config.group.block_most;
    config.timeout_ns = 1000 * kSecond;
    if (options_.lanes) {
      member->lane = std::make_unique<sim::MemberLane>(&lane_host_, member->card.id,
                                                       [](MemberId) { return true; });
      member->lane->Attach(kGroup, &member->memory);
      config.group.lane = member->lane.get();
    }
    member->engine = std::make_unique<engine::Engine>(config);
    members_[name] = std::move(member);
  }
}
Lab::~Lab() = default;

engine::Engine& Lab::engine(int member) { return *members_.at(member)->engine; }
const std::vector<collective::Outcome>& Lab::outcomes(int member) const {
  return members_.at(member)->outcomes;
}

size_t Lab::waiting(int from, int to) const {
  const auto found = wires_.find({from, to});
  return found == wires_.end() ? 0 : found->second.size();
}

std::optional<wire::FrameHeader> Lab::WaitingFinal(int from, int to) const {
  const auto found = wires_.find({from, to});
  if (found == wires_.end()) return {};
  for (const Letter& letter : found->second) {
    if (letter.header && letter.header->kind == wire::FrameKind::kFinal) return letter.header;
  }
  return {};
}

std::string Lab::Describe(const wire::Message& message) const {
  static constexpr const char* kNames[] = {"?", "commit", "salvage", "retry", "fail"};
  std::string text = wire::MessageName(message);
  if (const auto* verdicts = std::get_if<wire::ColumnVerdicts>(&message)) {
    for (const auto& group : verdicts->groups) {
      for (const auto& verdict : group.verdicts) {
        text += " " + std::to_string(verdict.seq) + ":" + kNames[static_cast<int>(verdict.kind)];
        if (verdict.attempt != 0) text += "@" + std::to_string(EpochCounter(verdict.attempt));
      }
    }
  }
  if (const auto* status = std::get_if<wire::ColumnStatus>(&message)) {
    for (const auto& group : status->groups) {
      text += " delivered<" + std::to_string(group.delivered_end);
      for (const auto& op : group.ops) {
        uint64_t finals = 0;
        for (uint64_t word : op.final_chunks)
          finals += static_cast<uint64_t>(__builtin_popcountll(word));
        text += " " + std::to_string(op.seq) + "@" + std::to_string(EpochCounter(op.attempt)) +
                (op.complete ? ":complete"
                             : ":" + std::to_string(finals) + "/" + std::to_string(op.chunks));
      }
    }
  }
  return text;
}

void Lab::Feed(Member& member, const engine::Event& event) {
  if (!member.alive) return;
  member.engine->Step(++now_, event);
  for (int round = 0; round < 10000; ++round) {
    engine::Ready ready = member.engine->TakeReady();
    if (ready.empty()) return;
    CarryOut(member, std::move(ready));
  }
  failure_ = "an engine never comes to rest";
}

void Lab::OpenBuffers(Member& member, Seq seq) {
  const collective::OpSpec spec = member.unnumbered.front();
  member.unnumbered.pop_front();
  if (seq == kNoSeq) return;
  auto& buffers = member.memory.Open(seq);
  buffers.in_place = spec.in_place;
  buffers.send = sim::MakeInput(kGroup, spec, member.card.replica, seq);
  buffers.recv =
      spec.in_place ? buffers.send : sim::Buffer(sim::OutputElements(spec), sim::kUntouched);
  member.specs[seq] = spec;
}

void Lab::CarryOut(Member& member, engine::Ready ready) {
  for (const engine::Started& started : ready.started) OpenBuffers(member, started.seq);
  for (MemberId id : ready.revoke) {
    member.revoked.push_back(id);
    member.memory.LoseLender(id);
    member.memory.RecallFrom(id);
    wires_.erase({NameOf(id), member.name});
  }
  for (const wire::Message& message : ready.to_coordinator) ToCoordinator(member, message);
  for (const engine::PeerMessage& message : ready.to_peers) {
    const MemberId from = member.card.id;
    wires_[{member.name, NameOf(message.to)}].push_back(
        {Describe(message.message), [this, from, m = message.message](Member& to) {
           Feed(to, engine::FromPeer{from, m});
         }});
  }
  for (engine::GroupTodo& item : ready.todo) CarryTodo(member, item.todo);
  if (ready.view_changed) {
    const auto view = member.engine->view();
    Log(std::to_string(member.name) + " installs view " +
        std::to_string(EpochCounter(view->epoch)));
    FailIf(views_.Installed(member.card.id, view));
  }
  for (const engine::Notice& notice : ready.notices) {
    if (notice.loss.cause == Code::kInternal) failure_ = notice.loss.text;
  }
}

void Lab::CarryTodo(Member& member, collective::Todo& todo) {
  using Kind = collective::Todo::Kind;
  switch (todo.kind) {
    case Kind::kAllocate: return member.memory.Allocate(todo.id, todo.bytes);
    case Kind::kFree: return member.memory.Free(todo.id);
    case Kind::kReleaseInbound: return FailIf(member.memory.ReleaseInbound(todo.id));
    case Kind::kDeliver: return Check(member, todo.outcome());
    case Kind::kCancelSends: return member.memory.RecallOf(todo.id);
    case Kind::kFinishSends: return;
    case Kind::kWork: return CarryWork(member, todo.work());
    case Kind::kSend: return CarrySend(member, todo.frame());
    case Kind::kPublish: return CarryLine(member, todo.publication());
    case Kind::kTell: return CarryWords(member, todo.words());
    case Kind::kAdopt: return FailIf(member.blocks.Adopt(todo.id, &member.memory));
  }
}

void Lab::CarryWork(Member& member, const collective::Work& work) {
  bool spoiled = false;
  FailIf(member.memory.Run(work, member.engine->view()->era, &spoiled));
  PutAside(member, work);
  if (work.id == 0) return;
  if (spoiled) Log(std::to_string(member.name) + " has read what was being taken back");
  const auto ended = [id = work.id, spoiled]() -> engine::Event {
    if (spoiled) return engine::WorkSpoiled{kGroup, id};
    return engine::WorkDone{kGroup, id};
  };
  if (!options_.post) {
    member.memory.WorkIsDone(work.id);
    return member.engine->Step(now_, ended());
  }
  wires_[{member.name, member.name}].push_back(
      {"work done", [this, ended, id = work.id](Member& self) {
         self.memory.WorkIsDone(id);
         Feed(self, ended());
       }});
}

void Lab::CarryLine(Member& member, const collective::Publication& said) {
  sim::Buffer input;
  FailIf(member.memory.Read(said.input, &input));
  if (member.engine->in_fast() && member.engine->fast_room() == collective::LaneRoom::kShared) {
    member.blocks.Begin(DefaultSpec(), (options_.keep_aside >> member.name & 1) != 0);
    const bool keeps = member.blocks.keeps_aside();
    member.lane->PublishShared(kGroup, said.line, input, keeps, 1000 * kSecond);
  } else {
    member.lane->Publish(kGroup, said.line, std::move(input), 1000 * kSecond);
  }
  wires_[{member.name, member.name}].push_back(
      {"line " + std::to_string(said.line.seq), [this](Member& writer) {
         writer.lane->Show();
         for (auto& [name, other] : members_) Look(*other);
       }});
}

void Lab::CarryWords(Member& member, const collective::LaneWords& words) {
  member.lane->Tell(kGroup, words, 1000 * kSecond);
  wires_[{member.name, member.name}].push_back(
      {"words of " + std::to_string(words.seq) + (words.done ? ", done" : ""),
       [this](Member& writer) {
         writer.lane->Show();
         for (auto& [name, other] : members_) Look(*other);
       }});
}

// What a work has made, for those who do not read it where it lies.
void Lab::PutAside(Member& member, const collective::Work& work) {
  if (!member.lane || work.kind != collective::Work::Kind::kReduceFinal || !work.shown) return;
  sim::Buffer made;
  FailIf(member.memory.Read(work.dst, &made));
  member.lane->PutAside(kGroup, work.seq, work.dst.offset / sim::kElementBytes, made);
}

// It polls, on the fast path or not.
void Lab::Look(Member& member) {
  if (!member.alive || member.stands_still) return;
  if (!member.engine->in_fast()) return Feed(member, engine::Tick{});
  using collective::FastLook;
  const FastLook found = member.engine->LookFast(++now_);
  if (found == FastLook::kShare || found == FastLook::kTell) return ShareFast(member, found);
  if (found == FastLook::kStopped) return Feed(member, engine::Tick{});
  if (found != FastLook::kWait) EndFast(member, /*shared=*/found == FastLook::kEnd);
}

// A block, or the word that it has all. Then others may do something before it looks again.
void Lab::ShareFast(Member& member, collective::FastLook found) {
  const bool makes = found == collective::FastLook::kShare;
  if (makes)
    FailIf(member.blocks.Make(kGroup, member.engine->fast_work(), member.engine->view()->era,
                              &member.memory, member.lane.get()));
  CarryWords(member, member.engine->SharedFast());
  if (std::exchange(member.looks, true)) return;
  wires_[{-member.name, member.name}].push_back({"looks again", [this](Member& self) {
                                                   self.looks = false;
                                                   Look(self);
                                                 }});
}

void Lab::EndFast(Member& member, bool shared) {
  if (std::exchange(member.ends, true)) return;
  const Seq seq = member.fast;
  sim::Buffer result;
  if (!shared) {
    const collective::Work& work = member.engine->fast_work();
    FailIf(member.memory.RunFast(work, member.engine->view()->era, &result));
  }
  wires_[{member.name, member.name}].push_back(
      {"end of " + std::to_string(seq), [this, seq, shared, result](Member& self) {
         self.ends = false;
         if (!self.engine->in_fast() || self.fast != seq) return;
         ++now_;
         const auto outcome = self.engine->EndFast(now_, now_);
         if (!outcome) return Feed(self, engine::Tick{});
         if (!shared) self.memory.Find(seq)->recv = result;
         if (shared) FailIf(self.blocks.Land(&self.memory));
         Check(self, *outcome);
       }});
}

void Lab::CarrySend(Member& member, const collective::SendFrame& sent) {
  static constexpr const char* kKinds[] = {"?", "control", "ack", "raw", "partial", "final"};
  sim::Buffer payload;
  FailIf(member.memory.Read(sent.payload, &payload));
  const wire::FrameHeader header = sent.header;
  const bool lent = options_.lends && !payload.empty() && !sent.copied;
  const sim::InboundTag tag{header.kind, header.era, header.seq, member.card.id,
                            lent ? member.memory.Lend(sent.to, header.seq) : nullptr};
  collective::InboundFrame frame{member.card.id, header, sent.ext, 0, lent};
  std::string text = kKinds[static_cast<int>(header.kind)];
  if (header.kind != wire::FrameKind::kAck)
    text += " " + std::to_string(header.seq) + "." + std::to_string(header.chunk);
  text += " complete<" + std::to_string(header.complete_end);
  wires_[{member.name, NameOf(sent.to)}].push_back(
      {text,
       [this, frame, payload, tag](Member& to) mutable {
         if (!payload.empty()) frame.inbound = to.memory.AddInbound(payload, tag);
         Feed(to, engine::FrameArrived{frame});
       },
       header});
}

void Lab::Check(Member& member, const collective::Outcome& outcome) {
  std::string line = std::to_string(member.name) + " delivers " + std::to_string(outcome.seq) +
                     " of epoch " + std::to_string(EpochCounter(outcome.epoch)) + " with";
  for (const auto& participant : outcome.members)
    line += " " + std::to_string(NameOf(participant.id));
  if (outcome.status != Code::kOk) line += ": " + std::string(CodeName(outcome.status));
  Log(line);
  member.outcomes.push_back(outcome);
  const auto spec = member.specs.find(outcome.seq);
  FailIf(fencing_.Delivered(member.card.id, outcome));
  if (spec == member.specs.end()) return FailIf(agreement_.Delivered(0, outcome, nullptr));
  const auto* buffers = member.memory.Find(outcome.seq);
  FailIf(agreement_.Delivered(0, outcome, &buffers->recv));
  FailIf(sim::CheckResult(kGroup, spec->second, 0, outcome, buffers->recv));
  FailIf(sim::CheckInput(kGroup, spec->second, member.card.replica, outcome, *buffers));
  if (options_.lanes) member.memory.Close(outcome.seq);  // its user writes there again
}

void Lab::ToCoordinator(Member& member, const wire::Message& message) {
  if (const auto* decided = std::get_if<wire::Decided>(&message);
      decided && decided->epoch == prepare_.epoch) {
    decided_ = true;
    bounds_.clear();
    for (const wire::BoundOf& bound : decided->bounds) bounds_[bound.member] = bound;
  }
  if (std::holds_alternative<wire::AskPrepare>(message) ||
      std::holds_alternative<wire::Refuse>(message)) {
    Log(std::to_string(member.name) + " tells the coordinator " + wire::MessageName(message));
  }
}

void Lab::FromCoordinator(Member& member, const wire::Message& message) {
  if (!options_.post) return Feed(member, engine::FromCoordinator{message});
  wires_[{0, member.name}].push_back({Describe(message), [this, message](Member& to) {
                                        Feed(to, engine::FromCoordinator{message});
                                      }});
}

void Lab::Connect() {
  for (auto& [name, member] : members_) {
    if (options_.open) Feed(*member, engine::OpenGroup{kGroup, 0});
    for (auto& [other, peer] : members_) {
      if (other != name) Feed(*member, engine::LinkIsUp{peer->card.id});
    }
  }
}

void Lab::Form() {
  Connect();
  std::vector<int> all;
  for (auto& [name, member] : members_) all.push_back(name);
  Prepare({}, all);
  DeliverAll();
  Install();
  DeliverAll();
  TakeLog();
}

collective::OpSpec Lab::DefaultSpec() const {
  collective::OpSpec spec;
  spec.element_bytes = spec.accumulator_bytes = sim::kElementBytes;
  spec.count = options_.count;
  spec.in_place = options_.in_place;
  return spec;
}

void Lab::Call(int name, const collective::OpSpec* spec) {
  Member& member = *members_.at(name);
  if (!member.alive) return;
  const collective::OpSpec wanted = spec ? *spec : DefaultSpec();
  member.unnumbered.push_back(wanted);
  Feed(member, engine::StartOp{kGroup, wanted, 0});
}

void Lab::CallFast(int name) {
  Member& member = *members_.at(name);
  if (!member.alive) return;
  collective::LaneLine& line = member.line;
  const collective::OpSpec spec = DefaultSpec();
  const bool stays = !options_.in_place && !sim::MemberLane::IsForArea(options_.count);
  const collective::FastCall call{++now_, &spec, member.fast_before, true, stays};
  if (!member.engine->RecurFast(kGroup, call, &line) &&
      !member.engine->StartFast(kGroup, call, &line))
    return Call(name);
  member.fast_before = true;
  member.fast = line.seq;
  member.unnumbered.push_back(DefaultSpec());
  OpenBuffers(member, line.seq);
  CarryLine(member, {line,
                     {collective::BufferRef::Kind::kSend, line.seq, 0,
                      options_.count * sim::kElementBytes}});
}

bool Lab::Deliver(int from, int to) {
  auto found = wires_.find({from, to});
  if (found == wires_.end() || found->second.empty()) return false;
  const Letter letter = std::move(found->second.front());
  found->second.pop_front();
  Member& receiver = *members_.at(to);
  if (!receiver.alive) return true;
  const std::string sender = from < 0 ? "" : std::to_string(from) + " -> ";
  Log(sender + std::to_string(to) + " " + letter.text);
  letter.open(receiver);
  return true;
}

bool Lab::Drop(int from, int to) {
  auto found = wires_.find({from, to});
  if (found == wires_.end() || found->second.empty()) return false;
  found->second.pop_front();
  return true;
}

bool Lab::DeliverAny() {
  auto wire = wires_.upper_bound(last_wire_);
  for (size_t tried = 0; tried <= wires_.size(); ++tried, ++wire) {
    if (wire == wires_.end()) wire = wires_.begin();
    if (wire == wires_.end()) break;
    if (wire->second.empty() || wire->first == slow_wire_) continue;
    if (members_.at(wire->first.second)->stands_still) continue;
    last_wire_ = wire->first;
    return Deliver(last_wire_.first, last_wire_.second);
  }
  return Deliver(slow_wire_.first, slow_wire_.second);
}

void Lab::DeliverAll() {
  for (int i = 0; i < 100000 && failure_.empty(); ++i) {
    if (!DeliverAny()) return;
  }
}

void Lab::Kill(int member) { members_.at(member)->alive = false; }
void Lab::StandStill(int member) { members_.at(member)->stands_still = true; }
void Lab::GoOn(int member) {
  members_.at(member)->stands_still = false;
  Look(*members_.at(member));
}
void Lab::TellEvicted(int member) {
  FromCoordinator(*members_.at(member), wire::Evicted{});
  members_.at(member)->memory.GiveBack();
}
// Who leaves has a coordinator to say goodbye to.
void Lab::Leave(int member) {
  Feed(*members_.at(member), engine::CoordinatorUp{});
  Feed(*members_.at(member), engine::RequestLeave{});
}

void Lab::Prepare(const std::vector<int>& survivors, const std::vector<int>& newcomers,
                  const std::vector<int>& leavers) {
  prepare_ = {};
  prepare_.epoch = MakeEpoch(++counter_, 0);
  prepare_.base = view_.epoch;
  decided_ = false;
  for (int name : survivors) {
    const wire::ViewEntry* entry = view_.Find(members_.at(name)->card.id);
    prepare_.survivors.push_back(entry->card.id);
    prepare_.members.push_back(*entry);
    if (std::ranges::find(leavers, name) != leavers.end())
      prepare_.members.back().last.kind = wire::Bound::Kind::kAlways;
  }
  for (int name : newcomers)
    prepare_.members.push_back({members_.at(name)->card, prepare_.epoch, {}, {}});
  for (const wire::ViewEntry& entry : prepare_.members) {
    FromCoordinator(*members_.at(NameOf(entry.card.id)), prepare_);
  }
}

bool Lab::Install() {
  if (!decided_) return false;
  for (const wire::ViewEntry& entry : prepare_.members) InstallAt(NameOf(entry.card.id));
  return true;
}

void Lab::InstallAt(int member) {
  if (view_.epoch != prepare_.epoch) {
    view_ = {};
    view_.epoch = view_.era = prepare_.epoch;
    view_.entries = prepare_.members;
    for (wire::ViewEntry& entry : view_.entries) {
      entry.first = bounds_[entry.card.id].first;
      entry.last = bounds_[entry.card.id].last;
    }
  }
  FromCoordinator(*members_.at(member), wire::Install{view_, {}});
}

void Lab::Recover(const std::vector<int>& survivors) {
  Prepare(survivors);
  DeliverAll();
  if (!Install() && failure_.empty()) failure_ = "the leader did not decide";
  DeliverAll();
}

}  // namespace ftar::lab
