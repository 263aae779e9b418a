// What a group's machine remembers of an operation, from call to delivery.
#ifndef FTAR_COLLECTIVE_OP_STATE_H_
#define FTAR_COLLECTIVE_OP_STATE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "collective/arrivals.h"
#include "collective/types.h"
#include "plan/grid.h"
#include "plan/role.h"
#include "wire/messages.h"

namespace ftar::collective {

inline constexpr uint8_t kAvg = 4, kWavg = 5;  // FTAR_AVG, FTAR_WAVG
// Of a member that has not told its own.
inline constexpr double kUnknownWeight = std::numeric_limits<double>::quiet_NaN();

// By position in the attempt. Bytes, since a vector of bits takes long to be filled.
using Marks = std::vector<uint8_t>;

struct Piece {  // an inbound frame that waits for its reduction
  bool present = false;
  uint64_t inbound = 0;
  bool empty = false;  // weight 0, or a partial sum of nothing
  bool lent = false;   // lies in its sender's memory
  uint64_t bytes = 0;
};

struct ChunkProgress {
  plan::Chunk geometry;
  int owner = -1;  // position in the attempt; -1: its owner is gone
  Piece partial;
  uint32_t raws_missing = 0;
  bool working = false;  // a reduction or landing is under way
  bool partial_made = false, partial_empty = false;
  bool empty = false;  // the final chunk carries no bytes: absent, or a weightless member's segment
  bool is_final = false;
  bool overwritten = false;  // by result bytes; what was there is in the undo log (F3)
  uint64_t staging = 0;      // partial sum
  uint64_t begun = 0;        // its first elements, made before a shared one left the fast path
};

struct ChunkState : ChunkProgress {
  plan::Role role;
  std::vector<Piece> raws;  // by position in the attempt; empty unless some come here
  // As new, but for its memory.
  void Clear() {
    static_cast<ChunkProgress&>(*this) = {};
    role.Clear();
    raws.clear();
  }
};

// An operation's way through the lane, in its first attempt.
struct OpLane {
  bool published = false;  // this member's line is out: others may deliver
  bool by_frames = false;  // its input has been sent by frames as well
  enum class State : uint8_t {
    kOpen,
    kBlocked,  // all inputs were here, and a flag was up: a verdict is on its way
    kStable,   // all inputs were here, and no flag was up
    kScanned,  // all inputs were here when it froze: only a verdict delivers it
  } state = State::kOpen;
  bool mismatched = false;
  bool told = false;  // shared: that it is done here
  uint64_t made = 0;  // and so many bytes of its own sums
  // So said a line, or each, of those that were seen and the own one (LaneLine).
  bool shared = false, whole = true;
  LaneRoom room = LaneRoom::kShort;  // the own input's
  std::vector<LaneRoom> rooms;       // by position, of those that were seen
  size_t seen = 0;                   // members whose lines were seen, from the first position on
  uint32_t working = 0;
  uint64_t staging = 0;       // the result, where the output must not be touched before the flags
  std::vector<int> segments;  // by position
  TimeNs patience_end = kNever;
  void Reset() {
    room = LaneRoom::kShort;
    state = State::kOpen;
    published = by_frames = mismatched = told = shared = false;
    seen = 0;
    whole = true;
    working = 0;
    made = 0;
    staging = 0;
    patience_end = kNever;
  }
};

struct Op {
  Seq seq = 0;
  uint64_t step = 0;
  OpSpec spec;
  bool stand_in = false;
  wire::Signature signature;
  uint64_t digest = 0;
  plan::Grid grid;
  plan::PlanKind plan = plan::PlanKind::kAuto;
  ViewPtr view;                   // of the attempt
  std::vector<MemberId> members;  // of the attempt, in view order
  int me = -1;
  wire::Origin origin;          // of the first attempt, for good (F5)
  std::vector<double> weights;  // by position
  std::vector<ChunkState> chunks;
  Marks raws_sent;  // by position
  OpLane lane;
  MemberId hub;  // tells the others when all are complete; none: everybody tells everybody
  uint32_t needed = 0, finals = 0;
  bool complete = false, committed = false, absent = false, salvage = false;
  bool unfit = false;  // for its attempt, as it was called here: waits for another verdict (V5)
  Marks unheard;  // broadcast's root: by position, who has not shown its call yet
  Code fail_code = Code::kOk;
  std::string fail_text;
  MemberId fail_culprit;
  int32_t attempts = 0;
  uint64_t bytes_resent = 0;
  uint64_t undo = 0, shadow = 0, stand_in_buffer = 0;
  std::vector<uint64_t> staging;
  TimeNs start_ns = 0, complete_ns = 0;
  Arrivals arrivals;
  bool overdue_reported = false;

  bool failed() const { return fail_code != Code::kOk; }
  int PositionOf(MemberId id) const {  // in the attempt; -1: it has none there
    const auto found = std::ranges::find(members, id);
    return found == members.end() ? -1 : static_cast<int>(found - members.begin());
  }
};

struct QueuedCall {
  OpSpec spec;
  uint64_t step = 0;
  Seq seq = kNoSeq;
  TimeNs called_ns = 0;
};

struct WorkRef {
  Seq seq = 0;
  uint32_t chunk = 0;
  enum class Purpose : uint8_t {
    kMakeFinal,
    kMakePartial,
    kLand,
    kFromLane,
    kShared,
  } purpose = Purpose::kLand;
  MemberId from;
  uint64_t inbound = 0;
};

struct LaneSlot {  // the last operation published there
  Epoch era = 0;
  Seq seq = 0;
  uint64_t step = 0;
};

struct KeptRaw {
  uint32_t chunk;
  MemberId from;
  Piece piece;
  double weight;
};

}  // namespace ftar::collective

#endif  // FTAR_COLLECTIVE_OP_STATE_H_
