#include "memory.h"

#include <algorithm>

namespace ftar::sim {

Element Contribution(int replica, GroupKey group, Seq seq, uint64_t position) {
  uint64_t tag = (seq + 1) * 0x9e3779b97f4a7c15ull ^ (position + 1) * 0xbf58476d1ce4e5b9ull ^ group;
  tag ^= tag >> 29;
  tag *= 0x94d049bb133111ebull;
  return {uint64_t{1} << (8 * (replica % 8)), tag ^ tag >> 32};
}

Memory::OpBuffers* Memory::Find(GroupKey group, Seq seq) {
  const auto found = ops_.find({group, seq});
  return found == ops_.end() ? nullptr : &found->second;
}

void Memory::Allocate(GroupKey group, uint64_t id, uint64_t bytes) {
  staging_[{group, id}].resize((bytes + kElementBytes - 1) / kElementBytes);
}

uint64_t Memory::AddInbound(Buffer payload) {
  inbound_[next_inbound_] = std::move(payload);
  return next_inbound_++;
}

void Memory::ReleaseInbound(uint64_t id) { inbound_.erase(id); }

Element* Memory::Resolve(GroupKey group, const collective::BufferRef& ref, uint64_t* count) {
  using Kind = collective::BufferRef::Kind;
  Buffer* buffer = nullptr;
  OpBuffers* op =
      ref.kind == Kind::kSend || ref.kind == Kind::kRecv ? Find(group, ref.id) : nullptr;
  if (op) buffer = ref.kind == Kind::kSend && !op->in_place ? &op->send : &op->recv;
  if (ref.kind == Kind::kStaging) {
    const auto found = staging_.find({group, ref.id});
    if (found != staging_.end()) buffer = &found->second;
  }
  if (ref.kind == Kind::kInbound) {
    const auto found = inbound_.find(ref.id);
    if (found != inbound_.end()) buffer = &found->second;
  }
  const uint64_t first = ref.offset / kElementBytes;
  *count = ref.bytes / kElementBytes;
  if (!buffer || first + *count > buffer->size()) return nullptr;
  return buffer->data() + first;
}

bool Memory::Read(GroupKey group, const collective::BufferRef& ref, Buffer* out) {
  if (ref.bytes == 0) return true;
  uint64_t count = 0;
  const Element* from = Resolve(group, ref, &count);
  if (!from) return false;
  out->assign(from, from + count);
  return true;
}

bool Memory::Run(GroupKey group, const collective::Work& work) {
  if (work.dst.bytes == 0) return true;
  uint64_t count = 0;
  Element* dst = Resolve(group, work.dst, &count);
  if (!dst) return false;
  Buffer sum(count);
  for (const collective::SourceRef& source : work.sources) {
    uint64_t available = 0;
    const Element* from = Resolve(group, source.buffer, &available);
    if (!from || available < count) return false;
    for (uint64_t i = 0; i < count; ++i) {
      sum[i].who += from[i].who;
      sum[i].where += from[i].where;
    }
  }
  std::copy(sum.begin(), sum.end(), dst);
  return true;
}

}  // namespace ftar::sim
