#include "transport/shm/segment.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <new>

namespace ftar::transport::shm {
namespace {

constexpr size_t kFds = 3;

UniqueFd Duplicate(int fd) { return UniqueFd(::fcntl(fd, F_DUPFD_CLOEXEC, 0)); }

// An eventfd and nothing else may be a doorbell: writing 8 bytes into whatever a peer passes could
// do harm.
bool IsEventFd(int fd) {
  char path[64], target[64];
  std::snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  const ssize_t bytes = ::readlink(path, target, sizeof target - 1);
  if (bytes < 0) return true;  // no /proc here; the peer has proved the token at least
  target[bytes] = 0;
  return std::strcmp(target, "anon_inode:[eventfd]") == 0;
}

// A bell that is full has been rung already; whoever rings it must not wait for its owner.
bool NeverBlocks(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  return flags >= 0 && ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0;
}

}  // namespace

Expected<std::shared_ptr<Channel>> Channel::Create(size_t ring_bytes) {
  auto channel = std::make_shared<Channel>();
  channel->ring_bytes_ = ring_bytes;
  auto sealed = CreateSealedMemory("ftar-link", kRingOffset + ring_bytes, Pages::kNow);
  if (!sealed.ok()) return sealed.status();
  channel->segment_fd_ = std::move(sealed->fd);
  channel->own_memory_ = std::move(sealed->memory);
  auto* header = new (channel->own_memory_->data()) SegmentHeader;
  header->ring_bytes = ring_bytes;
  channel->own_doorbell_ = UniqueFd(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!channel->own_doorbell_.valid()) return Status::System("eventfd", errno);
  return channel;
}

Expected<LocalExchange::Message> Channel::MakeOffer(int watch_fd, uint32_t watch_index,
                                                    int lane_fd) const {
  LocalExchange::Message message = MakeVerdict(Verdict::kWelcome);
  Offer offer;
  offer.ring_bytes = ring_bytes_;
  offer.watch_index = watch_index;
  offer.has_lane = lane_fd >= 0 ? 1 : 0;
  std::memcpy(message.bytes.data(), &offer, sizeof offer);
  for (const int fd : {segment_fd_.get(), own_doorbell_.get(), watch_fd, lane_fd}) {
    if (fd == lane_fd && lane_fd < 0) break;
    message.fds.push_back(Duplicate(fd));
    if (!message.fds.back().valid()) return Status::System("duplicating a descriptor", errno);
  }
  return message;
}

LocalExchange::Message Channel::MakeVerdict(Verdict verdict) {
  LocalExchange::Message message;
  Offer offer;
  offer.verdict = verdict;
  message.bytes.resize(sizeof offer);
  std::memcpy(message.bytes.data(), &offer, sizeof offer);
  return message;
}

Expected<Channel::Offer> Channel::ParseOffer(const LocalExchange::Message& message) {
  Offer offer;
  if (message.bytes.size() != sizeof offer)
    return Status(Code::kPeer, "the peer's shared-memory offer is malformed");
  std::memcpy(&offer, message.bytes.data(), sizeof offer);
  if (offer.magic != Offer::kMagic || offer.verdict > Verdict::kTryAgain) {
    return Status(Code::kPeer, "the peer's shared-memory offer is malformed");
  }
  if (offer.verdict != Verdict::kWelcome) return offer;
  if (offer.has_lane > 1 || message.fds.size() != kFds + offer.has_lane ||
      !std::has_single_bit(offer.ring_bytes) || offer.ring_bytes < kRingBytesMin ||
      offer.ring_bytes > kRingBytesMax) {
    return Status(Code::kPeer, "the peer's shared-memory offer is malformed");
  }
  return offer;
}

Status Channel::Attach(const Offer& offer, LocalExchange::Message* message, UniqueFd socket,
                       std::shared_ptr<const ExportedMemory> exports) {
  const size_t bytes = kRingOffset + offer.ring_bytes;
  auto memory = MapSealedMemory(message->fds[0], bytes, bytes);
  if (!memory.ok()) return memory.status();
  peer_memory_ = std::move(*memory);
  if (peer()->magic != SegmentHeader::kMagic || peer()->ring_bytes != offer.ring_bytes) {
    return {Code::kPeer, "the peer's segment has an unknown layout"};
  }
  if (!IsEventFd(message->fds[1].get()))
    return {Code::kPeer, "the peer's doorbell is not an eventfd"};
  if (!NeverBlocks(message->fds[1].get())) return Status::System("the peer's doorbell", errno);
  peer_doorbell_ = std::move(message->fds[1]);
  socket_ = std::move(socket);
  peer_ring_bytes_ = offer.ring_bytes;
  writer_.emplace(own(), peer(), ring_bytes_);
  reader_.emplace(own(), peer(), peer_ring_bytes_);
  lender_.emplace(own(), peer(), exports);
  borrower_.emplace(own(), peer(), std::move(exports));
  segment_fd_.Reset();  // passed on by now; nobody else shall have it
  return {};
}

void Channel::CloseDescriptors() {
  segment_fd_.Reset();
  own_doorbell_.Reset();
  peer_doorbell_.Reset();
  socket_.Reset();
}

void Channel::Ring(uint32_t bit) {
  const uint32_t sleeping = peer()->sleeping.load(std::memory_order_seq_cst);
  if ((sleeping & bit) == 0 || sleeping == last_rung_) return;
  last_rung_ = sleeping;
  const uint64_t one = 1;
  // Not by write(), where a thread that is cancelled ends.
  [[maybe_unused]] const long put =
      ::syscall(SYS_write, peer_doorbell_.get(), &one, sizeof one);
}

void Channel::Nap(uint32_t bits) {
  nap_ += kNapUnit;
  own()->sleeping.store(nap_ | bits, std::memory_order_seq_cst);
}

void Channel::Awake() { own()->sleeping.store(0, std::memory_order_release); }

void Channel::ClearDoorbell() {
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = ::read(own_doorbell_.get(), &count, sizeof count);
}

uint64_t Channel::PushRecord(uint64_t end) {
  records_.push_back({end, false});
  return first_record_ + records_.size() - 1;
}

void Channel::RecordDone(uint64_t number) {
  records_[number - first_record_].done = true;
  if (number != first_record_) return;
  uint64_t end = 0;
  while (!records_.empty() && records_.front().done) {
    end = records_.front().end;
    records_.pop_front();
    ++first_record_;
  }
  reader_->Done(end);
  RingIfOpen(kWakeOnTail);
}

}  // namespace ftar::transport::shm
