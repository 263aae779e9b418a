#include "memory.h"

#include <algorithm>

#include "lane.h"

namespace ftar::sim {
namespace {

constexpr uint64_t kChainBase = 0x9e3779b97f4a7c15ull;

// What somebody else has written where a payload was.
constexpr Element kAnything{0x0102010201020102ull, 0x5a5a, 0xa5a5};

uint64_t Mix(uint64_t tag) {
  tag ^= tag >> 29;
  tag *= 0x94d049bb133111ebull;
  return tag ^ tag >> 32;
}

}  // namespace

void Element::Add(const Element& other) {
  if (other.who == 0) return;
  uint64_t count = (other.who * 0x0101010101010101ull) >> 56;  // contributions: the sum of bytes
  for (; count > 0; --count) chain *= kChainBase;
  who += other.who;
  where += other.where;
  chain += other.chain;
}

Element Contribution(int replica, GroupKey group, Seq seq, uint64_t position) {
  const uint64_t tag =
      Mix((seq + 1) * 0x9e3779b97f4a7c15ull ^ (position + 1) * 0xbf58476d1ce4e5b9ull ^ group);
  const unsigned place = static_cast<unsigned>(replica % kReplicasMax);
  return {uint64_t{1} << (8 * place), tag, Mix(tag + place + 1)};
}

Memory::OpBuffers* Memory::Find(Seq seq) {
  const auto found = ops_.find(seq);
  return found == ops_.end() ? nullptr : &found->second;
}

void Memory::Allocate(uint64_t id, uint64_t bytes) {
  staging_[id].resize((bytes + kElementBytes - 1) / kElementBytes);
}

uint64_t Memory::AddInbound(Buffer payload, InboundTag tag) {
  inbound_[next_inbound_] = {std::move(payload), std::move(tag), 0, false};
  return next_inbound_++;
}

void Memory::LoseLender(MemberId from) {
  for (auto& [id, inbound] : inbound_) {
    if (inbound.tag.loan && inbound.tag.from == from) inbound.lender_lost = true;
  }
}

std::shared_ptr<const Loan> Memory::Lend(MemberId to, Seq seq) {
  loans_.push_back(std::make_shared<Loan>(Loan{to, seq, false}));
  return loans_.back();
}

void Memory::RecallOf(Seq seq) {
  std::erase_if(loans_, [seq](const std::shared_ptr<Loan>& loan) {
    return loan->seq == seq && (loan->recalled = true);
  });
  std::erase_if(landings_, [seq](const std::shared_ptr<Landing>& landing) {
    return landing->seq == seq && !(landing->active = false);
  });
}

std::shared_ptr<Landing> Memory::Land(const collective::BufferRef& at, Seq seq) {
  uint64_t count = 0;
  if (!Resolve(at, &count)) return nullptr;  // its call is not through yet
  landings_.push_back(std::make_shared<Landing>(Landing{at, seq}));
  return landings_.back();
}

std::string Memory::ArriveIn(Landing* landing, const Buffer* payload) {
  uint64_t count = 0;
  Element* const place = Resolve(landing->at, &count);
  if (!place || (payload && payload->size() != count))
    return "memory: a chunk of op " + std::to_string(landing->seq) + " lands outside of its buffer";
  landing->whole = payload != nullptr;
  if (payload) {
    std::copy(payload->begin(), payload->end(), place);
  } else {
    std::fill_n(place, count, kAnything);
  }
  return "";
}

std::string Memory::EndLanding(Landing* landing, Buffer* payload) {
  std::string wrong;
  if (!landing->active) {
    std::fill(payload->begin(), payload->end(), kAnything);
    return wrong;
  }
  if (!landing->whole) wrong = ArriveIn(landing, payload);
  if (wrong.empty()) wrong = Read(landing->at, payload);
  landing->active = false;
  std::erase_if(landings_, [landing](const auto& one) { return one.get() == landing; });
  return wrong;
}

void Memory::RecallFrom(MemberId to) {
  std::erase_if(loans_, [to](const std::shared_ptr<Loan>& loan) {
    return loan->to == to && (loan->recalled = true);
  });
}

std::string Memory::ReleaseInbound(uint64_t id) {
  const auto found = inbound_.find(id);
  if (found == inbound_.end()) return "memory: a frame is given back that is not there";
  if (found->second.readers > 0)
    return "memory: a frame of op " + std::to_string(found->second.tag.seq) +
           " is given back while work reads it";
  inbound_.erase(found);
  return "";
}

Element* Memory::Resolve(const collective::BufferRef& ref, uint64_t* count) {
  using Kind = collective::BufferRef::Kind;
  Buffer* buffer = nullptr;
  uint64_t first = ref.offset / kElementBytes;
  if (ref.kind == Kind::kSend || ref.kind == Kind::kRecv) {
    OpBuffers* op = Find(ref.id);
    if (op) buffer = ref.kind == Kind::kSend && !op->in_place ? &op->send : &op->recv;
  } else if (ref.kind == Kind::kStaging) {
    const auto found = staging_.find(ref.id);
    if (found != staging_.end()) buffer = &found->second;
  } else if (ref.kind == Kind::kInbound) {
    const auto found = inbound_.find(ref.id);
    if (found != inbound_.end()) buffer = &found->second.payload;
  } else if (ref.kind == Kind::kLane && lane_) {
    buffer = const_cast<Buffer*>(lane_->Input(lane_group_, ref.id, &first));
  }
  *count = ref.bytes / kElementBytes;
  // Whoever comes so late that it is out reads what others have written there since.
  if (ref.kind == Kind::kLane && buffer && first + *count > buffer->size()) {
    overwritten_.assign(first + *count, kAnything);
    buffer = &overwritten_;
  }
  if (!buffer || first + *count > buffer->size()) return nullptr;
  return buffer->data() + first;
}

std::string Memory::Read(const collective::BufferRef& ref, Buffer* out) {
  if (ref.bytes == 0) return "";
  uint64_t count = 0;
  const Element* from = Resolve(ref, &count);
  if (!from) return "memory: a frame of op " + std::to_string(ref.id) + " sends what is not there";
  out->assign(from, from + count);
  return "";
}

std::string Memory::Run(const collective::Work& work, Epoch era, bool* spoiled) {
  if (work.dst.bytes == 0) return "";
  const auto wrong = [&work](const char* what) {
    return "memory: a work of op " + std::to_string(work.seq) + what;
  };
  uint64_t count = 0;
  Element* dst = Resolve(work.dst, &count);
  if (!dst) return wrong(" writes what is not there");
  Buffer sum(count);
  for (const collective::SourceRef& source : work.sources) {
    uint64_t available = 0;
    Element* from = Resolve(source.buffer, &available);
    if (!from || available < count) return wrong(" reads what is not there");
    if (work.kind == collective::Work::Kind::kExchange) {
      std::swap_ranges(from, from + count, dst);
      return "";
    }
    for (uint64_t i = 0; i < count; ++i) {
      if (work.kind == collective::Work::Kind::kCopy) {
        sum[i] = from[i];
      } else {
        sum[i].Add(from[i]);
      }
    }
    if (source.buffer.kind != collective::BufferRef::Kind::kInbound) continue;
    Inbound& inbound = inbound_.at(source.buffer.id);
    if (inbound.lender_lost || (inbound.tag.loan && inbound.tag.loan->recalled)) {
      *spoiled = true;
      sum.assign(count, kAnything);
    }
    // Raw pieces are the same bytes in every attempt (rule F5); nothing else survives its era.
    if (inbound.tag.era < era && inbound.tag.kind != wire::FrameKind::kRaw)
      return "epoch: a work of op " + std::to_string(work.seq) + " reads a piece of an older era";
    // Landings are tracked by their work. Reductions keep their pieces for a retry (rule F5), and a
    // driver carries out works before what is given back behind them.
    if (work.id == 0 || inbound.tag.kind != wire::FrameKind::kFinal) continue;
    ++inbound.readers;
    reading_[work.id].push_back(source.buffer.id);
  }
  std::copy(sum.begin(), sum.end(), dst);
  return "";
}

const Buffer* Memory::Shared(Seq seq, bool sums) {
  const auto found = ops_.find(seq);
  if (found == ops_.end() || given_back_) return &gone_;
  return sums || found->second.in_place ? &found->second.recv : &found->second.send;
}

std::string Memory::Save(const collective::BufferRef& dst, Buffer* saved) {
  Buffer part;
  std::string wrong = Read(dst, &part);
  const uint64_t first = dst.offset / kElementBytes;
  saved->resize(std::max<size_t>(saved->size(), first + part.size()));
  std::copy(part.begin(), part.end(), saved->begin() + static_cast<std::ptrdiff_t>(first));
  return wrong;
}

std::string Memory::RunAside(collective::Work work, Epoch era, Buffer* made) {
  constexpr uint64_t kAside = ~uint64_t{0};  // none of the engine's numbers
  work.dst = {collective::BufferRef::Kind::kStaging, kAside, 0, work.count * kElementBytes};
  Allocate(kAside, work.dst.bytes);
  bool spoiled = false;
  std::string wrong = Run(work, era, &spoiled);
  if (wrong.empty()) wrong = Read(work.dst, made);
  Free(kAside);
  return wrong;
}

std::string Memory::Write(const collective::BufferRef& dst, const Buffer& from, uint64_t first) {
  uint64_t count = 0;
  Element* const place = Resolve(dst, &count);
  if (!place || first + count > from.size()) return "memory: what was kept aside does not fit";
  std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(first), count, place);
  return "";
}

std::string Memory::RunFast(collective::Work work, Epoch era, Buffer* result) {
  const OpBuffers* const op = Find(work.seq);
  if (op == nullptr) return "memory: an operation on the fast path is not there";
  if (op->in_place) return RunAside(work, era, result);
  work.dst = {collective::BufferRef::Kind::kRecv, work.seq, 0, work.count * kElementBytes};
  bool spoiled = false;
  std::string wrong = Run(work, era, &spoiled);
  return wrong.empty() ? Read(work.dst, result) : wrong;
}

void Memory::WorkIsDone(uint64_t work_id) {
  const auto found = reading_.find(work_id);
  if (found == reading_.end()) return;
  for (const uint64_t id : found->second) {
    if (const auto inbound = inbound_.find(id); inbound != inbound_.end())
      --inbound->second.readers;
  }
  reading_.erase(found);
}

std::string Memory::CheckIdle(Seq delivered_end) const {
  if (!staging_.empty())
    return "memory: nothing is under way, and " + std::to_string(staging_.size()) +
           " pieces of staging are held";
  if (!reading_.empty()) return "";  // of attempts that a change has ended
  for (const auto& [id, inbound] : inbound_) {
    if (inbound.tag.seq < delivered_end)
      return "memory: a frame of op " + std::to_string(inbound.tag.seq) + " is held for ever";
  }
  return "";
}

}  // namespace ftar::sim
