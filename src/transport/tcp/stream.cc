#include "transport/tcp/stream.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/copy.h"
#include "base/crc32c.h"

namespace ftar::transport::tcp {
namespace {

constexpr size_t kHeaderBytes = sizeof(wire::FrameHeader);
constexpr size_t kPlacedBytesMin = 4096;  // below that finding out where costs as much as a copy
// What may follow a long body is long as well, most likely: its header, and little that would have
// to be copied out of staging again.
constexpr size_t kBehindBytes = 1024;
// Little is copied together: the kernel takes one buffer 0.4 us sooner than a list of them.
constexpr size_t kTogetherBytesMax = 2048;

uint32_t HeaderCrc(wire::FrameHeader header) {
  header.header_crc = 0;
  return Crc32c(0, &header, sizeof header);
}

iovec Iovec(const std::byte* data, size_t bytes) { return {const_cast<std::byte*>(data), bytes}; }

}  // namespace

void StampFrame(OutFrame* frame, uint64_t number, uint64_t ack, bool crc) {
  wire::FrameHeader& header = frame->header;
  header.ext_bytes = static_cast<uint32_t>(frame->ext.size());
  header.payload_bytes = static_cast<uint32_t>(frame->payload.size());
  header.link_seq = number;
  header.link_ack = ack;
  if (!frame->body_crc_known) {
    header.body_crc = frame->ext.empty() ? 0 : Crc32c(0, frame->ext.data(), frame->ext.size());
    if (crc && !frame->payload.empty()) {
      header.body_crc = Crc32c(header.body_crc, frame->payload.data(), frame->payload.size());
      header.flags |= wire::kFrameHasCrc;
    }
    frame->body_crc_known = true;
  }
  header.header_crc = HeaderCrc(header);
}

Stream::Stream(UniqueFd fd, BufferPool* pool, Place place, Known known)
    : fd_(std::move(fd)),
      pool_(pool),
      place_(std::move(place)),
      known_(std::move(known)),
      staging_(std::make_unique<std::byte[]>(kStagingBytes)) {}

void Stream::Preload(std::span<const std::byte> bytes) {
  staging_end_ = std::min(bytes.size(), kStagingBytes);
  std::copy_n(bytes.begin(), staging_end_, staging_.get());
}

Status Stream::Read(size_t budget_bytes, std::vector<Arrived>* out) {
  if (staging_begin_ < staging_end_) FTAR_RETURN_IF_ERROR(Parse(out));  // preloaded
  size_t total = 0;
  while (total < budget_bytes) {
    // The body's remainder goes to its place; what follows it to staging_, which Parse has emptied.
    iovec iov[3];
    size_t count = in_body_ ? BodyIovecs(iov) : 0;
    size_t direct = 0;
    for (size_t i = 0; i < count; ++i) direct += iov[i].iov_len;
    const bool long_comes = in_body_ ? direct > kStagingBytes : long_came_;
    const size_t room = long_comes ? kBehindBytes : kStagingBytes;
    iov[count++] = {staging_.get(), room};
    const ssize_t got = count == 1 ? ::recv(fd_.get(), staging_.get(), room, 0)
                                   : ::readv(fd_.get(), iov, static_cast<int>(count));
    if (got == 0) return {Code::kLink, "the peer closed the connection"};
    if (got < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return {};
      return {Code::kLink, Status::System("reading", errno).text()};
    }
    const size_t bytes = static_cast<size_t>(got);
    total += bytes;
    const size_t to_body = std::min(bytes, direct);
    if (to_body > 0) CountBody(to_body);
    staging_begin_ = 0;
    staging_end_ = bytes - to_body;
    FTAR_RETURN_IF_ERROR(Parse(out));
    if (bytes < direct + room)
      return {};  // the socket is empty, most likely; if not, epoll says so again
  }
  return {};
}

Status Stream::Parse(std::vector<Arrived>* out) {
  while (true) {
    if (in_body_) {
      const size_t bytes = std::min(body_bytes() - body_have_, staging_end_ - staging_begin_);
      AddToBody(staging_.get() + staging_begin_, bytes);
      staging_begin_ += bytes;
      if (body_have_ < body_bytes()) return {};
      FTAR_RETURN_IF_ERROR(FinishFrame(out));
    }
    if (staging_begin_ == staging_end_) return {};
    const size_t bytes = std::min(kHeaderBytes - header_have_, staging_end_ - staging_begin_);
    std::memcpy(reinterpret_cast<std::byte*>(&current_.header) + header_have_,
                staging_.get() + staging_begin_, bytes);
    header_have_ += bytes;
    staging_begin_ += bytes;
    if (header_have_ < kHeaderBytes) return {};
    FTAR_RETURN_IF_ERROR(BeginBody());
  }
}

Status Stream::BeginBody() {
  if (const Status status = wire::ValidateHeader(current_.header); !status.ok())
    return {Code::kCorrupt, status.text()};
  // A false length would take what follows for its body, as long as it lasts, and the peer would
  // wait for our acknowledgements.
  if (HeaderCrc(current_.header) != current_.header.header_crc)
    return {Code::kCorrupt, "a frame header's CRC is wrong"};
  in_body_ = true;
  body_have_ = 0;
  body_crc_ = 0;
  current_.placed = FindPlace();
  if (body_bytes() > 0 && current_.placed == nullptr) {
    current_.memory =
        pool_->Get(Arrived::PaddedExt(current_.header.ext_bytes) + current_.header.payload_bytes);
    if (current_.memory.empty())
      return {Code::kMemory, "no memory for a frame of " + std::to_string(body_bytes()) + " bytes"};
  }
  return {};
}

// Nothing is written to foreign memory that the header's CRC does not vouch for; nor, where an ext
// comes first, whose own is in the body's.
std::byte* Stream::FindPlace() const {
  const wire::FrameHeader& header = current_.header;
  if (!place_ || header.ext_bytes > 0 || header.payload_bytes < kPlacedBytesMin) return nullptr;
  return place_(header);
}

bool Stream::Unplace(uint32_t group, uint64_t seq) {
  const bool of_it = current_.header.group == group && current_.header.seq == seq;
  return !of_it || UnplaceAny();
}

bool Stream::UnplaceNumber(uint64_t number) { return !Places(number) || UnplaceAny(); }

bool Stream::UnplaceAny() {
  if (!in_body_ || current_.placed == nullptr) return true;
  // Whoever asks does not want this frame any more: what has come of it need not come along.
  current_.memory = pool_->Get(current_.header.payload_bytes);
  if (current_.memory.empty()) return false;
  current_.placed = nullptr;
  return true;
}

// Of a frame that is sent again although it has come, nothing but the header is used: its operation
// goes on meanwhile, and in place it may write its result where that payload is read.
Status Stream::FinishFrame(std::vector<Arrived>* out) {
  const bool damaged = body_crc_ != current_.header.body_crc;
  if (damaged && !(known_ && known_(current_.header.link_seq)))
    return {Code::kCorrupt, "the CRC of what follows a frame's header is wrong"};
  if (body_bytes() > 0) long_came_ = body_bytes() > kStagingBytes;
  out->push_back(std::move(current_));
  header_have_ = 0;
  in_body_ = false;
  return {};
}

size_t Stream::BodyIovecs(iovec* iov) const {
  const size_t ext_bytes = current_.header.ext_bytes;
  const std::byte* const ext = current_.memory.data();
  size_t count = 0;
  if (body_have_ < ext_bytes) iov[count++] = Iovec(ext + body_have_, ext_bytes - body_have_);
  const size_t payload_have = body_have_ > ext_bytes ? body_have_ - ext_bytes : 0;
  if (current_.header.payload_bytes > payload_have) {
    iov[count++] = Iovec(current_.payload().data() + payload_have,
                         current_.header.payload_bytes - payload_have);
  }
  return count;
}

void Stream::AddToBody(const std::byte* data, size_t bytes) {
  if (bytes == 0) return;
  iovec iov[2];
  const size_t count = BodyIovecs(iov);
  size_t done = 0;
  for (size_t i = 0; i < count && done < bytes; ++i) {
    const size_t part = std::min(iov[i].iov_len, bytes - done);
    CopyShort(iov[i].iov_base, data + done, part);
    done += part;
  }
  CountBody(bytes);
}

// Adds to the CRC what has just come in, while it is in the cache.
void Stream::CountBody(size_t bytes) {
  const size_t ext_bytes = current_.header.ext_bytes;
  const size_t from = std::min(body_have_, ext_bytes), before = body_have_ - from;
  body_have_ += bytes;
  const size_t to = std::min(body_have_, ext_bytes), after = body_have_ - to;
  if (to > from) body_crc_ = Crc32c(body_crc_, current_.memory.data() + from, to - from);
  if ((current_.header.flags & wire::kFrameHasCrc) != 0 && after > before)
    body_crc_ = Crc32c(body_crc_, current_.payload().data() + before, after - before);
}

void Stream::Queue(OutFrame* frame) {
  queue_.push_back(frame);
  queued_bytes_ += frame->wire_bytes();
}

void Stream::RecountQueue() {
  queued_bytes_ = 0;
  for (const OutFrame* frame : queue_) queued_bytes_ += frame->wire_bytes();
  queued_bytes_ -= offset_;
}

Status Stream::Write(size_t bytes_max) {
  blocked_ = false;
  for (size_t written = 0; !queue_.empty() && written < bytes_max;) {
    const ssize_t sent = Send(bytes_max - written);
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS || errno == ENOMEM) {
        blocked_ = true;
        return {};
      }
      return {Code::kLink, Status::System("writing", errno).text()};
    }
    written += static_cast<size_t>(sent);
    AdvanceOutput(static_cast<size_t>(sent));
  }
  return {};
}

ssize_t Stream::Send(size_t bytes_max) const {
  iovec iov[kIovecsMax];
  msghdr message{};
  message.msg_iov = iov;
  message.msg_iovlen = GatherOutput(bytes_max, iov);
  const std::span<const iovec> parts(iov, message.msg_iovlen);
  size_t bytes = 0;
  for (const iovec& part : parts) bytes += part.iov_len;
  if (bytes > kTogetherBytesMax) return ::sendmsg(fd_.get(), &message, MSG_NOSIGNAL);
  std::byte together[kTogetherBytesMax];
  std::byte* end = together;
  for (const iovec& part : parts) {
    CopyShort(end, part.iov_base, part.iov_len);
    end += part.iov_len;
  }
  return ::send(fd_.get(), together, bytes, MSG_NOSIGNAL);
}

size_t Stream::GatherOutput(size_t bytes_max, iovec* iov) const {
  size_t count = 0, total = 0, skip = offset_;
  for (const OutFrame* frame : queue_) {
    const iovec parts[3] = {Iovec(reinterpret_cast<const std::byte*>(&frame->header), kHeaderBytes),
                            Iovec(frame->ext.data(), frame->ext.size()),
                            Iovec(frame->payload.data(), frame->payload.size())};
    if (count + 3 > kIovecsMax || total >= bytes_max) break;
    for (const iovec& part : parts) {
      if (part.iov_len <= skip) {
        skip -= part.iov_len;
        continue;
      }
      const size_t bytes = std::min(part.iov_len - skip, bytes_max - total);
      iov[count++] = {static_cast<std::byte*>(part.iov_base) + skip, bytes};
      total += bytes;
      if (total == bytes_max) return count;
      skip = 0;
    }
  }
  return count;
}

void Stream::AdvanceOutput(size_t bytes) {
  queued_bytes_ -= bytes;
  offset_ += bytes;
  while (!queue_.empty() && offset_ >= queue_.front()->wire_bytes()) {
    offset_ -= queue_.front()->wire_bytes();
    written_.push_back(queue_.front());
    queue_.pop_front();
  }
}

}  // namespace ftar::transport::tcp
