// A whole job on one thread with a virtual clock: coordinator, members, links, faults. The machines
// are the real ones (engine/, membership/); only bytes, wires and time are pretended. A seed
// decides everything, so a failing run replays.
//
// Two phases: faults of every kind while checkers object to anything unsafe; then no new faults,
// and everybody who is left must finish within a bound (liveness).
#ifndef FTAR_TESTS_SIM_WORLD_H_
#define FTAR_TESTS_SIM_WORLD_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <set>
#include <string>
#include <vector>

#include "checkers.h"
#include "engine/engine.h"
#include "membership/coordinator_machine.h"
#include "memory.h"
#include "random.h"

namespace ftar::sim {

// What the seed draws first.
struct Weather {
  int replicas = 3;
  int shards = 1;
  int ops = 20;          // to deliver after the last fault
  int ops_per_step = 0;  // 0: no step marks
  Seq window = 4;
  plan::PlanKind plan = plan::PlanKind::kAuto;
  TimeNs delay_max = kMillisecond;
  TimeNs work_delay_max = 0;
  int kills = 0, stops = 0, joins = 0, leaves = 0, cuts = 0, coordinator_restarts = 0;
  bool in_place = false;
  bool mismatch = false;  // somebody calls something else once
  bool weights = false;
  bool acks_pass = false;
  int aborts = 0;  // members that give up by themselves, most of them early (rule Q8)
};
Weather DrawWeather(uint64_t seed);
std::string Describe(const Weather& weather);

class World {
 public:
  World(uint64_t seed, Weather weather, bool trace);
  ~World();

  // Empty if the run was clean, else what was violated.
  std::string Run();
  uint64_t faults_injected() const { return faults_; }
  uint64_t events() const { return events_done_; }

 private:
  struct Node;
  struct Scheduled {
    TimeNs at = 0;
    uint64_t order = 0;
    std::function<void()> run;
    bool operator>(const Scheduled& other) const {
      return at != other.at ? at > other.at : order > other.order;
    }
  };
  enum class Carries { kWord, kAck, kData };
  struct Wire {
    TimeNs free = 0;       // everything has arrived by then
    TimeNs word_free = 0;  // every word and ack has
  };

  // world.cc: clock, nodes, wires
  void At(TimeNs at, std::function<void()> run);
  void After(TimeNs delay, std::function<void()> run) { At(now_ + delay, std::move(run)); }
  TimeNs Delay() { return rng_.Between(1000, weather_.delay_max); }
  TimeNs WireTime(uint64_t from, uint64_t to, Carries carries = Carries::kWord);
  Node& AddNode(int replica, int shard);
  Node* Find(MemberId id);
  void Feed(Node& node, engine::Event event);
  void Drain(Node& node);
  void CarryOut(Node& node, engine::Ready ready);
  void CarryTodo(Node& node, GroupKey group, collective::Todo& todo);
  void SendFrame(Node& node, GroupKey group, const collective::SendFrame& frame);
  void SendToPeer(Node& from, MemberId to, Carries carries, std::function<void(Node&)> deliver);
  void Connect(Node& node, const wire::MemberCard& card);
  void Trace(const std::string& line);
  void TraceMessage(MemberId from, MemberId to, const wire::Message& message);
  void Fail(const std::string& what);
  std::string DescribeStuck(const Node& node) const;

  // coordinator_host.cc
  void StartCoordinator();
  void FeedCoordinator(const membership::CoordinatorEvent& event);
  void DrainCoordinator();
  void Attach(Node& node);
  Node* NodeOf(uint64_t conn);
  void ToCoordinator(Node& node, wire::Message message);

  // program.cc: what users do
  void Program(Node& node);
  collective::OpSpec SpecOf(const Node& node, Seq seq) const;
  void StartNext(Node& node);
  TimeNs RestAfter(Seq seq) const;
  void OnStarted(Node& node, Seq seq);
  void OnDelivered(Node& node, const collective::Outcome& outcome);
  bool Finished() const;
  bool JobIsOver() const;
  bool MayEnter(const Node& newcomer) const;

  // faults.cc
  void ScheduleFaults();
  void Kill(Node& node);
  void Stop(Node& node, TimeNs duration);
  void CutLink(Node& a, Node& b);
  void RestartCoordinator();
  Node* Victim(bool spare_last);

  const uint64_t seed_;
  const Weather weather_;
  const bool trace_;
  Random rng_;
  TimeNs now_ = 0;
  uint64_t order_ = 0, events_done_ = 0, faults_ = 0;
  std::priority_queue<Scheduled, std::vector<Scheduled>, std::greater<>> queue_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::map<std::pair<uint64_t, uint64_t>, Wire> wires_;
  std::set<std::pair<uint64_t, uint64_t>> cut_;
  std::unique_ptr<membership::CoordinatorMachine> coordinator_;
  uint16_t incarnation_ = 0;
  uint64_t next_connection_ = 0;
  std::map<uint64_t, Node*> connections_;
  uint64_t coordinator_life_ = 0;
  TimeNs coordinator_wake_ = kNever;
  Checkers checkers_;
  std::string failure_;
  bool calm_ = false;
  bool begun_ = false, ended_ = false;  // somebody was in a view; the coordinator saw the last go
  Seq goal_ = 0;                        // what everybody must have delivered at the end
};

}  // namespace ftar::sim

#endif  // FTAR_TESTS_SIM_WORLD_H_
