// A whole job on one thread with a virtual clock: coordinator, members, links, faults. The machines
// are the real ones (engine/, membership/); only bytes, wires and time are pretended. A seed
// decides everything, so a failing run replays.
//
// Two phases: faults of every kind while the invariants (invariants/) object to anything unsafe;
// then no new faults, and everybody who is left must finish within a bound (liveness).
#ifndef FTAR_TESTS_SIM_WORLD_H_
#define FTAR_TESTS_SIM_WORLD_H_

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "action.h"
#include "engine/engine.h"
#include "invariants/agreement.h"
#include "invariants/fencing.h"
#include "invariants/majority.h"
#include "invariants/steps.h"
#include "invariants/views.h"
#include "lane.h"
#include "membership/coordinator_machine.h"
#include "membership/relay_lines.h"
#include "membership/succession.h"
#include "memory.h"
#include "random.h"
#include "weather.h"

namespace ftar::sim {

constexpr TimeNs kTimeout = 100 * kMillisecond;  // members'

class Director;
class Explorer;
struct Story;

class World {
 public:
  // With a story it decides what happens, not the seed; with an explorer that decides in which
  // order.
  World(uint64_t seed, Weather weather, bool trace, const Story* story = nullptr,
        Explorer* explorer = nullptr);
  ~World();

  // Empty if the run was clean, else what was violated: the invariant's name, a colon, the facts.
  std::string Run();
  uint64_t faults_injected() const { return faults_; }
  uint64_t events() const { return events_done_; }

 private:
  friend class Director;  // of a story
  friend class Explorer;
  // Wires to and from the coordinator go by connection, above all members' numbers.
  static constexpr uint64_t kConnectionBase = 1000;
  // What a run may take before it is called endless.
  static constexpr uint64_t kEventsMax = 400'000;
  static constexpr TimeNs kTimeMax = 20 * kSecond;
  struct Node;
  struct Use;
  // When something happens; and in which lane, if it comes over a wire or is a process's own: what
  // is in one lane keeps its order whatever the times are, and changes nothing but `object`.
  struct When {
    When(TimeNs time) : at(time) {}  // NOLINT: a time alone is one
    When(TimeNs time, uint64_t in_lane, uint64_t changes)
        : at(time), lane(in_lane), object(changes) {}
    TimeNs at;
    uint64_t lane = 0;    // 0: nothing but the time says when
    uint64_t object = 0;  // a member's number, or 0 for the coordinator
  };
  struct RelayHost;
  struct LineEnd {  // the lower end of a connection between a relay and what it stands behind
    RelayHost* relay = nullptr;
    membership::LineId line = 0;
    uint64_t life = 0;
    MemberId unit;  // who speaks there
  };
  // Something that happens at a time. With a host it happens inside that process: not if it is
  // dead, and not before it runs again if it is stopped. `from`: over the wire from that node,
  // which may be cut by then.
  struct Scheduled {
    Action run;
    Node* host = nullptr;
    uint64_t from = 0;
    bool in_lane = false;
  };
  struct Turn {
    TimeNs at;
    uint64_t order;
    uint32_t slot;
    bool operator>(const Turn& other) const {
      return at != other.at ? at > other.at : order > other.order;
    }
  };
  struct Rest {
    bool just_woken = false;  // by its own timer, and nothing else has come since
    int in_a_row = 0;         // so often it was, only to be woken at once again
  };
  // A coordinator's machine and where it runs. In hosted weather each member has a place for one.
  struct Seat {
    std::unique_ptr<membership::CoordinatorMachine> machine;
    Node* host = nullptr;  // null: a process of its own
    uint64_t life = 0;
    TimeNs wake = kNever;
    Rest rest;
  };
  struct Connection {
    Node* member = nullptr;
    Seat* seat = nullptr;
    uint64_t life = 0;  // of the seat
  };
  enum class Carries { kWord, kAck, kData, kUrgentData };
  struct Wire {
    TimeNs free = 0;         // everything has arrived by then
    TimeNs word_free = 0;    // every word and ack has
    TimeNs urgent_free = 0;  // and the urgent data
  };

  // world.cc: clock, nodes, wires
  void Schedule(When when, Node* host, uint64_t from, Action run);
  void At(When when, Action run) { Schedule(when, nullptr, 0, std::move(run)); }
  void After(TimeNs delay, Action run) { At(now_ + delay, std::move(run)); }
  void AtNode(Node& host, When when, Action run) { Schedule(when, &host, 0, std::move(run)); }
  bool RunNext();
  void RunSlot(uint32_t slot);
  TimeNs Delay(uint64_t from, uint64_t to);
  TimeNs WorkTime();
  Wire& WireOf(uint64_t from, uint64_t to) { return wires_[from << 32 | to]; }
  When WireTime(uint64_t from, uint64_t to, Carries carries = Carries::kWord);
  uint64_t ObjectAt(uint64_t end) const;
  // The lanes of what a member does by itself: its user, its reductions.
  static When OfUser(const Node& node, TimeNs at);
  static When OfWork(const Node& node, TimeNs at);
  Node& AddNode(int replica, int shard);
  Node* Find(MemberId id);
  void Feed(Node& node, engine::Event event);
  void CheckRests(Rest* rest, TimeNs deadline, const std::string& who);
  void Step(Node& node, const engine::Event& event);
  void Drain(Node& node);
  void GoOn(Node& node);
  void CarryOut(Node& node, engine::Ready ready);
  void CarryWord(Node& node, engine::PeerMessage& message);
  void CarryTodo(Node& node, GroupKey group, collective::Todo& todo);
  void NoteView(Node& node);
  std::string CheckMajority(const wire::View& view);
  bool IsForgotten(const wire::View& view) const;
  bool IsOfTheLeftBehind(const wire::View& view) const;
  struct Placed {  // a frame that arrives bit by bit
    MemberId from;
    wire::FrameHeader header;
    Buffer payload;
    std::shared_ptr<Landing> landing;  // once its receiver has given it a place
  };
  std::shared_ptr<Placed> LandEarly(const Node& node, Node& target, const wire::FrameHeader& header,
                                    const Buffer& payload, TimeNs arrival);
  std::string AcksTruly(Node& node, const wire::FrameHeader& header) const;
  void SendFrame(Node& node, const collective::SendFrame& frame);
  void OpenLane(Node& node, engine::Config* config);
  void Publish(Node& node, GroupKey group, const collective::Publication& said);
  TimeNs SeenMax() const;
  void TellOfLane(Node& node, TimeNs at);
  bool CallFast(Node& node);
  TimeNs SeenBy(const Node& writer, const Node& reader);
  void TellAllOfLane(Node& writer, TimeNs seen_at);
  void Tell(Node& node, GroupKey group, const collective::LaneWords& words);
  void PutAside(Node& node, GroupKey group, const collective::Work& work);
  void PublishFast(Node& node, const collective::LaneLine& line);
  void LookFast(Node& node, Seq seq);
  void LookAgain(Node& node, Seq seq, TimeNs at);
  bool ShareFast(Node& node, collective::FastLook found);
  void EndFast(Node& node, Seq seq, Buffer result);
  bool Reaches(const Node& target, MemberId sender) const;
  void Connect(Node& node, const wire::MemberCard& card);
  wire::WireCosts WireCosts(const Node& from, const Node& to) const;
  void Trace(const std::string& line) const;
  void TraceMessage(MemberId from, MemberId to, const wire::Message& message) const;
  void Fail(const std::string& what);
  void FailIf(const std::string& wrong) {
    if (!wrong.empty()) Fail(wrong);
  }
  std::string DescribeStuck(const Node& node) const;

  // coordinator_host.cc
  static std::string HostName(const Seat& seat);
  void StartCoordinator();
  void OpenSeat(Seat& seat);
  void FeedCoordinator(uint64_t conn, const membership::CoordinatorEvent& event);
  void FeedSeat(Seat& seat, const membership::CoordinatorEvent& event);
  void DrainSeat(Seat& seat);
  void WakeSeat(Seat& seat, TimeNs deadline);
  void CarryOrder(Node& node, uint64_t conn, std::shared_ptr<const wire::Message> message);
  void Excuse(const std::string& note);
  void CloseFromCoordinator(uint64_t conn);
  void Attach(Node& node);
  Node* NodeOf(uint64_t conn);
  void ToCoordinator(Node& node, wire::Message message);
  void Connected(Node& node, Seat& seat);
  void LoseConnection(Node& node);

  // hosting.cc: members that coordinate by turns
  void StepSuccession(Node& node, const membership::SuccessionEvent& event);
  void Pursue(Node& node);
  void Dial(Node& node, MemberId target);
  void Arrive(Node& node, Node* host, int redirects);
  void WatchSilence(Node& node);
  void NoteSuccessors(Node& node);
  void RetireSeat(Node& node);
  void CloseSeat(Seat& seat);
  bool Severed(const Node& a, const Node& b) const;
  void Part(Node& a, Node& b);
  Node* Host() const;
  bool QuorumIsLost() const;
  bool TooFew(const std::set<MemberId>& counted, const std::set<MemberId>& gone) const;
  std::shared_ptr<const wire::View> NewestView() const;
  bool IsLeftOut(const Node& node) const;
  bool HasLeftOut(const Node& node, MemberId id) const;
  std::vector<const Node*> StillCounted() const;
  std::vector<std::set<MemberId>> Sides() const;

  // relay_host.cc
  RelayHost& Standing(std::pair<int, int> own, std::pair<int, int> spare);
  RelayHost& RelayFor(const Node& node);
  RelayHost* UpperOf(const RelayHost& relay);
  MemberId SpeakerOf(uint64_t conn);
  void StartRelay(RelayHost& relay);
  RelayHost* RelayAbove(uint64_t conn);
  uint64_t LifeAbove(uint64_t conn);
  bool IsForRelay(const membership::CoordinatorEvent& event);
  void FeedRelay(RelayHost& relay, const membership::RelayLinesEvent& event);
  void OpenLine(const LineEnd& end);
  void NameUnit(const wire::Hello& hello);
  void CarryUp(uint64_t conn, wire::Message message);
  bool CarriedToRelay(uint64_t conn, const std::shared_ptr<const wire::Message>& message);
  bool ClosedToRelay(uint64_t conn);
  void LoseLine(const LineEnd& end, uint64_t conn);
  void HangUp(RelayHost& relay, membership::LineId line);
  void BreakLines(const RelayHost* above);
  void LoseRelay();
  void StopRelay();
  void LeaveRelay(Node& node, uint64_t conn);
  void CrashRelay(RelayHost& relay);

  // program.cc: what users do
  void Program(Node& node);
  void CallOrStep(Node& node);
  void AskForStep(Node& node);
  void NoteEnd(Node& node, engine::Phase phase);
  void CheckEnd();
  bool MayCall(Node& node, Use& use);
  bool StepIsOver(const Node& node, const Use& use) const;
  collective::OpSpec SpecOf(const Node& node, GroupKey group, Seq seq) const;
  void StartNext(Node& node, Use& use);
  TimeNs RestAfter(Seq seq) const;
  void OnStarted(Node& node, Use& use, Seq seq);
  void OnDelivered(Node& node, Use& use, const collective::Outcome& outcome);
  bool Finished() const;
  bool JobIsOver() const;
  bool MayEnter(const Node& newcomer) const;
  bool HasQuorum() const;

  // faults.cc
  void ScheduleFaults();
  void StrikeAtRandom(int times, void (World::*strike)());
  void StrikeLater(int times, void (World::*strike)());
  void KillOne();
  void StopOne();
  void HangOne();
  void JoinOne();
  void LeaveOne();
  void CutOne();
  void FlapOne();
  void Flap(Node& a, Node& b, TimeNs back);
  void HiccupOne();
  void Blackout();
  std::set<const Node*> SparedMembers();
  void StrikeUnheard();
  void CutOffCoordinator();
  void AbortOne();
  void StrandOne();
  void StrikeHost();
  void PartitionOne();
  void Abandon();
  void Ambush(const wire::Message& message);
  void Fade(const wire::Message& message);
  void DelayInstall(uint64_t conn);
  TimeNs BehindWords(uint64_t connection, TimeNs closed_at);
  void Kill(Node& node);
  bool MayEnd(const Node& node) const;
  void Stop(Node& node, TimeNs duration);
  void Continue(Node& node);
  void CutLink(Node& a, Node& b);
  void LoseCoordinator(Node& node, TimeNs closed_at, TimeNs down_after, TimeNs back_after);
  void RestartCoordinator();
  bool KnownToOthers(const Node& node) const;
  void Strike(Node& node);
  void StrikeReplica(int32_t replica);
  // A relay is lost or stands still, or was a moment ago.
  bool LacksRelay() const { return now_ < relay_lost_at_ + 60 * kMillisecond; }
  bool Parted() const;
  void StrikeFlapping();
  void Unquiet(TimeNs until) { quiet_at_ = std::max(quiet_at_, until); }
  void CalmDown();
  Node* Victim(bool spare_last);

  // aims.cc
  TimeNs LagBefore(const Node& node, Seq seq) const;
  void Clog(Node& from, Node& to, const wire::Message& message);
  void StrikeWhoFailed(Node& node);
  void StrikePlan(const wire::Message& message);

  const uint64_t seed_;
  const Weather weather_;
  const bool trace_;
  Random rng_;
  Random lanes_;  // for what goes through the lanes
  Random later_;  // for what came later, so that a seed's older part stays what it was
  TimeNs now_ = 0;
  LaneHost lane_host_{&now_};
  uint64_t order_ = 0, events_done_ = 0, faults_ = 0;
  std::vector<Turn> queue_;  // a heap
  std::deque<Scheduled> slots_;
  std::vector<uint32_t> free_slots_;
  int in_lanes_ = 0;  // so many of what is scheduled has a lane
  std::vector<std::unique_ptr<Node>> nodes_;
  std::unordered_map<uint64_t, Wire> wires_;
  std::set<std::pair<uint64_t, uint64_t>> cut_;
  std::set<std::pair<uint64_t, uint64_t>> torn_;  // from one who died, to whom nothing more comes
  Seat fixed_;                                    // of the coordinator that is a process of its own
  uint16_t incarnation_ = 0;
  uint64_t next_connection_ = 0;
  std::unordered_map<uint64_t, Connection> connections_;
  std::map<std::pair<int, int>, RelayHost> relays_;  // by replica and unit; see relay_host.cc
  std::unordered_map<uint64_t, std::pair<RelayHost*, uint64_t>> below_relays_;  // and its life
  std::unordered_map<uint64_t, LineEnd> line_ends_;
  std::map<MemberId, std::vector<MemberId>> units_;  // behind relays, by the name of all
  TimeNs relay_lost_at_ = -kSecond, recovered_by_ = 0;
  std::set<std::pair<uint64_t, uint64_t>> parted_;  // a story's
  uint64_t side_ = 0;  // of a partition: bit i for the node with index i
  TimeNs severed_until_ = 0;
  bool host_struck_ = false;
  std::vector<std::byte> disk_;  // what the coordinator has recorded
  std::map<GroupKey, Agreement> agreement_;
  std::map<GroupKey, Fencing> fencing_;
  Views views_;
  Steps steps_;
  Majority majority_;
  std::unique_ptr<Director> director_;  // null without a story
  Explorer* explorer_ = nullptr;        // null where times decide what comes next
  std::string failure_;
  int ambushes_left_ = 0, late_installs_left_ = 0, fades_left_ = 0;
  int clogs_left_ = 0, failure_deaths_left_ = 0, plan_strikes_left_ = 0;
  std::vector<std::pair<Node*, Node*>> flapping_;
  TimeNs flapping_until_ = 0, blackout_until_ = 0, cut_off_until_ = 0;
  Node* stray_ = nullptr;  // evicted, or about to be, and out of the coordinator's reach
  TimeNs quiet_at_ = 0;    // the last fault has shown by then
  Epoch newest_ = 0;       // of all views that anybody has installed
  bool calm_ = false;
  bool look_again_ = false;             // something happened that may end the run
  bool begun_ = false, ended_ = false;  // somebody was in a view; the coordinator saw the last go
  Seq goal_ = 0, urgent_goal_ = 0;      // what everybody must have delivered at the end
};

}  // namespace ftar::sim

#endif  // FTAR_TESTS_SIM_WORLD_H_
