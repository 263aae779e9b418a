// Symbolic memory of one simulated member: every element says whose contributions it is made of, in
// which order they were added and where it belongs, so a sum that lacks one, has one twice, was
// added in another order or sits at the wrong place is seen in every single element.
#ifndef FTAR_TESTS_SIM_MEMORY_H_
#define FTAR_TESTS_SIM_MEMORY_H_

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "collective/types.h"

namespace ftar::sim {

// `who` holds one byte a replica: how often its contribution is inside. `where` adds up a tag of
// (group, seq, position) for each contribution. `chain` is a hash of the row of contributions, as
// of a string: adding appends, so that partial sums can be chained too.
struct Element {
  uint64_t who = 0;
  uint64_t where = 0;
  uint64_t chain = 0;
  bool operator==(const Element&) const = default;
  void Add(const Element& other);
};
inline constexpr int kReplicasMax = 8;         // a byte each in what an element says of its sum
inline constexpr uint32_t kElementBytes = 16;  // what an element pretends to measure

Element Contribution(int replica, GroupKey group, Seq seq, uint64_t position);

using Buffer = std::vector<Element>;

// Payload that stays with its sender until it is read. Once recalled, what is read is anything.
struct Loan {
  MemberId to;
  Seq seq = 0;
  bool recalled = false;
};

// Payload that arrives in place: until it is there, or the operation's sends are cancelled, what
// lies there is anything.
struct Landing {
  collective::BufferRef at;
  Seq seq = 0;
  bool active = true, whole = false;
};

// What an inbound buffer came with.
struct InboundTag {
  wire::FrameKind kind = wire::FrameKind::kRaw;
  Epoch era = 0;
  Seq seq = 0;
  MemberId from;
  std::shared_ptr<const Loan> loan;  // null: the bytes came themselves
};

class MemberLane;

// Functions that return a text return what is wrong, empty if nothing is: a mistake of the machine
// that names the memory.
class Memory {
 public:
  struct OpBuffers {
    Buffer send, recv;
    bool in_place = false;
  };
  // What kLane references are; null: there are none.
  void Attach(GroupKey group, const MemberLane* lane) { lane_group_ = group, lane_ = lane; }
  OpBuffers& Open(Seq seq) { return ops_[seq]; }
  OpBuffers* Find(Seq seq);
  void Close(Seq seq) { ops_.erase(seq); }

  void Allocate(uint64_t id, uint64_t bytes);
  void Free(uint64_t id) { staging_.erase(id); }
  uint64_t AddInbound(Buffer payload, InboundTag tag);
  std::string ReleaseInbound(uint64_t id);

  // Runs one work of a member whose era is `era`. What it reads must stay until WorkIsDone.
  // `spoiled`: it has read something that was recalled.
  std::string Run(const collective::Work& work, Epoch era, bool* spoiled);
  // What others read of a shared operation where it lies: its input or its result.
  const Buffer* Shared(Seq seq, bool sums);
  // Its user has all memory back, and writes there.
  void GiveBack() { given_back_ = true; }
  // The fast path's: what a work in place writes over is kept beside it, and may become staging; or
  // what it makes, until it lands.
  std::string Save(const collective::BufferRef& dst, Buffer* saved);
  void Adopt(uint64_t id, Buffer saved) { staging_[id] = std::move(saved); }
  std::string RunAside(collective::Work work, Epoch era, Buffer* made);
  // From element `first` of `from` on.
  std::string Write(const collective::BufferRef& dst, const Buffer& from, uint64_t first);
  // The work of an operation on the fast path, whose result waits beside it if it is in place.
  std::string RunFast(collective::Work work, Epoch era, Buffer* result);
  void WorkIsDone(uint64_t work_id);
  // The link to `from` is closed here: nothing says any more whether what it has lent is good.
  void LoseLender(MemberId from);
  // For the sender: a loan of an operation's bytes, and the end of those that fit.
  std::shared_ptr<const Loan> Lend(MemberId to, Seq seq);
  void RecallOf(Seq seq);
  void RecallFrom(MemberId to);
  // Copies the bytes that a frame carries.
  std::string Read(const collective::BufferRef& ref, Buffer* out);
  // Of a payload that arrives where it belongs, if that is there: something (null), then all.
  std::shared_ptr<Landing> Land(const collective::BufferRef& at, Seq seq);
  std::string ArriveIn(Landing* landing, const Buffer* payload);
  // The frame is here: what is in its place is its payload, or, if that was cancelled, anything.
  std::string EndLanding(Landing* landing, Buffer* payload);

  // Bounded memory: nothing of an operation outlives it. To be asked while nothing is under way.
  std::string CheckIdle(Seq delivered_end) const;

 private:
  struct Inbound {
    Buffer payload;
    InboundTag tag;
    int readers = 0;  // works under way
    bool lender_lost = false;
  };
  Element* Resolve(const collective::BufferRef& ref, uint64_t* count);
  GroupKey lane_group_ = 0;
  const MemberLane* lane_ = nullptr;
  Buffer overwritten_, gone_;
  bool given_back_ = false;

  std::unordered_map<Seq, OpBuffers> ops_;
  std::unordered_map<uint64_t, Buffer> staging_;
  std::unordered_map<uint64_t, Inbound> inbound_;
  std::unordered_map<uint64_t, std::vector<uint64_t>> reading_;  // work -> inbound buffers
  std::vector<std::shared_ptr<Loan>> loans_;                     // that are out
  std::vector<std::shared_ptr<Landing>> landings_;               // that are under way
  uint64_t next_inbound_ = 1;
};

}  // namespace ftar::sim

#endif  // FTAR_TESTS_SIM_MEMORY_H_
