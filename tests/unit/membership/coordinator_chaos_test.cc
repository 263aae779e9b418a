// The coordinator among members that die, hang, come back, leave and talk nonsense, drawn from a
// seed: what it says must keep the rules at every message, and when the faults stop all members
// must end in one view.
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "membership/coordinator_machine.h"
#include "tests/unit/wire/fields.h"
#include "wire/frame.h"

namespace ftar::membership {
namespace {

constexpr TimeNs kTimeout = kSecond;

struct Member {
  wire::Hello hello;
  ConnId conn = 0;
  bool dead = false, stopped = false, leaving = false;
  std::deque<wire::Message> inbox;
  std::set<MemberId> wanted;
  Epoch promised = 0;
  std::vector<MemberId> promised_members;
  std::optional<wire::View> view, confirmed, announced;
};

// What must hold of everything the coordinator says, whoever listens.
class Rules {
 public:
  Rules(int32_t shards, bool* restarted) : shards_(shards), restarted_(restarted) {}

  void Check(const wire::Message& message) {
    if (const auto* m = std::get_if<wire::Prepare>(&message)) return OnPrepare(*m);
    if (const auto* m = std::get_if<wire::Install>(&message)) {
      if (*restarted_) return;
      EXPECT_EQ(m->view.epoch, prepared_) << "an Install answers the last Prepare (V10)";
      CheckEntries(m->view.entries);
      for (const wire::ViewEntry& entry : m->view.entries)
        EXPECT_NE(entry.first.kind, wire::Bound::Kind::kNone);
    } else if (const auto* m = std::get_if<wire::Announce>(&message)) {
      EXPECT_NE(m->view.boundary.kind, wire::Bound::Kind::kNone) << "J3";
      CheckEntries(m->view.entries);
    }
  }
  void Evicted(MemberId id) { evicted_.insert(id); }
  // Who is out is known by the promises of those who went on; none of them need be left.
  void Restart() { evicted_.clear(); }

 private:
  void OnPrepare(const wire::Prepare& prepare) {
    // The same Prepare may be sent again to a member on a new connection.
    // A restarted coordinator is above all that was promised, not above what nobody heard.
    if (*restarted_) prepared_ = 0;
    EXPECT_GE(prepare.epoch, prepared_) << "epochs only grow (Q1)";
    prepared_ = prepare.epoch;
    *restarted_ = false;
    CheckEntries(prepare.members);
    std::set<MemberId> members;
    for (const wire::ViewEntry& entry : prepare.members) members.insert(entry.card.id);
    for (MemberId id : prepare.survivors) EXPECT_TRUE(members.contains(id));
  }
  // Whole replicas, nobody twice, nobody who was told that he is out (Q3).
  void CheckEntries(const std::vector<wire::ViewEntry>& entries) {
    std::map<int32_t, std::set<int32_t>> replicas;
    for (const wire::ViewEntry& entry : entries) {
      EXPECT_TRUE(replicas[entry.card.replica].insert(entry.card.shard).second) << "a place twice";
      EXPECT_FALSE(evicted_.contains(entry.card.id)) << "out is out (Q3)";
      leaving_seen_ = leaving_seen_ || entry.leaves();
    }
    // A replica that leaves goes one by one, by its members' goodbyes; all others are whole.
    for (const auto& [replica, shards] : replicas) {
      if (!leaving_seen_) {
        EXPECT_EQ(static_cast<int32_t>(shards.size()), shards_) << "replica " << replica;
      }
    }
  }

  const int32_t shards_;
  bool* restarted_;
  bool leaving_seen_ = false;
  Epoch prepared_ = 0;
  std::set<MemberId> evicted_;
};

class World {
 public:
  World(uint64_t seed, int32_t replicas, int32_t shards)
      : random_(seed),
        replicas_(replicas),
        shards_(shards),
        rules_(shards, &restarted_),
        garbage_(wire::test::AllMessages(true)) {
    Restart();
    for (int32_t replica = 0; replica < replicas; ++replica) StartReplica(replica);
  }

  // A while of faults.
  void Rage(int rounds) {
    for (int i = 0; i < rounds && !testing::Test::HasFailure(); ++i) {
      Fault();
      Run(static_cast<TimeNs>(Below(60)) * kMillisecond);
      Refill();
    }
  }

  // No more faults: hanging processes are killed, places filled.
  void Heal() {
    for (auto& [id, member] : members_) {
      if (member.stopped) Kill(member);
    }
    for (int i = 0; i < 40 && !testing::Test::HasFailure(); ++i) {
      Run(kSecond);
      Refill();
    }
  }

  void ExpectOneView() {
    ASSERT_NE(machine_->view(), nullptr);
    std::set<int32_t> replicas;
    for (const wire::ViewEntry& entry : machine_->view()->entries) {
      const Member& member = members_.at(entry.card.id);
      if (member.dead) continue;
      replicas.insert(entry.card.replica);
      ASSERT_TRUE(member.view) << ToString(entry.card.id);
      EXPECT_EQ(member.view->epoch, machine_->view()->epoch);
    }
    EXPECT_EQ(static_cast<int32_t>(replicas.size()), replicas_);
    for (const auto& [id, member] : members_) {
      if (member.dead) continue;
      EXPECT_TRUE(machine_->view()->Find(id)) << ToString(id) << " lives outside of the view";
    }
    EXPECT_FALSE(machine_->changing());
  }

 private:
  size_t Below(size_t end) { return static_cast<size_t>(random_() % end); }
  bool OneIn(size_t n) { return Below(n) == 0; }

  void Restart() {
    CoordinatorConfig config;
    config.incarnation = static_cast<uint16_t>(++incarnation_);
    config.timeout_ns = kTimeout;
    config.settle_ns = 100 * kMillisecond;
    machine_ = std::make_unique<CoordinatorMachine>(config);
    restarted_ = true;
    rules_.Restart();
    conns_.clear();
    queue_.clear();
    for (auto& [id, member] : members_) {
      member.conn = 0;
      member.inbox.clear();
    }
    Feed(Timer{});
  }

  void StartReplica(int32_t replica) {
    for (int32_t shard = 0; shard < shards_; ++shard) {
      const MemberId id{++next_id_ << 32, 1};
      Member& member = members_[id];
      member.hello = {wire::kWireVersion,
                      "job",
                      {id, replica, shard, 0, "h", "", "", "", 0, 0, false, {}},
                      replicas_,
                      shards_,
                      1,
                      {},
                      {},
                      {}};
      Connect(member);
    }
  }

  // A replica of which somebody is gone is started anew as a whole, as a launcher would.
  void Refill() {
    for (int32_t replica = 0; replica < replicas_; ++replica) {
      int32_t alive = 0;
      bool leaving = false;
      for (auto& [id, member] : members_) {
        if (member.hello.card.replica != replica || member.dead) continue;
        ++alive;
        leaving = leaving || member.leaving;
      }
      if (alive == shards_ || leaving) continue;
      if (alive > 0 && !OneIn(3)) continue;
      for (auto& [id, member] : members_) {
        if (member.hello.card.replica == replica && !member.dead) Kill(member);
      }
      StartReplica(replica);
    }
    for (auto& [id, member] : members_) {
      if (!member.dead && member.conn == 0 && OneIn(2)) Connect(member);
    }
  }

  void Connect(Member& member) {
    member.conn = next_conn_++;
    conns_[member.conn] = member.hello.card.id;
    wire::Report& report = member.hello.report;
    report = {member.promised, member.promised_members, 0, std::nullopt};
    report.installed_view = member.view ? member.view : member.confirmed;
    if (report.installed_view) report.installed = report.installed_view->epoch;
    Feed(Connected{member.conn, member.hello});
    if (member.leaving) Say(member, wire::LeaveRequest{});
  }

  void Disconnect(Member& member) {
    const ConnId conn = std::exchange(member.conn, 0);
    if (conn == 0) return;
    conns_.erase(conn);
    std::erase_if(queue_, [conn](const auto& entry) { return entry.first == conn; });
    Feed(Disconnected{conn, "reset"});
  }

  void Kill(Member& member) {
    member.dead = true;
    Disconnect(member);
  }

  Member* Anyone() {
    std::vector<Member*> alive;
    for (auto& [id, member] : members_) {
      if (!member.dead) alive.push_back(&member);
    }
    return alive.empty() ? nullptr : alive[Below(alive.size())];
  }

  void Fault() {
    Member *a = Anyone(), *b = Anyone();
    if (!a || !b) return;
    switch (Below(12)) {
      case 0: return Kill(*a);
      case 1: a->stopped = true; return;
      case 2: return Continue();
      case 3: return Disconnect(*a);
      case 4:
        return Say(*a, wire::Evidence{wire::EvidenceKind::kLinkLost, b->hello.card.id, Code::kPeer,
                                      0, "reset"});
      case 5:
        return Say(*a, wire::Evidence{wire::EvidenceKind::kOperator, b->hello.card.id,
                                      Code::kEvicted, 0, ""});
      case 6: return Say(*a, wire::AskPrepare{a->view ? a->view->epoch : 0, 1, Below(100)});
      case 7: busy_ = OneIn(2); return;
      case 8: return Say(*a, garbage_[Below(garbage_.size())]);
      case 9:
        for (auto& [id, member] : members_) {
          if (member.hello.card.replica != a->hello.card.replica || member.dead || !member.view)
            continue;
          member.leaving = true;
          Say(member, wire::LeaveRequest{});
        }
        return;
      case 10:
        if (OneIn(4)) Restart();
        return;
      default: return;
    }
  }

  void Continue() {
    for (auto& [id, member] : members_) {
      if (!std::exchange(member.stopped, false)) continue;
      const std::optional<wire::View> announced = std::exchange(member.announced, std::nullopt);
      if (announced && announced->epoch > member.promised) Put(member, *announced);
      for (const wire::Message& message : std::exchange(member.inbox, {})) Hear(member, message);
    }
  }

  // Runs for a while: deliveries in random order between connections, beats, the machine's own
  // deadlines.
  void Run(TimeNs duration) {
    for (const TimeNs end = now_ + duration; now_ < end && !testing::Test::HasFailure();) {
      Deliver();
      now_ = std::min(end, std::max(now_ + 1, std::min(deadline_, next_beat_)));
      if (now_ >= next_beat_) {
        next_beat_ = now_ + kTimeout / 10;
        for (auto& [id, member] : members_) {
          if (member.dead) Disconnect(member);
          SayLinksUp(member);
          if (member.view) Say(member, wire::Heartbeat{member.view->epoch, {}});
          // Released at once, or as soon as it is thought of.
          if (member.leaving && member.view && OneIn(4)) SayGoodbye(member);
        }
      }
      Feed(Timer{});
    }
    Deliver();
  }

  void SayGoodbye(Member& member) {
    const wire::ViewEntry* self = member.view->Find(member.hello.card.id);
    if (!self || !self->leaves() || member.dead || member.stopped || member.conn == 0) return;
    Feed(Received{member.conn, wire::Goodbye{Code::kLeft, ""}});
    member.dead = true;
    Disconnect(member);
  }

  void Deliver() {
    for (int i = 0; i < 2000 && !queue_.empty(); ++i) {
      // Connections overtake each other, messages of one connection do not.
      const ConnId conn = queue_[Below(queue_.size())].first;
      const auto first = std::find_if(queue_.begin(), queue_.end(),
                                      [conn](const auto& entry) { return entry.first == conn; });
      const wire::Message message = std::move(first->second);
      queue_.erase(first);
      Feed(Received{conn, message});
    }
    EXPECT_TRUE(queue_.empty()) << "the conversation does not end";
  }

  void Feed(const CoordinatorEvent& event) {
    machine_->Step(now_, event);
    CoordinatorReady ready = machine_->TakeReady();
    deadline_ = ready.next_deadline;
    for (const Outgoing& out : ready.messages) {
      rules_.Check(out.message);
      for (ConnId conn : out.to) {
        const auto found = conns_.find(conn);
        if (found != conns_.end()) Hear(members_.at(found->second), out.message);
      }
    }
    for (ConnId conn : ready.close) {
      const auto found = conns_.find(conn);
      if (found == conns_.end()) continue;
      members_.at(found->second).conn = 0;
      conns_.erase(found);
      std::erase_if(queue_, [conn](const auto& entry) { return entry.first == conn; });
    }
  }

  void Say(Member& member, wire::Message message) {
    if (!member.dead && !member.stopped && member.conn != 0)
      queue_.push_back({member.conn, std::move(message)});
  }

  void Hear(Member& member, const wire::Message& message) {
    if (member.dead) return;
    if (std::holds_alternative<wire::Evicted>(message)) rules_.Evicted(member.hello.card.id);
    if (member.stopped) return member.inbox.push_back(message);
    const auto want = [&](const std::vector<wire::MemberCard>& peers) {
      for (const wire::MemberCard& card : peers) member.wanted.insert(card.id);
      SayLinksUp(member);
    };
    if (const auto* m = std::get_if<wire::Welcome>(&message)) return want(m->peers);
    if (const auto* m = std::get_if<wire::Connect>(&message)) return want(m->peers);
    if (const auto* m = std::get_if<wire::Prepare>(&message)) return HearPrepare(member, *m);
    if (const auto* m = std::get_if<wire::Install>(&message)) {
      if (m->view.epoch == member.promised) Put(member, m->view);
    } else if (const auto* m = std::get_if<wire::Propose>(&message)) {
      if (!member.view || m->view.base != member.view->epoch || OneIn(8)) return;
      Say(member, wire::Reserved{m->view.epoch,
                                 member.hello.card.shard,
                                 !busy_,
                                 {wire::Bound::Kind::kStep, Below(50), 0, {}}});
    } else if (const auto* m = std::get_if<wire::Confirm>(&message)) {
      if (member.view || m->view.epoch <= member.promised) return;
      member.promised = m->view.epoch;
      member.confirmed = m->view;
      Say(member, wire::Confirmed{m->view.epoch});
    } else if (const auto* m = std::get_if<wire::VoidPlan>(&message)) {
      if (member.confirmed && member.confirmed->epoch == m->epoch) member.confirmed.reset();
    } else if (const auto* m = std::get_if<wire::Announce>(&message)) {
      HearAnnounce(member, *m);
    } else if (std::holds_alternative<wire::Evicted>(message) ||
               std::holds_alternative<wire::Rejected>(message)) {
      member.dead = true;  // hangs up at the next beat, if it is not hung up on
    }
  }

  void SayLinksUp(Member& member) {
    wire::LinksUp up;
    for (MemberId id : member.wanted) {
      if (!members_.at(id).dead) up.peers.push_back(id);
    }
    if (!up.peers.empty()) Say(member, up);
  }

  void HearPrepare(Member& member, const wire::Prepare& prepare) {
    if (prepare.epoch <= member.promised) {
      if (prepare.epoch < member.promised) Say(member, wire::Refuse{prepare.epoch, Report(member)});
      return;
    }
    for (MemberId id : prepare.survivors) {  // Q3
      const auto& promised = member.promised_members;
      if (!member.view || promised.empty() ||
          std::find(promised.begin(), promised.end(), id) != promised.end())
        continue;
      return Say(member, wire::Refuse{prepare.epoch, Report(member)});
    }
    member.promised = prepare.epoch;
    member.promised_members.clear();
    for (const wire::ViewEntry& entry : prepare.members)
      member.promised_members.push_back(entry.card.id);
    Decide(prepare, member.hello.card.shard);
  }

  wire::Report Report(const Member& member) const {
    wire::Report report{member.promised, member.promised_members, 0, std::nullopt};
    if (member.view) report.installed = member.view->epoch;
    return report;
  }

  void Decide(const wire::Prepare& prepare, int32_t shard) {
    std::vector<Member*> column;
    wire::Decided decided{prepare.epoch, shard, {}};
    for (const wire::ViewEntry& entry : prepare.members) {
      if (entry.card.shard != shard) continue;
      Member& member = members_.at(entry.card.id);
      if (member.dead || member.stopped || member.promised != prepare.epoch) return;
      column.push_back(&member);
      wire::BoundOf bound;
      bound.member = entry.card.id;
      bound.first.kind = wire::Bound::Kind::kAlways;
      bound.last = entry.last;
      if (entry.last.kind == wire::Bound::Kind::kAlways)
        bound.last = {wire::Bound::Kind::kStep, Below(50), 0, {}};
      bound.fresh_last = entry.last.kind == wire::Bound::Kind::kAlways;
      decided.bounds.push_back(bound);
    }
    if (OneIn(10)) return;  // a leader that is slow: the coordinator has to ask again
    Say(*column[prepare.leader_turn % column.size()], decided);
  }

  void HearAnnounce(Member& root, const wire::Announce& announce) {
    if (!root.view || announce.view.base != root.view->epoch) return;
    Say(root, wire::Announced{announce.view.epoch, root.hello.card.shard});
    for (const wire::ViewEntry& entry : announce.view.entries) {
      if (entry.card.shard != root.hello.card.shard) continue;
      Member& member = members_.at(entry.card.id);
      if (member.dead || announce.view.epoch < member.promised) continue;
      if (member.stopped) {
        member.announced = announce.view;  // lies in the link until it goes on
      } else {
        Put(member, announce.view);
      }
    }
  }

  void Put(Member& member, const wire::View& view) {
    member.view = view;
    member.confirmed.reset();
    member.promised = std::max(member.promised, view.epoch);
    member.promised_members.clear();
    for (const wire::ViewEntry& entry : view.entries)
      member.promised_members.push_back(entry.card.id);
    Say(member, wire::Installed{view.epoch});
  }

  std::mt19937_64 random_;
  const int32_t replicas_, shards_;
  bool restarted_ = false;
  Rules rules_;
  const std::vector<wire::Message> garbage_;
  std::unique_ptr<CoordinatorMachine> machine_;
  std::map<MemberId, Member> members_;
  std::map<ConnId, MemberId> conns_;
  std::deque<std::pair<ConnId, wire::Message>> queue_;
  TimeNs now_ = kSecond, deadline_ = kNever, next_beat_ = 0;
  uint64_t next_id_ = 0, incarnation_ = 0;
  ConnId next_conn_ = 1;
  bool busy_ = false;
};

class CoordinatorChaos : public testing::TestWithParam<int> {};

TEST_P(CoordinatorChaos, KeepsTheRulesAndConverges) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const uint64_t full_seed = static_cast<uint64_t>(GetParam()) * 1000 + seed;
    SCOPED_TRACE("seed " + std::to_string(full_seed));
    World world(full_seed, 2 + static_cast<int32_t>(seed % 4), 1 + static_cast<int32_t>(seed % 3));
    world.Rage(150);
    world.Heal();
    if (HasFailure()) return;
    world.ExpectOneView();
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(, CoordinatorChaos, testing::Range(0, 10));

}  // namespace
}  // namespace ftar::membership
