// A view: who is in, at which epoch, and from which operation to which (rule J1). Values only;
// membership/ decides, everybody else reads. An installed view never changes; it is shared as
// std::shared_ptr<const View>.
#ifndef FTAR_WIRE_VIEW_H_
#define FTAR_WIRE_VIEW_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.h"

namespace ftar::wire {

// What the wires to others of its column cost a member, as it has measured when they came up
// (design 8). 0: not known.
struct WireCosts {
  uint32_t round_ns = 0;  // until a short message that is sent has been read
  uint32_t byte_ps = 0;   // for each byte of a long one
  bool operator==(const WireCosts&) const = default;
};
// Of those who know, each by itself.
WireCosts MedianOf(const std::vector<WireCosts>& all);

// What a member tells about itself before it is known: place in the job, host, and where it can be
// reached.
struct MemberCard {
  MemberId id;
  int32_t replica = 0;
  int32_t shard = 0;
  int64_t pid = 0;
  std::string host;      // name for people
  std::string host_key;  // equal exactly for processes that can share memory and abstract sockets
                         // (boot id + netns)
  std::string rack;
  // "tcp=10.0.0.3:4711;shm=@name", in the order in which the member prefers them
  // (addresses.h). Values are opaque outside the transports.
  std::string addresses;
  // Cores that this process may run on, and which they are (a digest): those of one host with the
  // same set share them. 0: not told.
  int32_t cores = 0;
  uint64_t core_set = 0;
  bool lane = false;  // has a lane (rule F4), for those of its host
  // The coordinator's to fill, from what the member told when it was linked: in a view all see the
  // same.
  WireCosts wire;
  bool operator==(const MemberCard&) const = default;
};

// Where in a group's stream of operations a membership begins or ends (rule J1). With step marks
// the bound is a step, the same in all groups; without, a seq for each group by name.
struct SeqBound {
  GroupKey group = 0;
  Seq seq = 0;
  bool operator==(const SeqBound&) const = default;
};
struct Bound {
  enum class Kind : uint8_t {
    kNone = 0,    // as `first`: not in yet (a plan without a boundary); as `last`: no end in sight
    kAlways = 1,  // as `first`: from the first operation on
    kStep = 2,    // operations of step >= `step`
    kSeq = 3,  // operations with seq >= the group's entry in `seqs`, or `default_seq` for a group
               // that is not listed
  };
  Kind kind = Kind::kNone;
  uint64_t step = 0;
  Seq default_seq = 0;
  std::vector<SeqBound> seqs;
  bool operator==(const Bound&) const = default;

  // Where it is in this group; 0 unless it is a bound by operations.
  Seq SeqIn(GroupKey group) const;
  // True if the operation (group, seq, step) is at or after this bound.
  bool Reached(GroupKey group, Seq seq, uint64_t op_step) const;
};

struct ViewEntry {
  MemberCard card;
  Epoch joined_epoch = 0;
  Bound first{Bound::Kind::kAlways, 0, 0, {}};
  Bound last;  // exclusive: operations at or after it are without this member
  bool operator==(const ViewEntry&) const = default;

  // It has been given its end.
  bool leaves() const { return last.kind != Bound::Kind::kNone; }
  bool Contains(GroupKey group, Seq seq, uint64_t step) const {
    return first.Reached(group, seq, step) && !last.Reached(group, seq, step);
  }
};

// Null if there is none.
const ViewEntry* FindEntry(const std::vector<ViewEntry>& entries, MemberId id);

// Whose majority a view needed that came after this one (rule Q4, hosted coordinators): each
// replica by its first member, in list order.
struct Electorate {
  Epoch epoch = 0;
  std::vector<MemberId> replicas;
  bool operator==(const Electorate&) const = default;
};

struct View {
  Epoch epoch = 0;
  // The newest view at or below this one that came by Prepare and Install. Attempts, acks and
  // credits count within an era: a planned view (join, leave) opens no new one, since nothing that
  // runs is disturbed.
  Epoch era = 0;
  Epoch base = 0;  // a planned view's predecessor; operations before the boundary stay in it
  bool planned = false;
  Bound boundary;  // planned views: operations before it belong to `base`, at or after it to this
                   // view
  std::vector<ViewEntry>
      entries;  // the list's order is the order of additions; rank follows it (rule F6)
  // Of the views before this one, from the last on that was known formed. Empty if the coordinator
  // cannot be replaced.
  std::vector<Electorate> electorates;
  bool operator==(const View&) const = default;

  const ViewEntry* Find(MemberId id) const { return FindEntry(entries, id); }
  // The first member of each replica, in list order: they vote for it, and it is they who take over
  // the coordinator (rule Q5).
  std::vector<MemberId> Successors() const;
};

}  // namespace ftar::wire

#endif  // FTAR_WIRE_VIEW_H_
