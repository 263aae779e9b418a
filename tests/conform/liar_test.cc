// Goal: a peer that has proved the token and lies on the wire harms nobody but itself.
#include "tests/conform/harness.h"
#include "transport/tcp/handshake.h"
#include "transport/tcp/stream.h"
#include "wire/addresses.h"

namespace ftar::conform {
namespace {

using transport::tcp::Handshake;

// Speaks for member 1 to `to`, one frame after the other.
class TcpLiar {
 public:
  explicit TcpLiar(Node* to) : to_(to) {
    const Variant variant{"tcp", "tcp", 1, ""};
    const auto address = transport::tcp::ParseAddress(wire::FindAddress(to->card.addresses, "tcp"));
    int error = 0;
    transport::tcp::LinkHello hello;
    hello.streams = hello.fresh = 1;
    Handshake handshake(BaseConfig(variant, 1),
                        transport::tcp::Dial(*address, *address, "", &error), to->card.id, hello,
                        address->Text());
    const bool done = PumpUntil({to_}, [&] {
      handshake.OnReady();
      return handshake.state() == Handshake::State::kDone;
    });
    EXPECT_TRUE(done) << handshake.status().text();
    stream_ = std::make_unique<transport::tcp::Stream>(std::move(handshake.fd_owner()), &pool_);
  }
  // False if nobody takes it.
  bool Send(transport::OutFrame* frame, uint64_t number) {
    transport::tcp::StampFrame(frame, number, 0, true);
    stream_->Queue(frame);
    const bool written = PumpUntil({to_}, [&] {
      return !stream_->Write(1u << 20).ok() || stream_->queued_bytes() == 0 || to_->Down();
    });
    return written && stream_->queued_bytes() == 0;
  }

 private:
  Node* const to_;
  transport::BufferPool pool_;
  std::unique_ptr<transport::tcp::Stream> stream_;
};

TEST(TcpLiarTest, WhatComesAheadCountsWithWhatLiesBeforeItsPayload) {
  Node node(Variant{"tcp", "tcp", 1, ""}, 2);
  TcpLiar liar(&node);
  ASSERT_FALSE(testing::Test::HasFailure());
  // Honest peers have no more under way than the credit: 64 MiB. Frame 0 never comes.
  constexpr uint64_t kFrames = (256u << 20) / wire::kExtBytesMax;
  transport::OutFrame frame;
  frame.ext.resize(wire::kExtBytesMax);
  for (uint64_t number = 1; number <= kFrames && !node.Down(); ++number) {
    if (!liar.Send(&frame, number)) break;
  }
  ASSERT_TRUE(PumpUntil(
      {&node}, [&] { return node.Down(); }, kSecond));
  EXPECT_EQ(node.Last(Completion::Kind::kDown)->status.code(), Code::kCorrupt);
}

}  // namespace
}  // namespace ftar::conform
