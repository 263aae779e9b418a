// Symbolic memory of one simulated member: every element says whose contributions it is made of and
// where it belongs, so a sum that lacks one, has one twice, or sits at the wrong place is seen in
// every single element.
#ifndef FTAR_TESTS_SIM_MEMORY_H_
#define FTAR_TESTS_SIM_MEMORY_H_

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "collective/types.h"

namespace ftar::sim {

// Sums add both fields. `who` holds one byte a replica: how often its contribution is inside.
// `where` adds up a tag of (group, seq, position) for each contribution.
struct Element {
  uint64_t who = 0;
  uint64_t where = 0;
  bool operator==(const Element&) const = default;
};
inline constexpr uint32_t kElementBytes = sizeof(Element);

Element Contribution(int replica, GroupKey group, Seq seq, uint64_t position);

using Buffer = std::vector<Element>;

class Memory {
 public:
  struct OpBuffers {
    Buffer send, recv;
    bool in_place = false;
  };
  OpBuffers& Open(GroupKey group, Seq seq) { return ops_[{group, seq}]; }
  OpBuffers* Find(GroupKey group, Seq seq);
  void Close(GroupKey group, Seq seq) { ops_.erase({group, seq}); }

  void Allocate(GroupKey group, uint64_t id, uint64_t bytes);
  void Free(GroupKey group, uint64_t id) { staging_.erase({group, id}); }
  uint64_t AddInbound(Buffer payload);
  void ReleaseInbound(uint64_t id);

  // Runs one work. False if it refers to memory that is not there: a bug in the machine.
  bool Run(GroupKey group, const collective::Work& work);
  // Copies the bytes a frame carries. False as above.
  bool Read(GroupKey group, const collective::BufferRef& ref, Buffer* out);

  size_t staging_count() const { return staging_.size(); }
  size_t inbound_count() const { return inbound_.size(); }

 private:
  Element* Resolve(GroupKey group, const collective::BufferRef& ref, uint64_t* count);

  std::map<std::pair<GroupKey, Seq>, OpBuffers> ops_;
  std::map<std::pair<GroupKey, uint64_t>, Buffer> staging_;
  std::map<uint64_t, Buffer> inbound_;
  uint64_t next_inbound_ = 1;
};

}  // namespace ftar::sim

#endif  // FTAR_TESTS_SIM_MEMORY_H_
