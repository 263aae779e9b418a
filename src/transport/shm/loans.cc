#include "transport/shm/loans.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>

namespace ftar::transport::shm {
namespace {

// What goes over the socket about a block; kShow and kShowDevice come with its descriptor.
struct BlockNotice {
  enum class Kind : uint32_t { kShow = 1, kGone = 2, kShowDevice = 3 };
  uint32_t magic = kMagic;
  Kind kind = Kind::kShow;
  uint64_t block = 0;
  uint64_t bytes = 0;
  static constexpr uint32_t kMagic = 0x6b6c6266;
};
static_assert(sizeof(BlockNotice) == 24);

constexpr size_t kBlocksMax = 4096;  // of one peer
constexpr int kNoticesAtATime = 64;  // whatever the peer writes; the rest is there the next time

bool Tell(int socket, const BlockNotice& notice, int fd) {
  iovec bytes{const_cast<BlockNotice*>(&notice), sizeof notice};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  if (fd >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* const attached = CMSG_FIRSTHDR(&message);
    attached->cmsg_level = SOL_SOCKET;
    attached->cmsg_type = SCM_RIGHTS;
    attached->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(attached), &fd, sizeof fd);
  }
  return ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) ==
         static_cast<ssize_t>(sizeof notice);
}

UniqueFd AttachedFd(msghdr* message) {
  UniqueFd found;
  for (cmsghdr* part = CMSG_FIRSTHDR(message); part != nullptr; part = CMSG_NXTHDR(message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    for (size_t at = CMSG_LEN(0); at + sizeof(int) <= part->cmsg_len; at += sizeof(int)) {
      int fd = -1;
      std::memcpy(&fd, reinterpret_cast<char*>(part) + at, sizeof fd);
      found.Reset(fd);  // more than one is not ours; the last one stays and is closed with it
    }
  }
  return found;
}

}  // namespace

// ---- the side whose memory it is

Lender::Lender(SegmentHeader* own, const SegmentHeader* peer,
               std::shared_ptr<const ExportedMemory> exports)
    : own_(own), peer_(peer), exports_(std::move(exports)) {
  if (exports_ == nullptr) return;
  free_.reserve(kLoansMax);
  for (uint32_t slot = kLoansMax; slot > 0; --slot) free_.push_back(slot - 1);
}

bool Lender::PeerHas(const std::shared_ptr<const ExportedBlock>& block, int socket) {
  const auto found = shown_.find(block->id);
  if (found != shown_.end()) {
    const auto& mapped = block->on_device ? peer_->device_blocks_mapped : peer_->blocks_mapped;
    return mapped.load(std::memory_order_acquire) >= found->second.number;
  }
  uint64_t& count = block->on_device ? shown_device_count_ : shown_count_;
  const auto kind = block->on_device ? BlockNotice::Kind::kShowDevice : BlockNotice::Kind::kShow;
  const BlockNotice notice{.kind = kind, .block = block->id, .bytes = block->bytes};
  if (Tell(socket, notice, block->fd.get())) shown_[block->id] = {block, ++count};
  return false;
}

bool Lender::LendsDevice(std::span<const std::byte> payload, int socket) {
  if (exports_ == nullptr || socket < 0 || peer_->borrows.load(std::memory_order_acquire) == 0)
    return false;
  const auto block = exports_->Find(payload.data(), payload.size());
  return block != nullptr && block->on_device && PeerHas(block, socket);
}

std::optional<Link::Place> Lender::Show(std::span<const std::byte> memory, int socket) {
  if (exports_ == nullptr || socket < 0 || peer_->borrows.load(std::memory_order_acquire) == 0)
    return {};
  const auto block = exports_->Find(memory.data(), memory.size());
  if (block == nullptr || block->on_device || !PeerHas(block, socket)) return {};
  return Link::Place{block->id, static_cast<uint64_t>(memory.data() - block->data)};
}

Lender::Way Lender::Lend(std::span<const std::byte> payload, int socket, Reference* reference) {
  if (exports_ == nullptr || socket < 0 || peer_->borrows.load(std::memory_order_acquire) == 0)
    return Way::kCopy;
  const auto block = exports_->Find(payload.data(), payload.size());
  if (block == nullptr) return Way::kCopy;
  if (free_.empty() || !PeerHas(block, socket)) return block->on_device ? Way::kWait : Way::kCopy;
  reference->block = block->id;
  reference->offset = static_cast<uint64_t>(payload.data() - block->data);
  reference->bytes = static_cast<uint32_t>(payload.size());
  reference->slot = free_.back();
  reference->age = own_->loan_ages[reference->slot].load(std::memory_order_relaxed);
  free_.pop_back();
  return Way::kLent;
}

void Lender::Lent(const Reference& reference, const wire::FrameHeader& header, uint64_t cookie) {
  loans_.push_back({reference, header, cookie});
}

void Lender::Unsent() {
  if (loans_.empty()) return;  // the link has failed meanwhile, which took all back
  free_.push_back(loans_.back().reference.slot);
  loans_.pop_back();
}

void Lender::Recall(const Loan& loan) {
  // What the memory's next owner writes is seen after this: nothing passes such an operation.
  own_->loan_ages[loan.reference.slot].fetch_add(1, std::memory_order_seq_cst);
  free_.push_back(loan.reference.slot);
}

void Lender::Recall(uint32_t group, uint64_t seq) {
  // They do not wait for their turn: a loan of another group may be out for long, and all of this
  // one's would stay behind it, to be looked through here each time.
  std::erase_if(loans_, [&](const Loan& loan) {
    if (loan.header.group != group || loan.header.seq != seq) return false;
    Recall(loan);
    return true;
  });
}

void Lender::RecallAll() {
  for (const Loan& loan : loans_) Recall(loan);
  loans_.clear();
}

// The peer's word holds the age of the last loan of that slot that came back, plus one.
bool Lender::IsBack(const Loan& loan) const {
  const Reference& reference = loan.reference;
  return peer_->loans_returned[reference.slot].load(std::memory_order_seq_cst) == reference.age + 1;
}

bool Lender::HasReturned() const {
  return std::ranges::any_of(loans_, [this](const Loan& loan) { return IsBack(loan); });
}

bool Lender::TakeReturned(Returned* returned, bool any) {
  const auto end = any || loans_.empty() ? loans_.end() : std::next(loans_.begin());
  const auto loan =
      std::find_if(loans_.begin(), end, [this](const Loan& one) { return IsBack(one); });
  if (loan == end) return false;
  const uint32_t slot = loan->reference.slot;
  own_->loan_ages[slot].fetch_add(1, std::memory_order_relaxed);
  free_.push_back(slot);
  *returned = {loan->header, loan->cookie};
  loans_.erase(loan);
  return true;
}

void Lender::ForgetFreed(int socket) {
  if (exports_ == nullptr || exports_->frees() == frees_seen_) return;
  frees_seen_ = exports_->frees();
  std::erase_if(shown_, [socket](const auto& entry) {
    if (!entry.second.block.expired()) return false;
    const BlockNotice notice{.kind = BlockNotice::Kind::kGone, .block = entry.first, .bytes = 0};
    // Untold, the peer keeps the pages mapped until the link ends.
    if (socket >= 0) Tell(socket, notice, -1);
    return true;
  });
}

// ---- the side that reads

Expected<Borrower::Borrowed> Borrower::Take(const Reference& reference) const {
  if (reference.slot >= kLoansMax || reference.bytes > wire::kPayloadBytesMax)
    return Status(Code::kCorrupt, "the peer lends what cannot be lent");
  const auto found = blocks_.find(reference.block);
  if (found == blocks_.end()) {
    if (!Intact(reference)) return Borrowed{};
    return Status(Code::kCorrupt, "the peer lends memory that is not mapped here");
  }
  const Block& block = found->second;
  if (reference.offset > block.bytes || reference.bytes > block.bytes - reference.offset)
    return Status(Code::kCorrupt, "the peer lends more memory than it has shown");
  return Borrowed{{block.data + reference.offset, reference.bytes}, block.memory, block.on_device};
}

std::shared_ptr<const std::byte> Borrower::See(Link::Place place, uint64_t bytes) const {
  const auto found = blocks_.find(place.block);
  if (found == blocks_.end() || found->second.on_device) return nullptr;
  const Block& block = found->second;
  if (place.offset > block.bytes || bytes > block.bytes - place.offset) return nullptr;
  return {block.memory, block.data + place.offset};
}

bool Borrower::Intact(const Reference& reference) const {
  fence_.fetch_add(1, std::memory_order_seq_cst);  // the bytes were read before
  return peer_->loan_ages[reference.slot].load(std::memory_order_acquire) == reference.age;
}

void Borrower::GiveBack(const Reference& reference) {
  // A recalled slot may have been lent anew, and that loan is not over.
  if (!Intact(reference)) return;
  own_->loans_returned[reference.slot].store(reference.age + 1, std::memory_order_seq_cst);
}

Borrower::Socket Borrower::TakeOne(int socket, bool* any) {
  BlockNotice notice;
  iovec bytes{&notice, sizeof notice};
  alignas(cmsghdr) char control[CMSG_SPACE(4 * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t got = ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  *any = got > 0;
  if (got < 0) {
    const bool nothing = errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
    return nothing ? Socket::kOpen : Socket::kClosed;
  }
  if (got == 0) return Socket::kClosed;
  UniqueFd fd = AttachedFd(&message);
  // A notice is sent by one call and fits any buffer, so that it comes whole or not at all.
  if (got != static_cast<ssize_t>(sizeof notice) || notice.magic != BlockNotice::kMagic)
    return Socket::kCorrupt;
  if (notice.kind == BlockNotice::Kind::kGone) {
    Forget(notice.block);
    return Socket::kOpen;
  }
  const bool on_device = notice.kind == BlockNotice::Kind::kShowDevice;
  if (blocks_.size() + waiting_.size() >= kBlocksMax) return Socket::kCorrupt;
  if (on_device) {
    waiting_.push_back({notice.block, notice.bytes, std::move(fd), 0});
    MapWaiting();
    return Socket::kOpen;
  }
  if (notice.kind != BlockNotice::Kind::kShow) return Socket::kCorrupt;
  Map(notice.block, notice.bytes, fd);
  return Socket::kOpen;
}

// The peer numbers what it shows, so that a block that was never mapped is counted all the same,
// behind those that were shown before it.
void Borrower::Forget(uint64_t block) {
  blocks_.erase(block);
  const auto found = std::find_if(waiting_.begin(), waiting_.end(),
                                  [block](const Waiting& each) { return each.block == block; });
  if (found == waiting_.end()) return;
  const uint64_t gone = 1 + found->gone_behind;
  if (found == waiting_.begin()) {
    own_->device_blocks_mapped.fetch_add(gone, std::memory_order_release);
  } else {
    std::prev(found)->gone_behind += gone;
  }
  waiting_.erase(found);
}

void Borrower::MapWaiting() {
  while (!waiting_.empty() && exports_ != nullptr && exports_->imports()) {
    const Waiting next = std::move(waiting_.front());
    waiting_.pop_front();
    if (device_full_) continue;
    auto memory = exports_->Import(next.fd.get(), next.bytes);
    device_full_ = !memory.ok();
    if (device_full_) continue;
    blocks_[next.block] = {memory->get(), next.bytes, *memory, true};
    own_->device_blocks_mapped.fetch_add(1 + next.gone_behind, std::memory_order_release);
  }
}

void Borrower::Map(uint64_t block, uint64_t bytes, const UniqueFd& fd) {
  if (full_) return;
  auto memory = MapSealedMemory(fd, bytes, bytes);
  full_ = !memory.ok();
  if (full_) return;
  std::byte* const data = (*memory)->data();
  blocks_[block] = {data, (*memory)->bytes(), std::move(*memory), false};
  own_->blocks_mapped.fetch_add(1, std::memory_order_release);
}

Borrower::Socket Borrower::Listen(int socket) {
  bool any = true;
  for (int i = 0; i < kNoticesAtATime && any; ++i) {
    const Socket state = TakeOne(socket, &any);
    if (state != Socket::kOpen) return state;
  }
  return Socket::kOpen;
}

}  // namespace ftar::transport::shm
