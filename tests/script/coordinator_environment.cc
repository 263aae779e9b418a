#include "tests/script/coordinator_environment.h"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <utility>
#include <vector>

#include "base/knob_value.h"
#include "membership/coordinator_machine.h"
#include "wire/codec.h"
#include "wire/frame.h"

namespace ftar::script {
namespace {

using membership::ConnId;
using membership::CoordinatorMachine;

// A member without operations: it says what a good member would say.
struct Puppet {
  std::string name;
  wire::Hello hello;
  ConnId conn = 0;
  bool dead = false, stopped = false;
  std::set<std::string> muted;      // names of messages that it does not send
  std::set<std::string> deaf;       // that do not reach it
  std::deque<wire::Message> inbox;  // while stopped
  std::set<MemberId> wanted;        // links
  Epoch promised = 0, installed = 0;
  std::vector<MemberId> promised_members;
  std::optional<wire::Prepare> prepare;
  std::optional<wire::View> view, confirmed;
  wire::GroupProgress progress{1, 0, 0, 0, {}};
  uint64_t step = 0;  // 0: counts by seq
};

TimeNs Duration(const std::string& text) {
  const auto value = ParseKnob(KnobOf(KnobId::kTimeout), text);
  return value.ok() ? value->number : 0;
}

std::string BoundText(const wire::Bound& bound) {
  switch (bound.kind) {
    case wire::Bound::Kind::kNone: return "-";
    case wire::Bound::Kind::kAlways: return "always";
    case wire::Bound::Kind::kStep: return "step " + std::to_string(bound.step);
    case wire::Bound::Kind::kSeq: break;
  }
  std::string text = "seq " + std::to_string(bound.default_seq);
  for (const wire::SeqBound& at : bound.seqs) {
    text += " g" + std::to_string(at.group) + ":" + std::to_string(at.seq);
  }
  return text;
}

class CoordinatorEnvironment : public Environment {
 public:
  std::string Run(const Command& command) override;

 private:
  // commands
  void Restart(const Command& command);
  void Job(const Command& command);
  void Join(const Command& command);
  void Planned(const Command& command);
  void Kill(const Command& command);
  void Advance(const Command& command);
  void Evidence(const Command& command);
  void Set(const Command& command);
  void Refuse(const Command& command);
  void ShowView();

  // the machine
  void Feed(const membership::CoordinatorEvent& event);
  void Drain();
  void Say(Puppet& puppet, wire::Message message);
  void ConnectPuppet(Puppet& puppet);
  void Beat();

  // puppets
  void Hear(Puppet& puppet, const wire::Message& message);
  void HearPrepare(Puppet& puppet, const wire::Prepare& prepare);
  void DecideIfAll(const wire::Prepare& prepare, int32_t shard);
  std::vector<wire::BoundOf> BoundsOf(const Puppet& leader, const wire::Prepare& prepare) const;
  wire::Bound Fresh(const Puppet& puppet, uint64_t ahead) const;
  void HearAnnounce(Puppet& root, const wire::Announce& announce);
  void Put(Puppet& puppet, wire::View view);

  // text
  void Print(const std::string& line) { out_ << line << "\n"; }
  std::string Describe(const wire::Message& message) const;
  std::string ViewText(const wire::View& view) const;
  std::string NameOf(MemberId id) const;
  template <typename List, typename IdOf>
  std::string Names(const List& list, IdOf id_of) const {
    std::string text;
    for (const auto& element : list) text += " " + NameOf(id_of(element));
    return text.empty() ? " nobody" : text;
  }
  Puppet& At(const std::string& name);
  Puppet* ById(MemberId id);
  std::vector<Puppet*> Named(const Command& command);

  std::ostringstream out_;
  std::unique_ptr<CoordinatorMachine> machine_;
  std::vector<std::byte> disk_;
  TimeNs now_ = kSecond, next_beat_ = 0;
  TimeNs timeout_ns_ = kSecond;
  ConnId next_conn_ = 1;
  bool idle_ = true;
  wire::Hello defaults_;
  std::map<std::string, Puppet> puppets_;
  std::map<ConnId, std::string> conns_;
  std::deque<std::pair<ConnId, wire::Message>> replies_;
};

// ---- names ----

Puppet& CoordinatorEnvironment::At(const std::string& name) {
  const auto [found, fresh] = puppets_.insert({name, {}});
  Puppet& puppet = found->second;
  if (!fresh) return puppet;
  puppet.name = name;
  uint64_t parts[3] = {0, 0, 0};  // replica, shard, incarnation
  int part = 0;
  for (const char c : name.substr(1)) {
    if (c == 's') {
      part = 1;
    } else if (c >= 'a' && c <= 'f') {
      parts[2] = static_cast<uint64_t>(c - 'a' + 10);
    } else {
      parts[part] = parts[part] * 10 + static_cast<uint64_t>(c - '0');
    }
  }
  wire::MemberCard& card = puppet.hello.card;
  card.id = {parts[0] << 56 | parts[1] << 48 | parts[2] << 40, 1};
  card.replica = static_cast<int32_t>(parts[0]);
  card.shard = static_cast<int32_t>(parts[1]);
  card.host = "host" + std::to_string(parts[0]);
  return puppet;
}

Puppet* CoordinatorEnvironment::ById(MemberId id) {
  for (auto& [name, puppet] : puppets_) {
    if (puppet.hello.card.id == id) return &puppet;
  }
  return nullptr;
}

std::string CoordinatorEnvironment::NameOf(MemberId id) const {
  for (const auto& [name, puppet] : puppets_) {
    if (puppet.hello.card.id == id) return name;
  }
  return "?" + ToString(id);
}

std::vector<Puppet*> CoordinatorEnvironment::Named(const Command& command) {
  std::vector<Puppet*> named;
  for (const std::string& arg : command.args) {
    if (arg.size() > 1 && arg[0] == 'r' && isdigit(static_cast<unsigned char>(arg[1])))
      named.push_back(&At(arg));
  }
  return named;
}

// ---- commands ----

std::string CoordinatorEnvironment::Run(const Command& command) {
  out_.str("");
  if (command.name == "coordinator") {
    Restart(command);
  } else if (command.name == "job") {
    Job(command);
  } else if (!machine_) {
    Print("no coordinator");
  } else if (command.name == "join" || command.name == "reconnect") {
    Join(command);
  } else if (command.name == "kill" || command.name == "close") {
    Kill(command);
  } else if (command.name == "advance") {
    Advance(command);
  } else if (command.name == "evidence") {
    Evidence(command);
  } else if (command.name == "retire") {
    Feed(membership::Retire{});
  } else if (command.name == "view") {
    ShowView();
  } else if (command.name == "refuse") {
    Refuse(command);
  } else if (command.name == "idle" || command.name == "busy") {
    idle_ = command.name == "idle";
  } else if (command.name == "promised") {  // what another coordinator has asked it for
    const auto by = static_cast<uint16_t>(command.Number("by", 1));
    for (Puppet* puppet : Named(command)) {
      puppet->promised = MakeEpoch(command.Number("epoch", 1), by);
      std::istringstream without(command.Option("without", ""));
      for (std::string name; std::getline(without, name, ',');)
        std::erase(puppet->promised_members, At(name).hello.card.id);
    }
  } else if (command.name == "planned") {
    Planned(command);
  } else if (command.name == "leave") {
    for (Puppet* puppet : Named(command)) Say(*puppet, wire::LeaveRequest{});
  } else if (command.name == "ready") {
    for (Puppet* puppet : Named(command)) Say(*puppet, wire::LeaveReady{puppet->installed, {}});
  } else if (command.name == "goodbye") {
    const Code code = command.Has("left")      ? Code::kLeft
                      : command.Has("timeout") ? Code::kTimeout
                                               : Code::kAborted;
    for (Puppet* puppet : Named(command))
      Say(*puppet, wire::Goodbye{code, command.Option("text", "")});
  } else if (command.name == "linked") {  // the first has links to the others
    wire::LinksUp up;
    for (Puppet* puppet : Named(command)) up.peers.push_back(puppet->hello.card.id);
    up.peers.erase(up.peers.begin());
    Say(*Named(command).front(), up);
  } else if (command.name == "ask") {
    for (Puppet* puppet : Named(command)) {
      const Epoch epoch = MakeEpoch(command.Number("epoch", EpochCounter(puppet->installed)), 0);
      Say(*puppet, wire::AskPrepare{epoch, 1, command.Number("seq", 0)});
    }
  } else {
    Set(command);
  }
  Drain();
  return out_.str();
}

// Members stay as they are; their connections break, which they notice by themselves (`reconnect`).
// With `record` it finds what its predecessor has recorded.
void CoordinatorEnvironment::Restart(const Command& command) {
  membership::CoordinatorConfig config;
  config.incarnation = static_cast<uint16_t>(command.Number("incarnation", 0));
  timeout_ns_ = Duration(command.Option("timeout", "1s"));
  config.timeout_ns = timeout_ns_;
  config.late_timeout_ns =
      command.options.contains("late") ? Duration(command.Option("late", "1s")) : 0;
  config.settle_ns = Duration(command.Option("settle", "0"));
  config.place_wait_ns = Duration(command.Option("place_wait", "300s"));
  config.hosted = command.options.contains("hosted");
  if (config.hosted) config.self = At(command.Option("hosted", "")).hello.card.id;
  config.successor = command.Has("successor");
  membership::CoordinatorRecord record;
  if (command.Has("record")) record = *membership::DecodeRecord(disk_);
  machine_ = std::make_unique<CoordinatorMachine>(config, std::move(record));
  for (auto& [name, puppet] : puppets_) puppet.conn = 0;
  conns_.clear();
  replies_.clear();
  next_beat_ = now_ + timeout_ns_ / 10;
}

void CoordinatorEnvironment::Job(const Command& command) {
  defaults_.wire_version = static_cast<uint16_t>(command.Number("version", wire::kWireVersion));
  defaults_.job = command.Option("name", "job");
  defaults_.replicas = static_cast<int32_t>(command.Number("replicas", 3));
  defaults_.shards = static_cast<int32_t>(command.Number("shards", 1));
  defaults_.min_replicas = static_cast<int32_t>(command.Number("min", 1));
  defaults_.agreed_config = {"chunk=auto", "window=" + command.Option("window", "16")};
}

void CoordinatorEnvironment::ConnectPuppet(Puppet& puppet) {
  puppet.conn = next_conn_++;
  conns_[puppet.conn] = puppet.name;
  wire::Report report;
  report.promised = puppet.promised;
  report.promised_members = puppet.promised_members;
  const auto& known = puppet.view ? puppet.view : puppet.confirmed;
  if (known) {
    report.installed = known->epoch;
    report.installed_view = *known;
  }
  puppet.hello.report = report;
  Feed(membership::Connected{puppet.conn, puppet.hello});
}

void CoordinatorEnvironment::Join(const Command& command) {
  for (Puppet* puppet : Named(command)) {
    if (command.name == "join") {
      const wire::MemberCard card = puppet->hello.card;
      puppet->hello = defaults_;
      puppet->hello.card = card;
    }
    ConnectPuppet(*puppet);
  }
}

// A root, with this view, has told newcomers alone of a planned one that takes them in.
void CoordinatorEnvironment::Planned(const Command& command) {
  wire::View plan = *At(command.Option("on", "r0")).view;
  plan.base = plan.epoch;
  const auto by = static_cast<uint16_t>(command.Number("by", 1));
  plan.epoch = MakeEpoch(command.Number("epoch", 1), by);
  plan.planned = true;
  for (Puppet* puppet : Named(command)) {
    plan.entries.emplace_back().card = puppet->hello.card;
    plan.entries.back().joined_epoch = plan.epoch;
  }
  for (Puppet* puppet : Named(command)) {
    puppet->promised = plan.epoch;
    puppet->promised_members.clear();
    for (const wire::ViewEntry& entry : plan.entries)
      puppet->promised_members.push_back(entry.card.id);
    puppet->view = plan;
  }
}

void CoordinatorEnvironment::Kill(const Command& command) {
  const std::vector<Puppet*> victims = Named(command);
  for (Puppet* puppet : victims) {
    puppet->dead = command.name == "kill";
    if (command.Has("quietly")) continue;
    const ConnId conn = std::exchange(puppet->conn, 0);
    conns_.erase(conn);
    Feed(membership::Disconnected{conn, command.Option("text", ""), command.Has("reset")});
  }
}

void CoordinatorEnvironment::Advance(const Command& command) {
  const TimeNs end = now_ + Duration(command.args.at(0));
  // `command` may say that the coordinator itself is stopped meanwhile: nothing is fed until the
  // end.
  if (command.Has("asleep")) {
    now_ = end;
    next_beat_ = end;
    Feed(membership::Timer{});
    return;
  }
  while (true) {
    const TimeNs wake = std::min(machine_->TakeReady().next_deadline, next_beat_);
    if (wake > end) break;
    now_ = std::max(now_, wake);
    if (now_ >= next_beat_) {
      next_beat_ = now_ + timeout_ns_ / 10;
      Beat();
    }
    Feed(membership::Timer{});
    Drain();
  }
  now_ = end;
}

void CoordinatorEnvironment::Beat() {
  for (auto& [name, puppet] : puppets_) {
    if (puppet.view) Say(puppet, wire::Heartbeat{puppet.installed, {puppet.progress}});
  }
}

void CoordinatorEnvironment::Evidence(const Command& command) {
  static const std::map<std::string, wire::EvidenceKind> kinds = {
      {"exited", wire::EvidenceKind::kProcessExited},  {"link", wire::EvidenceKind::kLinkLost},
      {"restored", wire::EvidenceKind::kLinkRestored}, {"self", wire::EvidenceKind::kSelfReport},
      {"operator", wire::EvidenceKind::kOperator},     {"deadline", wire::EvidenceKind::kDeadline}};
  wire::Evidence evidence;
  evidence.kind = kinds.at(command.args.at(1));
  evidence.subject = At(command.args.back()).hello.card.id;
  evidence.text = command.Option("text", "");
  Say(At(command.args.at(0)), evidence);
}

void CoordinatorEnvironment::Refuse(const Command& command) {
  Puppet& puppet = At(command.args.at(0));
  wire::Refuse refuse;
  refuse.epoch = puppet.prepare ? puppet.prepare->epoch : puppet.promised;
  refuse.report.promised = MakeEpoch(command.Number("promised", 1), 0);
  for (size_t i = 1; i < command.args.size(); ++i) {
    refuse.report.promised_members.push_back(At(command.args[i]).hello.card.id);
  }
  Say(puppet, refuse);
}

// What changes a puppet and tells the coordinator nothing by itself.
void CoordinatorEnvironment::Set(const Command& command) {
  if (command.name == "cont") {
    for (Puppet* puppet : Named(command)) {
      puppet->stopped = false;
      for (const wire::Message& message : std::exchange(puppet->inbox, {})) Hear(*puppet, message);
    }
    return;
  }
  const bool known = command.name == "stop" || command.name == "mute" || command.name == "unmute" ||
                     command.name == "progress" || command.name == "deaf" ||
                     command.name == "undeaf";
  if (!known) Print("unknown command " + command.name);
  for (Puppet* puppet : Named(command)) {
    if (command.name == "stop") puppet->stopped = true;
    if (command.name == "mute") puppet->muted.insert(command.args.back());
    if (command.name == "unmute") puppet->muted.erase(command.args.back());
    if (command.name == "deaf") puppet->deaf.insert(command.args.back());
    if (command.name == "undeaf") puppet->deaf.erase(command.args.back());
    if (command.name != "progress") continue;
    puppet->step = command.Number("step", puppet->step);
    puppet->progress.called_end = command.Number("called", puppet->progress.called_end);
    puppet->progress.delivered_end = command.Number("delivered", puppet->progress.delivered_end);
    puppet->progress.counter = command.Number("counter", puppet->progress.counter);
    puppet->progress.waits_for.clear();
    std::istringstream waits(command.Option("waits", ""));
    for (std::string name; std::getline(waits, name, ',');)
      puppet->progress.waits_for.push_back(At(name).hello.card.id);
  }
}

void CoordinatorEnvironment::ShowView() {
  if (!machine_->view()) return Print("no view");
  Print(ViewText(*machine_->view()));
  for (const wire::ViewEntry& entry : machine_->view()->entries) {
    Print("  " + NameOf(entry.card.id) + " joined " +
          std::to_string(EpochCounter(entry.joined_epoch)) + ", first " + BoundText(entry.first) +
          ", last " + BoundText(entry.last));
  }
}

// ---- the machine ----

void CoordinatorEnvironment::Feed(const membership::CoordinatorEvent& event) {
  machine_->Step(now_, event);
  membership::CoordinatorReady ready = machine_->TakeReady();
  if (ready.record) disk_ = membership::EncodeRecord(*ready.record);
  for (const membership::Note& note : ready.notes) {
    if (note.level > LogLevel::kInfo) continue;
    Print(std::string(note.level == LogLevel::kInfo ? ". " : "! ") + note.text);
  }
  for (const membership::Outgoing& out : ready.messages) {
    // What goes over the wire is what a member would decode.
    const wire::Message message = *wire::Decode(wire::Encode(out.message));
    if (std::holds_alternative<wire::CoordinatorBeat>(message)) continue;
    std::string to;
    for (ConnId conn : out.to)
      to += " " + (conns_.contains(conn) ? conns_[conn] : std::string("?"));
    Print("  ->" + to + ": " + Describe(message));
    for (ConnId conn : out.to) {
      if (conns_.contains(conn)) Hear(At(conns_[conn]), message);
    }
  }
  for (ConnId conn : ready.close) {
    if (!conns_.contains(conn)) continue;
    Print("  close " + conns_[conn]);
    At(conns_[conn]).conn = 0;
    conns_.erase(conn);
  }
  if (ready.ended) Print("  ended");
  if (ready.stand_down) Print("  stands down");
}

void CoordinatorEnvironment::Drain() {
  while (!replies_.empty()) {
    auto [conn, message] = std::move(replies_.front());
    replies_.pop_front();
    Feed(membership::Received{conn, std::move(message)});
  }
}

void CoordinatorEnvironment::Say(Puppet& puppet, wire::Message message) {
  if (puppet.dead || puppet.stopped || puppet.conn == 0 ||
      puppet.muted.contains(wire::MessageName(message)))
    return;
  replies_.push_back({puppet.conn, std::move(message)});
}

// ---- puppets ----

void CoordinatorEnvironment::Hear(Puppet& puppet, const wire::Message& message) {
  if (puppet.dead || puppet.deaf.contains(wire::MessageName(message))) return;
  if (puppet.stopped) return puppet.inbox.push_back(message);
  const auto want = [&](const std::vector<wire::MemberCard>& peers) {
    for (const wire::MemberCard& card : peers) {
      const Puppet* peer = ById(card.id);
      if (!peer || !peer->stopped) puppet.wanted.insert(card.id);
    }
    Say(puppet, wire::LinksUp{{puppet.wanted.begin(), puppet.wanted.end()}});
  };
  if (const auto* m = std::get_if<wire::Welcome>(&message)) return want(m->peers);
  if (const auto* m = std::get_if<wire::Connect>(&message)) return want(m->peers);
  if (const auto* m = std::get_if<wire::Prepare>(&message)) return HearPrepare(puppet, *m);
  if (const auto* m = std::get_if<wire::Install>(&message)) {
    if (m->view.epoch == puppet.promised) Put(puppet, m->view);
    return;
  }
  if (const auto* m = std::get_if<wire::Propose>(&message)) {
    Say(puppet, wire::Reserved{m->view.epoch, puppet.hello.card.shard, idle_, Fresh(puppet, 2)});
  } else if (const auto* m = std::get_if<wire::Confirm>(&message)) {
    puppet.confirmed = m->view;
    puppet.promised = m->view.epoch;
    Say(puppet, wire::Confirmed{m->view.epoch});
  } else if (const auto* m = std::get_if<wire::VoidPlan>(&message)) {
    if (puppet.confirmed && puppet.confirmed->epoch == m->epoch) puppet.confirmed.reset();
  } else if (const auto* m = std::get_if<wire::Announce>(&message)) {
    HearAnnounce(puppet, *m);
  } else if (std::holds_alternative<wire::Evicted>(message) ||
             std::holds_alternative<wire::Rejected>(message)) {
    puppet.dead = true;
    const auto* evicted = std::get_if<wire::Evicted>(&message);
    if (evicted && evicted->awaits_goodbye)
      replies_.push_back({puppet.conn, wire::Goodbye{Code::kEvicted, "evicted"}});
  }
}

void CoordinatorEnvironment::HearPrepare(Puppet& puppet, const wire::Prepare& prepare) {
  if (prepare.epoch <= puppet.promised) return;
  puppet.promised = prepare.epoch;
  puppet.promised_members.clear();
  for (const wire::ViewEntry& entry : prepare.members)
    puppet.promised_members.push_back(entry.card.id);
  puppet.prepare = prepare;
  DecideIfAll(prepare, puppet.hello.card.shard);
}

// Status goes from member to member, unseen by the coordinator: the leader decides when all of its
// column have promised.
void CoordinatorEnvironment::DecideIfAll(const wire::Prepare& prepare, int32_t shard) {
  std::vector<Puppet*> column, survivors;
  for (const wire::ViewEntry& entry : prepare.members) {
    Puppet* puppet = entry.card.shard == shard ? ById(entry.card.id) : nullptr;
    if (!puppet) continue;
    if (puppet->dead || puppet->stopped || puppet->promised != prepare.epoch) return;
    column.push_back(puppet);
    const auto& list = prepare.survivors;
    if (std::find(list.begin(), list.end(), entry.card.id) != list.end())
      survivors.push_back(puppet);
  }
  if (survivors.empty()) survivors = column;
  Puppet& leader = *survivors[prepare.leader_turn % survivors.size()];
  Say(leader, wire::Decided{prepare.epoch, shard, BoundsOf(leader, prepare)});
}

wire::Bound CoordinatorEnvironment::Fresh(const Puppet& puppet, uint64_t ahead) const {
  if (puppet.step > 0) return {wire::Bound::Kind::kStep, puppet.step + ahead, 0, {}};
  return {wire::Bound::Kind::kSeq, 0, 0, {{1, puppet.progress.called_end + ahead}}};
}

std::vector<wire::BoundOf> CoordinatorEnvironment::BoundsOf(const Puppet& leader,
                                                            const wire::Prepare& prepare) const {
  std::vector<wire::BoundOf> bounds;
  for (const wire::ViewEntry& entry : prepare.members) {
    if (entry.card.shard != leader.hello.card.shard) continue;
    wire::BoundOf bound;
    bound.member = entry.card.id;
    const wire::ViewEntry* old = leader.view ? leader.view->Find(entry.card.id) : nullptr;
    if (old) {
      bound.first = old->first;
      bound.last = old->last;
    } else if (prepare.base == 0) {
      bound.first.kind = wire::Bound::Kind::kAlways;
    } else {
      bound.first = Fresh(leader, 0);
      bound.fresh_first = true;
    }
    if (entry.last.kind == wire::Bound::Kind::kAlways &&
        bound.last.kind == wire::Bound::Kind::kNone) {
      bound.last = Fresh(leader, 0);
      bound.fresh_last = true;
    }
    bounds.push_back(std::move(bound));
  }
  return bounds;
}

void CoordinatorEnvironment::HearAnnounce(Puppet& root, const wire::Announce& announce) {
  Say(root, wire::Announced{announce.view.epoch, root.hello.card.shard});
  for (const wire::ViewEntry& entry : announce.view.entries) {
    if (entry.card.shard != root.hello.card.shard) continue;
    Puppet* puppet = ById(entry.card.id);
    if (!puppet || puppet->dead || puppet->stopped) continue;
    if (puppet->promised <= puppet->installed) Put(*puppet, announce.view);  // else J1: not obeyed
  }
}

void CoordinatorEnvironment::Put(Puppet& puppet, wire::View view) {
  puppet.installed = view.epoch;
  puppet.promised = std::max(puppet.promised, view.epoch);
  puppet.view = std::move(view);
  puppet.prepare.reset();
  puppet.confirmed.reset();
  Say(puppet, wire::Installed{puppet.installed});
}

// ---- text ----

std::string CoordinatorEnvironment::ViewText(const wire::View& view) const {
  std::string text = "view " + std::to_string(EpochCounter(view.epoch));
  if (EpochIncarnation(view.epoch) != 0) text += "." + std::to_string(EpochIncarnation(view.epoch));
  if (view.planned) {
    text += " planned on " + std::to_string(EpochCounter(view.base)) + " from " +
            BoundText(view.boundary);
  }
  return text + ":" +
         Names(view.entries, [](const wire::ViewEntry& entry) { return entry.card.id; });
}

std::string CoordinatorEnvironment::Describe(const wire::Message& message) const {
  const std::string name = wire::MessageName(message);
  const auto id_of_card = [](const wire::MemberCard& card) { return card.id; };
  const auto id_of_entry = [](const wire::ViewEntry& entry) { return entry.card.id; };
  const auto lost_text = [this](const std::vector<wire::Loss>& lost) {
    return lost.empty()
               ? ""
               : "; lost" + Names(lost, [](const wire::Loss& loss) { return loss.member; });
  };
  if (const auto* m = std::get_if<wire::Welcome>(&message))
    return name + Names(m->peers, id_of_card);
  if (const auto* m = std::get_if<wire::Connect>(&message))
    return name + Names(m->peers, id_of_card);
  if (const auto* m = std::get_if<wire::Rejected>(&message))
    return name + " [" + m->argument + "] " + m->text;
  if (const auto* m = std::get_if<wire::Prepare>(&message)) {
    std::string text = name + " " + std::to_string(EpochCounter(m->epoch)) + " on " +
                       std::to_string(EpochCounter(m->base)) + ": survivors" +
                       Names(m->survivors, [](MemberId id) { return id; }) + "; members" +
                       Names(m->members, id_of_entry);
    if (m->leader_turn != 0) text += "; turn " + std::to_string(m->leader_turn);
    for (const wire::ViewEntry& entry : m->members) {
      if (entry.last.kind == wire::Bound::Kind::kAlways)
        text += "; " + NameOf(entry.card.id) + " leaves";
    }
    return text + lost_text(m->lost);
  }
  if (const auto* m = std::get_if<wire::Install>(&message))
    return name + " " + ViewText(m->view) + lost_text(m->lost);
  if (const auto* m = std::get_if<wire::Propose>(&message)) return name + " " + ViewText(m->view);
  if (const auto* m = std::get_if<wire::Confirm>(&message)) return name + " " + ViewText(m->view);
  if (const auto* m = std::get_if<wire::Announce>(&message)) return name + " " + ViewText(m->view);
  if (const auto* m = std::get_if<wire::VoidPlan>(&message))
    return name + " " + std::to_string(EpochCounter(m->epoch));
  if (const auto* m = std::get_if<wire::Evicted>(&message))
    return name + " [" + m->reason.stage + "] " + m->reason.text;
  if (const auto* m = std::get_if<wire::LateNotice>(&message)) {
    return name + " " + NameOf(m->member) + " operation " + std::to_string(m->seq) + " for " +
           FormatDuration(m->since_ns);
  }
  if (const auto* m = std::get_if<wire::NoQuorum>(&message)) return name + " " + m->text;
  return name;
}

}  // namespace

std::unique_ptr<Environment> MakeCoordinatorEnvironment() {
  return std::make_unique<CoordinatorEnvironment>();
}

}  // namespace ftar::script
