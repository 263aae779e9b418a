// Fuzz target for the reader of a tcp stream: honest frames, cut into any pieces, with bytes
// changed on the wire. What was not touched arrives as it was sent; what was is an error, never
// another frame.
#include <sys/socket.h>

#include <deque>

#include "tests/fuzz/input.h"
#include "transport/tcp/stream.h"

namespace {

using ftar::fuzz::Input;
using ftar::fuzz::Require;
using ftar::transport::OutFrame;
using ftar::transport::tcp::Arrived;
using ftar::transport::tcp::Stream;

std::vector<std::byte> HonestFrame(Input* input, uint64_t number) {
  OutFrame frame;
  frame.header.kind = static_cast<ftar::wire::FrameKind>(1 + input->Below(5));
  frame.header.seq = input->Number();
  frame.ext.resize(input->Below(64));
  std::vector<std::byte> payload(input->Byte() * 16u, std::byte{input->Byte()});
  frame.payload = payload;
  ftar::transport::tcp::StampFrame(&frame, number, 0, true);
  std::vector<std::byte> bytes(frame.wire_bytes());
  std::memcpy(bytes.data(), &frame.header, sizeof frame.header);
  std::copy(frame.ext.begin(), frame.ext.end(), bytes.begin() + sizeof frame.header);
  std::copy(payload.begin(), payload.end(), bytes.end() - static_cast<ptrdiff_t>(payload.size()));
  return bytes;
}

struct Sent {
  std::vector<std::byte> bytes;
  bool damaged = false;
};

void Compare(const Arrived& got, const Sent& sent) {
  Require(!sent.damaged);
  Require(std::memcmp(&got.header, sent.bytes.data(), sizeof got.header) == 0);
  const auto payload = got.payload();
  Require(std::equal(payload.begin(), payload.end(),
                     sent.bytes.end() - static_cast<ptrdiff_t>(payload.size())));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0) return 0;
  const ftar::transport::UniqueFd writer(ends[0]);
  ftar::transport::BufferPool pool(1 << 20);
  Stream stream(ftar::transport::UniqueFd(ends[1]), &pool);
  std::deque<Sent> under_way;
  uint64_t number = 0;
  for (int round = 0; round < 50 && !input.empty(); ++round) {
    Sent sent{HonestFrame(&input, number++)};
    if (input.Below(8) == 0) {
      const std::byte flip{input.Byte()};
      sent.bytes[input.Word() % sent.bytes.size()] ^= flip;
      sent.damaged = flip != std::byte{0};
    }
    under_way.push_back(sent);
    std::vector<Arrived> arrived;
    for (size_t at = 0; at < sent.bytes.size();) {
      const size_t piece = std::min<size_t>(sent.bytes.size() - at, 1 + input.Byte() * 8u);
      if (send(writer.get(), sent.bytes.data() + at, piece, MSG_NOSIGNAL) <= 0) return 0;
      at += piece;
      const ftar::Status status = stream.Read(1 << 20, &arrived);
      for (const Arrived& frame : arrived) {
        Require(!under_way.empty());
        Compare(frame, under_way.front());
        under_way.pop_front();
      }
      arrived.clear();
      if (!status.ok()) {
        Require(!under_way.empty() && under_way.front().damaged);
        return 0;
      }
    }
  }
  return 0;
}
