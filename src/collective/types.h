// What the collective machines say and hear, as values. Nothing here holds a pointer to user
// memory: operations and buffers are named by number, so that the same machine runs over real bytes
// and over the simulator's symbols.
#ifndef FTAR_COLLECTIVE_TYPES_H_
#define FTAR_COLLECTIVE_TYPES_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "collective/lane.h"
#include "plan/grid.h"
#include "plan/role.h"
#include "wire/frame.h"
#include "wire/messages.h"
#include "wire/view.h"

namespace ftar::collective {

// An operation as its caller described it; validated by the API.
struct OpSpec {
  plan::Kind kind = plan::Kind::kAllReduce;
  uint8_t dtype = 0;
  uint8_t redop = 0;
  uint32_t element_bytes = 4;
  uint32_t accumulator_bytes = 4;  // of a partial sum's element
  uint64_t count = 0;              // elements; of one segment for reduce-scatter and all-gather
  bool in_place = false;           // send == recv
  plan::PlanKind plan = plan::PlanKind::kAuto;
  MemberId root;  // broadcast
  Epoch layout =
      0;  // rule F7: the view whose members own the segments of a reduce-scatter or all-gather,
  std::vector<MemberId> layout_members;  // in rank order
  double weight = 1;                     // sampled now, kept for all attempts (rule V7)
  double scale = 1;
  bool strict = false;     // rule V8
  TimeNs timeout_ns = 0;   // after which the late become suspects; 0: none
  uint64_t tag = 0;        // the caller's, unread
  bool on_device = false;  // its buffers are; it does not go through the lane
};

// Where bytes are. `id`: the op's seq for kSend and kRecv, the staging number, the inbound frame's
// number, LaneInput's number of a member's input in its lane.
struct BufferRef {
  enum class Kind : uint8_t { kNone, kSend, kRecv, kStaging, kInbound, kLane };
  Kind kind = Kind::kNone;
  uint64_t id = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

struct SourceRef {
  BufferRef buffer;
  bool partial = false;  // already in the accumulator's type, weighted
  double weight = 1;
};

// A frame for a peer. `payload`, which is no inbound frame's, is read until the op is cancelled or
// the transport says sent; with `copied` not even that long.
struct SendFrame {
  MemberId to;
  bool copied = false;
  wire::FrameHeader header;
  std::vector<std::byte> ext;
  BufferRef payload;
};

// Work on bytes, done in the order given. The host answers WorkDone(id) for each; results count
// only then. What has read a lent payload that was taken back meanwhile it answers with
// WorkSpoiled(id).
struct Work {
  enum class Kind : uint8_t {
    kReduceFinal,    // dst = round(scale * sum / divisor)
    kReducePartial,  // dst = sum, in the accumulator's type
    kCopy,           // dst = source 0
    kExchange,       // dst and source 0, which is staging, change places
    kZero,           // dst = 0
  };
  uint64_t id = 0;
  Kind kind = Kind::kCopy;
  Seq seq = 0;
  uint8_t dtype = 0, redop = 0;
  std::vector<SourceRef> sources;  // in the order of addition, none with weight 0
  BufferRef dst;
  uint64_t count = 0;
  double divisor = 1, scale = 1;
  bool shown = false;  // a sum of a shared operation that the others read where it lies
};

struct Participant {
  MemberId id;
  int32_t rank = 0;  // in the attempt's list
  int32_t replica = 0, shard = 0;
  double weight = 1;
  bool operator==(const Participant&) const = default;
};

struct Outcome {
  Code status = Code::kOk;
  std::string text;  // what the verdict says when it is not OK
  MemberId culprit;
  Epoch epoch = 0;  // of the attempt that was delivered
  Seq seq = 0;
  uint64_t tag = 0;
  std::vector<Participant> members;  // all of the attempt, weight 0 included
  int32_t participants = 0;          // with weight > 0
  double weight_sum = 0;
  int32_t attempts = 0;
  plan::PlanKind plan = plan::PlanKind::kAuto;
  uint64_t bytes_resent = 0;
  TimeNs start_ns = 0, complete_ns = 0, delivered_ns = 0, arrival_skew_ns = 0;
  MemberId slowest;
  // Not 0: the group's outcomes with this number differ in seq, tag and the three times alone.
  uint64_t alike = 0;

  // What most outcomes differ in alone.
  struct Moment {
    Seq seq = 0;
    uint64_t tag = 0;
    TimeNs start_ns = 0, complete_ns = 0, delivered_ns = 0, arrival_skew_ns = 0;
    MemberId slowest{};
  };
  Moment moment() const {
    return {seq, tag, start_ns, complete_ns, delivered_ns, arrival_skew_ns, slowest};
  }
  void Set(const Moment& moment) {
    seq = moment.seq;
    tag = moment.tag;
    start_ns = moment.start_ns;
    complete_ns = moment.complete_ns;
    delivered_ns = moment.delivered_ns;
    arrival_skew_ns = moment.arrival_skew_ns;
    slowest = moment.slowest;
  }
  // Whether the moment is all that they differ in.
  bool SameButMoment(const Outcome& other) const {
    const auto rest = [](const Outcome& one) {
      return std::tie(one.epoch, one.status, one.participants, one.weight_sum, one.attempts,
                      one.plan, one.bytes_resent, one.culprit, one.text, one.members);
    };
    return rest(*this) == rest(other);
  }

  // A copy, which is cheap where little differs.
  void Become(const Outcome& other) {
    if (alike == 0 || alike != other.alike) return BecomeAnother(other);
    Set(other.moment());
  }

 private:
  // Kept apart from where it is seldom needed, and needs registers.
  [[gnu::noinline]] void BecomeAnother(const Outcome& other) { *this = other; }
};

// What a member says of a shared operation beside its line (lane.h).
struct LaneWords {
  Seq seq = 0;
  uint64_t made = 0;
  bool done = false;
  bool operator==(const LaneWords&) const = default;
};

// This member's line of an operation, and its input, as they go into its lane.
struct Publication {
  LaneLine line;
  BufferRef input;
};

// One step's list of things to do, in this order: staging is allocated, then work and frames in the
// order of `todo`.
struct Todo {
  enum class Kind : uint8_t {
    kAllocate,        // staging `id`, `bytes`
    kFree,            // staging `id`
    kWork,            // work
    kSend,            // frame
    kPublish,         // publication
    kTell,            // words: how far its sums of a shared one are
    kAdopt,           // staging `id`, `bytes`: what the fast path has saved becomes it; and what
                      // it keeps aside is saved and lands
    kReleaseInbound,  // inbound `id`
    kCancelSends,     // data frames of op `id` need not arrive any more, on every link
    kFinishSends,     // they must arrive, but the op's buffers go back to the caller now (without
                      // fault tolerance)
    kDeliver,         // outcome
  };
  explicit Todo(Kind of) : kind(of) {}

  Kind kind;
  uint64_t id = 0;
  uint64_t bytes = 0;
  Seq seq = kNoSeq;  // kAllocate, kAdopt: the operation that it is for
  std::variant<std::monostate, Work, SendFrame, Publication, LaneWords, Outcome> what;

  Work& work() { return std::get<Work>(what); }
  const Work& work() const { return std::get<Work>(what); }
  SendFrame& frame() { return std::get<SendFrame>(what); }
  const SendFrame& frame() const { return std::get<SendFrame>(what); }
  const Publication& publication() const { return std::get<Publication>(what); }
  const LaneWords& words() const { return std::get<LaneWords>(what); }
  Outcome& outcome() { return std::get<Outcome>(what); }
  const Outcome& outcome() const { return std::get<Outcome>(what); }
};

// A call for the fast path (engine.h).
struct FastCall {
  TimeNs now = 0;
  const OpSpec* spec = nullptr;
  // The caller knows that `spec` is that of the group's last call there, but for its weight, its
  // buffers and its tag.
  bool like_last = false;
  bool shows = false;  // its buffers can be shared
  // And its input is then read where the user has it and not written over; and the host thinks that
  // all are to be summed by each.
  bool stays = false;
};

// What a look at the operation on the fast path finds (engine.h).
enum class FastLook : uint8_t {
  kWait,     // lines are missing
  kRead,     // all inputs are there: make the result (Engine::fast_work), then ask for the end
  kForeseen,  // the same, and the work is what ForeseeFast said
  kShare,    // there is something to do (Engine::fast_work): do it, then SharedFast, and look again
  kTell,     // the whole result is here: SharedFast, and look again
  kEnd,      // all members have the result: ask for the end
  kStopped,  // it is an operation like any other now
};

struct GroupTodo {
  GroupTodo(GroupKey of, Todo::Kind kind) : group(of), todo(kind) {}

  GroupKey group;
  Todo todo;
};

// A data frame that arrived; the payload is in inbound buffer `inbound`, whole and checksummed, and
// stays there until it is released, however long that takes: keeping links moving meanwhile is the
// driver's (engine_driver.h). A frame without payload has inbound 0. A lent payload lies in its
// sender's memory until that one cancels what it has sent; a work that has read it later comes back
// as spoiled.
struct InboundFrame {
  MemberId from;
  wire::FrameHeader header;
  std::vector<std::byte> ext;
  uint64_t inbound = 0;
  bool lent = false;
  TimeNs arrived_ns = kNever;  // or when it did, maybe before its operation was called here
};

// The verdict-relevant side of a view, for one column.
using ViewPtr = std::shared_ptr<const wire::View>;

// The view that an operation belongs to: before a planned view's boundary its base, at or after it
// the planned view (J1). Also before the boundary of the one before, and so on: the root passes
// that in all groups that it has called in, but in one that only others have called in it may be
// behind all of them. `known`: the view of an epoch, or null.
template <typename Known>
ViewPtr ViewOf(ViewPtr newest, GroupKey group, Seq seq, uint64_t step, const Known& known) {
  ViewPtr view = std::move(newest);
  while (view && view->planned && !view->boundary.Reached(group, seq, step)) {
    ViewPtr before = known(view->base);
    if (!before) break;
    view = std::move(before);
  }
  return view;
}

struct GroupConfig {
  MemberId self;
  int32_t shard = 0;
  GroupKey key = 0;
  Seq window = 16;             // W of rule J3
  bool fault_tolerant = true;  // --ft on
  bool deterministic = false;
  plan::PlanKind plan = plan::PlanKind::kAuto;
  uint64_t chunk_bytes = 0;  // 0: chosen for each operation, between these two
  uint64_t piece_least = plan::kChunkBytesMin, piece_most = plan::kChunkBytesMax;
  // Of what the fast path makes at a time (plan::BlockBytes).
  uint64_t block_least = plan::kBlockBytesMin, block_most = plan::kBlockBytesMax;
  // Up to so many members each sum all of a shared one, from so many bytes on.
  size_t all_sum_members_max = 2;
  uint64_t all_sum_bytes_min = 4 * 1024;
  std::optional<uint64_t> oneshot_max_bytes;  // none: by the number of members
  Lane* lane = nullptr;  // null: there is none, and all goes by frames (rule F4)
};

}  // namespace ftar::collective

#endif  // FTAR_COLLECTIVE_TYPES_H_
