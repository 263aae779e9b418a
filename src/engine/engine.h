// One member as a pure machine: membership and all its groups' operations. The runtime and the
// simulator both drive exactly this. Input is Step(now, event); output is TakeReady(), which lists
// what to do, in order, and when to call again.
//
// Contract for the driver, written here because it is part of the protocol:
//  - take note of `started` first: `todo` names operations by the seq given there;
//  - carry out `todo` in order and answer each kWork by WorkDone, before or after the next event,
//  in any order;
//  - peer frames on one link arrive in order, but that acks may pass data, each once, as long as
//  the link is up (transport.h);
//  - a frame of a peer that `revoke` named is never delivered afterwards;
//  - `to_coordinator` may be dropped while the connection is down; after a reconnect feed
//  CoordinatorUp, which makes the
//    machine introduce itself again.
// Single-threaded; no clock, no memory of the user's.
#ifndef FTAR_ENGINE_ENGINE_H_
#define FTAR_ENGINE_ENGINE_H_

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "collective/types.h"
#include "wire/messages.h"

namespace ftar::engine {

struct Config {
  std::string job;
  wire::MemberCard self;  // addresses already known
  int32_t replicas = 1, shards = 1, min_replicas = 1;
  std::vector<std::string> agreed_config;
  TimeNs timeout_ns = 10 * kSecond;
  TimeNs heartbeat_ns = 0;        // 0: timeout / 10
  bool solo = false;              // one replica, one shard, no coordinator: a view of one, at once
  collective::GroupConfig group;  // template; key is filled in
};

// ---- events
struct CoordinatorUp {};
struct CoordinatorDown {};
struct FromCoordinator {
  wire::Message message;
};
struct FromPeer {
  MemberId from;
  wire::Message message;
};  // kControl frames, decoded
struct FrameArrived {
  collective::InboundFrame frame;
};  // all other frames
struct LinkIsUp {
  MemberId peer;
  wire::WireCosts wire = {};  // of this link; all 0 where it is none
};
struct LinkIsDown {
  MemberId peer;
  Code code;
  std::string text;
};
struct PeerExited {
  MemberId peer;
};  // proof
struct WorkDone {
  GroupKey group;
  uint64_t id;
};
struct WorkSpoiled {
  GroupKey group;
  uint64_t id;
};  // it has read lent payload that was taken back
struct OpenGroup {
  GroupKey group;
  Seq window = 0;        // 0: the job's
  int32_t priority = 0;  // what the group wants comes before what less urgent ones do
};
struct StartOp {
  GroupKey group;
  collective::OpSpec spec;
  uint64_t handle;
};  // seq comes back as Started
struct BeginStep {
  int64_t step = -1;
  bool strict = false;
};  // answered by StepBegun
struct WithdrawStep {};  // as if BeginStep had not been asked for; if it is unanswered
struct RequestLeave {};
struct AbortSelf {
  Code code;
  std::string text;
};  // this member goes now (rule Q8)
struct ReportSelf {
  Code code;
  std::string text;
};
struct EvictPeer {
  MemberId peer;
  std::string text;
};
struct Tick {};
using AnyEvent =
    std::variant<CoordinatorUp, CoordinatorDown, FromCoordinator, FromPeer, FrameArrived, LinkIsUp,
                 LinkIsDown, PeerExited, WorkDone, WorkSpoiled, OpenGroup, StartOp, BeginStep,
                 WithdrawStep, RequestLeave, AbortSelf, ReportSelf, EvictPeer, Tick>;
struct Event : AnyEvent {  // see wire::Message
  using AnyEvent::AnyEvent;
  Event();
  Event(const Event& other);
  Event(Event&& other) noexcept;
  Event& operator=(const Event& other);
  Event& operator=(Event&& other) noexcept;
  ~Event();
};

// ---- results
using collective::GroupTodo;
struct PeerMessage {
  MemberId to;
  wire::Message message;
};
struct Started {
  uint64_t handle;
  GroupKey group;
  Seq seq;
};  // kNoSeq and a status: refused (left, evicted)
struct StepBegun {
  Code status = Code::kOk;
  int64_t step = 0;
  Epoch epoch = 0;  // of the view that names ranks in this step (F7): source is one of its
  int32_t participants = 0, joined = 0, left = 0, source = -1, rank = -1;
  double weight_sum = 0;
  Epoch as_of = 0;  // of the view that this member had; of all who are gone in it `left` tells
};
// What people and programs are told; translated to ftarEvent and to log lines by the runtime.
struct Notice {
  enum class Kind {
    kView,
    kJoined,
    kLeft,
    kLost,
    kLate,
    kLinkDown,
    kLinkUp,
    kCoordinatorDown,
    kCoordinatorUp,
    kEvicted,
    kQuorum
  };
  Kind kind = Kind::kView;
  Epoch epoch = 0;
  wire::Loss loss;  // kLost, kEvicted, kLinkDown; member and text elsewhere
  wire::LateNotice late;  // seq kNoSeq: has not begun the step that this member is in
};
enum class Phase { kJoining, kMember, kLeaving, kLeft, kEvicted, kAborted, kRejected };
// This member is out, for good.
constexpr bool IsOver(Phase phase) { return phase >= Phase::kLeft; }

struct Ready {
  std::vector<wire::Message> to_coordinator;
  std::vector<PeerMessage> to_peers;  // control frames; sent before the frames of `todo`
  std::vector<GroupTodo> todo;
  std::vector<wire::MemberCard> connect;  // dial these
  std::vector<MemberId>
      revoke;  // forget these now, before anything in to_coordinator or to_peers is sent (F2)
  // Links to members that are none here have ended; nothing of them is needed, and they may dial
  // again.
  std::vector<MemberId> forget;
  std::vector<Started> started;
  std::optional<StepBegun> step;
  std::vector<Notice> notices;
  bool view_changed = false;  // view() is new
  TimeNs next_deadline = kNever;
  // More than the groups' daily business.
  bool decides() const {
    return !to_coordinator.empty() || !to_peers.empty() || !connect.empty() || !revoke.empty() ||
           !forget.empty() || step || !notices.empty() || view_changed;
  }
  bool empty() const { return !decides() && todo.empty() && started.empty(); }
  void Clear();  // keeps the memory
};

class Engine {
 public:
  explicit Engine(Config config);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  void Step(TimeNs now, const Event& event);
  // Into `ready`, whose memory is used again: a new one, or what was taken before, after Clear.
  void TakeReady(Ready* ready);
  Ready TakeReady();

  // The fast path: an operation that needs nothing but the lane (collective/lane.h), called, made
  // and delivered without an event. StartFast takes the call, or does not, and then it is to be
  // made by StartOp; to be asked when there is nothing left to be taken. The host publishes the
  // line and looks; all lines there, it makes the result as fast_work() says, where the user must
  // not see it yet if the operation is in place, and asks for the end: an outcome to be delivered,
  // or none. What is shared (FastCall::shows) it makes bit by bit, in the user's output; in place
  // what is written over is saved first, as kAdopt may ask for it, or sums wait elsewhere, until
  // the end or kAdopt. Any event and TakeReady come in between: they stop the fast path, and the
  // operation is one like any other, with the number in its line. No `started` tells of it.
  bool StartFast(GroupKey group, const collective::FastCall& call, collective::LaneLine* line);
  // StartFast in less time: takes the call if it is like the last one taken, and that went in one
  // pass as the one before it did, and the engine was told nothing since. It needs no memory, and
  // `line` is that one's.
  bool RecurFast(GroupKey group, const collective::FastCall& call, collective::LaneLine* line);
  bool in_fast() const;
  // Whether a call like this might be shared now, if it were shown.
  bool WouldShare(GroupKey group, const collective::OpSpec& spec);
  Seq next_seq(GroupKey group) const;  // of its next call; kNoSeq: it has made none
  std::span<const int> fast_lanes() const;  // its members' segments
  // Of a shared one: the chunks that others sum, one after the other.
  std::span<const plan::Chunk> fast_others() const;
  // Between the line and the first look, if the host likes, since there is time then: fast_work()
  // says what makes the result if the others call what they called last. False: it says nothing.
  // `now`: the call's start, and its end if that comes soon.
  bool ForeseeFast(TimeNs now);
  collective::FastLook LookFast(TimeNs now);
  const collective::Work& fast_work() const;  // of its group, while it is in the fast path
  collective::LaneRoom fast_room() const;  // how it goes
  // Of one that is shared, after each kShare and kTell: the words that the host publishes at once.
  collective::LaneWords SharedFast();
  // `start`: when the call was made, as well as its caller knows.
  const collective::Outcome* EndFast(TimeNs start, TimeNs now);

  Phase phase() const;
  Status phase_status() const;                     // why kEvicted, kAborted, kRejected
  std::shared_ptr<const wire::View> view() const;  // null while joining; of the whole job
  // The group's members as of its next call, in rank order: the same on all members for the same
  // call (rules F6, F7).
  std::shared_ptr<const wire::View> group_view(GroupKey group) const;
  // The same by the view of StepBegun::epoch, for the calls of the step that runs; null: none does.
  std::shared_ptr<const wire::View> step_view(GroupKey group) const;
  // Who may coordinate, in the order in which they take over (rule Q5): of the view, or of the
  // first one as it was promised.
  std::vector<wire::MemberCard> successors() const;
  // What they depend on: as long as it is the same, so are they.
  struct SuccessorsOf {
    std::shared_ptr<const wire::View> view;
    Epoch promised = 0;
    bool operator==(const SuccessorsOf&) const = default;
  };
  SuccessorsOf successors_of() const;
  bool coordinator_up() const;  // false also where a relay is up that has none
  bool quorum_lost() const;  // the coordinator sees losses and may not act
  // Q4: the coordinator that it has, or had last, has shown that it has a quorum, and not said
  // since that it has none.
  bool led() const;
  bool changing() const;  // frozen: a Prepare is promised and not installed

  struct GroupInfo {
    Seq first_seq = 0, next_seq = 0, called_end = 0, delivered_end = 0;
    Epoch epoch = 0;
    size_t in_flight = 0, queued = 0;
  };
  std::optional<GroupInfo> group_info(GroupKey group) const;
  // Whether TakeReady would find something in the lane (collective/lane.h), of which no event
  // tells. Cheap: to be asked in every poll, and before the caller sleeps.
  bool HasLaneNews();
  // Whether some operation is under way: else nothing that others write to the lane concerns this
  // member now.
  bool HeedsLane() const;
  // Where the payload of an arriving frame may be written before all of it is here, and is known to
  // be what its sender sent: nothing that lies there is needed any more. Until kCancelSends of its
  // operation.
  std::optional<collective::BufferRef> LandingOf(MemberId from,
                                                 const wire::FrameHeader& header) const;
  // For the test hook and the flight recorder: where the oldest undelivered op of a group stands.
  const char* OpStage(GroupKey group, Seq seq) const;
  wire::Heartbeat progress() const;

  class Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

// The coordinator-independent rule for a group's key: the name's hash, the same in all columns.
GroupKey KeyOf(const std::string& group_name);

}  // namespace ftar::engine

#endif  // FTAR_ENGINE_ENGINE_H_
