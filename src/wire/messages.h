// Control messages between members and the coordinator, and between members.
//
// Plain structs, one a message, gathered in the variant Message; codec.h turns a Message into bytes
// and back (FlatBuffers, verified before it is read). A decoded message is well formed, not
// trustworthy: indexes and counts are checked where used. Senders and receivers are given by the
// connection, which is authenticated; messages do not repeat them.
#ifndef FTAR_WIRE_MESSAGES_H_
#define FTAR_WIRE_MESSAGES_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "wire/view.h"

namespace ftar::wire {

// ---- shared parts

// What a member knows of views (rule Q2). `installed_view` is absent from a newcomer.
struct Report {
  Epoch promised = 0;
  std::vector<MemberId> promised_members;  // survivors and newcomers of the promised Prepare
  Epoch installed = 0;
  std::optional<View> installed_view;
  Epoch formed = 0;  // the highest view that it knows all members of which have installed (rule Q4)
  bool in_part = false;  // a relay's: not all behind it have installed that

  // By all of whom this is the report.
  Epoch installed_by_all() const { return in_part ? 0 : installed; }
};

// Why a member is out. `culprit_text` is written for the user: member, host, link, stage, last
// progress and why.
struct Loss {
  MemberId member;
  int32_t replica = -1;
  int32_t shard = -1;
  std::string host;
  Code cause = Code::kPeer;
  std::string stage;  // "process watch", "control connection", "link", "silence", "stuck",
                      // "self-report", "operator"
  int64_t last_progress_ns = 0;
  std::string text;
  Seq seq = kNoSeq;  // of the operation in which it failed the others, if it is about one

  // Whose loss it is, not why.
  void Name(const MemberCard& card);
};
Loss LossOf(const MemberCard& card, Code cause = Code::kPeer, std::string stage = {},
            std::string text = {});

// The call a member made, compared between members (rule V5). `digest` in frame headers is
// SignatureDigest of it.
struct Signature {
  uint8_t kind = 0;   // ftarKind_t
  uint8_t dtype = 0;  // ftarDtype_t
  uint8_t redop = 0;  // ftarRedop_t
  uint8_t flags = 0;  // kSignatureStrict
  uint8_t plan = 0;   // plan::PlanKind the caller forced, 0 if the library chooses
  uint8_t element_bytes = 4, accumulator_bytes = 4;  // follow from dtype and redop; not compared
  uint64_t count = 0;  // elements of the allreduce or broadcast, of one segment otherwise
  uint64_t step = 0;
  MemberId root;  // broadcast only
  uint64_t layout =
      0;  // reduce-scatter, all-gather: the epoch whose ranks own the segments (rule F7)
  double scale = 1;
  uint32_t window = 0;  // the group's
  bool operator==(const Signature&) const = default;
};
inline constexpr uint8_t kSignatureStrict =
    1;  // rule V8: undelivered operations of the step share one participant set
uint64_t SignatureDigest(const Signature& signature);
// Why no operation can be made of a call that somebody else has described; null: one can.
const char* SignatureFault(const Signature& signature);
bool HasSegments(const Signature& signature);  // of a layout's members: rule F7
// The first field in which two calls differ, as users write it ("count 8 against 16"); empty if
// they are equal. `name` says who a member is.
std::string SignatureDifference(const Signature& a, const Signature& b,
                                const std::function<std::string(MemberId)>& name = ToString);

// ---- member to coordinator

struct Hello {  // first message of every control connection, also after a reconnect
  uint16_t wire_version = 0;
  std::string job;
  MemberCard card;
  int32_t replicas = 0, shards = 0, min_replicas = 0;
  std::vector<std::string>
      agreed_config;  // "name=value", sorted: knobs on which members must agree
  Report report;
  // Of a relay, which speaks for all behind it as if they were one member: an encoded Behind.
  // Empty: a member that speaks for itself.
  std::string roster;
};
struct LinksUp {  // the newcomer holds links to these, too
  std::vector<MemberId> peers;
  WireCosts wire = {};  // of all that it holds
};
struct Refuse {  // rules Q2, Q3: this Prepare is not promised; here is what was
  Epoch epoch = 0;
  Report report;
};
struct BoundOf {
  MemberId member;
  Bound first;
  Bound last;
  bool fresh_first =
      false;  // chosen for this view: the coordinator takes the latest over all columns (rule J4)
  bool fresh_last = false;
};
struct Decided {  // a column's leader has verdicts and bounds for its members
  Epoch epoch = 0;
  int32_t shard = 0;
  std::vector<BoundOf> bounds;
};
struct Installed {
  Epoch epoch = 0;
};
struct Reserved {  // a root's answer to Propose: the earliest boundary it can keep (rules J3, J4)
  Epoch epoch = 0;
  int32_t shard = 0;
  bool idle = false;  // nothing in flight in any of its groups
  Bound earliest;
};
struct Confirmed {  // the newcomer holds the announced-to-be view and waits (rule J3)
  Epoch epoch = 0;
};
struct Announced {  // a root has put the announcement on its links
  Epoch epoch = 0;
  int32_t shard = 0;
};
struct GroupProgress {
  GroupKey group = 0;
  Seq called_end = 0, delivered_end = 0;
  uint64_t counter = 0;             // grows with every chunk moved or reduced
  std::vector<MemberId> waits_for;  // whose data the oldest undelivered operation lacks
};
struct Heartbeat {
  Epoch installed = 0;
  std::vector<GroupProgress> groups;
};
enum class EvidenceKind : uint8_t {
  kProcessExited = 1,  // proof (rule Q4): lock word, pidfd, launcher
  kLinkLost = 2,       // an edge: the reporter cannot reach the subject (rule Q7)
  kLinkRestored = 3,
  kSelfReport = 4,  // subject is the reporter
  kOperator = 5,    // ftarJobEvict
  kDeadline = 6,    // an operation's deadline passed and the subject has not contributed
};
struct Evidence {
  EvidenceKind kind = EvidenceKind::kLinkLost;
  MemberId subject;
  Code code = Code::kPeer;
  int64_t last_progress_ns = 0;
  std::string text;
  Seq seq = kNoSeq;  // kDeadline: of that operation
};
struct AskPrepare {  // rule V5: calls disagree; Prepare with the same members
  Epoch epoch = 0;
  GroupKey group = 0;
  Seq seq = 0;
};
struct LeaveRequest {};
struct Goodbye {  // the member is gone after this: released leaver, abort, or terminal error (rule
                  // Q8)
  Code code = Code::kLeft;
  std::string text;
};

// ---- coordinator to member

struct Welcome {  // accepted as a newcomer; connect to these
  std::vector<MemberCard> peers;
};
struct Rejected {  // not admitted, final
  Code code = Code::kConfig;
  std::string argument;
  std::string text;
};
struct Connect {  // newcomer: also connect to these
  std::vector<MemberCard> peers;
};
struct Prepare {
  Epoch epoch = 0;
  Epoch base = 0;                   // the view whose replicas the quorum was counted over (rule Q4)
  std::vector<MemberId> survivors;  // subset of what each was last promised (rule Q3)
  // Survivors and newcomers in list order, the order of the view to come. Bounds are the leaders'
  // to fill; an entry whose last.kind is kAlways asks to leave: the leader chooses the earliest
  // end.
  std::vector<ViewEntry> members;
  uint32_t leader_turn = 0;  // rule V10: rotates the leader on a repeated Prepare
  std::vector<Loss> lost;
};
struct Install {
  View view;
  std::vector<Loss> lost;
};
struct Propose {  // to each column's root: reserve a boundary for this planned view
  View view;
};
struct Confirm {  // to newcomers of a planned view, bounds filled
  View view;
};
struct Announce {  // coordinator to roots; root to its column (rule J3). Bounds filled.
  View view;
};
struct VoidPlan {  // the planned view will not come
  Epoch epoch = 0;
};
struct Evicted {
  Epoch epoch = 0;
  Loss reason;
  bool awaits_goodbye = false;  // it counts for a majority until it has said so (Q5)
};
struct CoordinatorBeat {
  Epoch formed = 0;  // hosted: the view all of whose members have installed it; 0: not known of any
  bool away = false;  // a relay's: it has no coordinator, so nobody decides for now
};
struct LateNotice {  // others wait for this member in an operation it has not entered (design 5)
  MemberId member;
  GroupKey group = 0;
  Seq seq = 0;
  int64_t since_ns = 0;  // how long already
};
struct NoQuorum {  // the coordinator sees the losses but may not number a view
  std::string text;
};

// ---- member to member

// What an operation's first attempt has settled for all later ones (rule F5).
struct Origin {
  std::vector<MemberId> members;  // chunk owners stay while they live
  uint64_t piece_bytes = 0;       // of the chunk grid; 0: none has begun
  bool operator==(const Origin&) const = default;
};
struct OpStatus {
  Seq seq = 0;
  Epoch attempt = 0;
  bool complete = false;
  bool retriable = true;
  uint32_t chunks = 0;
  std::vector<uint64_t> final_chunks;  // bit c: chunk c is final here, in `attempt`
  Signature signature;
  double weight = 1;
  Origin origin;
};
enum class VerdictKind : uint8_t { kCommit = 1, kSalvage = 2, kRetry = 3, kFail = 4 };
struct Verdict {
  Seq seq = 0;
  VerdictKind kind = VerdictKind::kRetry;
  Epoch attempt =
      0;  // commit, salvage; fail: the view that failed it, which is what users are told
  Code code = Code::kOk;  // fail
  std::string text;       // fail: names two members and the field
  MemberId culprit;
  std::vector<int32_t> holders;  // salvage: for each chunk the rank (in the column, in the new
                                 // view's list) that serves it
  Origin origin;                 // salvage, retry
};
struct GroupStatus {
  GroupKey group = 0;
  Seq called_end = 0;  // next seq this member would begin
  Seq first_seq = 0;  // this member's first operation; delivered_end counts only above it (rule J2)
  Seq delivered_end = 0;
  Seq queued_end = 0;         // behind the user's last call, which may wait for the window; kNoSeq:
                              // does not know its first operation
  std::vector<OpStatus> ops;  // called and not delivered, in seq order
  std::vector<Verdict> failed;  // recent operations that this member knows to have failed,
                                // delivered or not (rule V5)
};
struct StepMark {  // root to column: it has begun this step; first seq of the step in each group
  Epoch era = 0;
  uint64_t step = 0;
  std::vector<SeqBound> starts;
  int32_t joined = -1;  // at its boundary, and who was here before (invalid: nobody); -1: not known
  MemberId source;
  Epoch layout = 0;  // of the view that names ranks in this step (rule F7); 0: not known
};
struct ColumnStatus {  // answer to Prepare, member to column leader
  Epoch epoch = 0;
  Report report;
  std::vector<View> views;  // views that attempts in `groups` belong to
  uint64_t step = 0;        // highest step begun, 0: none
  bool steps_marked = false;
  std::vector<GroupStatus> groups;
  std::vector<StepMark> marks;  // the newest steps that it knows the beginning of
};
struct GroupVerdicts {
  GroupKey group = 0;
  Seq called_end = 0;  // the highest of all survivors
  Seq queued_end = 0;  // the same of those who know their first operation; kNoSeq: nobody does
  std::vector<Verdict> verdicts;
};
struct ColumnVerdicts {  // leader to its column
  Epoch epoch = 0;
  uint64_t step = 0;        // the highest step that any survivor has begun
  std::vector<View> views;  // of all attempts named below
  std::vector<GroupVerdicts> groups;
  std::vector<StepMark> marks;  // of all survivors, by step
};
struct AskVerdicts {  // rule V10: frozen and hearing nothing
  Epoch epoch = 0;
};
struct KeptOp {
  GroupKey group = 0;
  Seq seq = 0;
  std::vector<uint32_t>
      chunks;  // raw pieces of the addressee that are whole and checksummed here (rule F5)
};
struct Credit {  // rule F2: data of this era may come
  Epoch era = 0;
  std::vector<KeptOp> kept;
};
struct Want {  // salvage: send me these chunks of an attempt that you hold
  Epoch era = 0;
  GroupKey group = 0;
  Seq seq = 0;
  Epoch attempt = 0;
  std::vector<uint32_t> chunks;
};
struct CallNotice {  // root to a leaver: the column has called this; stand in for your caller (rule
                     // J5)
  Epoch era = 0;
  GroupKey group = 0;
  Seq seq = 0;
  Signature signature;
  std::vector<MemberId> layout_members;  // rule F7
};
struct Release {  // rule J5: all know the leaver's last operation stable and hold the view without
                  // it
  Epoch epoch = 0;
};
struct LeaveReady {  // member to root: delivered everything before the leaver's bound and installed
                     // the view; leaver to all of its column: installed it (rule J5)
  Epoch epoch = 0;
  std::vector<SeqBound> called;  // leaver: behind its last call; without a group, it may call more
};

// ---- about those behind a relay (membership/relay_machine.h)

// Who stands behind a unit of this column, before its name appears anywhere else. The coordinator
// passes `bytes` on unread: an encoded Behind.
struct Roster {
  MemberId unit;
  std::string bytes;
};
// Never sent by itself: what Hello and Roster carry.
struct Behind {
  std::vector<MemberCard> cards;     // by shard
  std::vector<std::string> rosters;  // of those that are relays themselves, else empty; as many
};

// ---- where the coordinator is, in a job where any member may be it (rule Q5)

// The first message on every connection that a member's server has accepted; and, with `leaves`,
// the last one of a coordinator that hands over. Behind relays, with `leaves` alone: the last one
// of a member that has found another relay (`address`), and to a relay on a line whose place
// another one has taken.
struct Redirect {
  Epoch epoch = 0;      // of the newest view that the speaker's member holds; 0: none
  MemberId host;        // who coordinates, by what the speaker knows; invalid: nobody
  std::string address;  // of that one's server, as in MemberCard.addresses; may be empty
  bool here = false;    // it is the speaker: Hello may follow
  bool leaves = false;  // the speaker coordinates no longer, and `host` is the next
};

using AnyMessage =
    std::variant<Hello, LinksUp, Refuse, Decided, Installed, Reserved, Confirmed, Announced,
                 Heartbeat, Evidence, AskPrepare, LeaveRequest, Goodbye, Welcome, Rejected, Connect,
                 Prepare, Install, Propose, Confirm, Announce, VoidPlan, Evicted, CoordinatorBeat,
                 LateNotice, NoQuorum, ColumnStatus, ColumnVerdicts, AskVerdicts, Credit, StepMark,
                 Want, CallNotice, Release, LeaveReady, Roster, Behind, Redirect>;
// Every file that copied a variant of so many would compile all their copies, for seconds: these
// are in messages.cc.
struct Message : AnyMessage {
  using AnyMessage::AnyMessage;
  Message();
  Message(const Message& other);
  Message(Message&& other) noexcept;
  Message& operator=(const Message& other);
  Message& operator=(Message&& other) noexcept;
  ~Message();
};

}  // namespace ftar::wire

#endif  // FTAR_WIRE_MESSAGES_H_
