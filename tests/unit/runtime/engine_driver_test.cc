// Goal: what a peer says in pieces is whole, whatever its link and its memory do meanwhile; and who
// can go on no more has told so where others read, before it touches what they read.
#include "runtime/engine_driver.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "wire/codec.h"

namespace ftar::runtime {
namespace {

using transport::Completion;

const MemberId kPeer{1, 2};

class SilentLink : public transport::Link {
 public:
  MemberId peer() const override { return kPeer; }
  void Send(const wire::FrameHeader&, std::span<const std::byte>, std::span<const std::byte>, bool,
            uint64_t) override {}
  void CancelOp(uint32_t, uint64_t) override {}
  void FinishOp(uint32_t, uint64_t) override {}
  void TakeBack() override { ++taken_back; }
  void Release(uint64_t) override { ++released; }
  Detached Detach(uint64_t) override { return {}; }
  size_t hold_bytes_max() const override { return size_t{1} << 30; }
  bool busy() const override { return false; }
  bool down() const override { return false; }
  std::string Describe() const override { return "silent"; }

  int released = 0, taken_back = 0;
};

// Says what a test has it say.
class ToldDevice : public transport::Device {
 public:
  const char* name() const override { return "told"; }
  std::string address() const override { return ""; }
  bool Reaches(const wire::MemberCard&) const override { return true; }
  transport::Link* Connect(const wire::MemberCard&, TimeNs) override { return &link; }
  void Revoke(MemberId) override {}
  void Forget(MemberId) override {}
  transport::Link* Find(MemberId) override { return &link; }
  bool Poll(TimeNs, size_t, std::vector<Completion>* out) override {
    *out = std::exchange(says, {});
    return !out->empty();
  }
  int wait_fd() const override { return -1; }
  bool PrepareSleep() override { return true; }
  void FinishSleep() override {}
  TimeNs next_deadline() const override { return kNever; }
  Counters counters() const override { return {}; }
  void CloseInForkedChild() override {}
  void Close() override {}

  SilentLink link;
  std::vector<Completion> says;
};

class NobodyHost : public DriverHost {
 public:
  Op* FindOp(GroupKey, Seq) override { return nullptr; }
  void SendToCoordinator(const wire::Message&) override {}
  void OnStarted(const engine::Started&) override {}
  void OnDelivered(GroupKey, collective::Outcome&&) override {}
  void NoteFast(const collective::Outcome&) override {}
  void OnDeliveredFast(TimeNs) override {}
  void OnStep(const engine::StepBegun&) override {}
  void OnNotice(const engine::Notice&) override {}
  void OnViewChanged() override {}
  void OnPathLost(MemberId, const Status&) override {}
  void OnPeerExited(MemberId) override {}
};

class EngineDriverTest : public testing::Test {
 protected:
  EngineDriverTest() { Make(nullptr); }
  void Make(HostLane* lane) {
    auto device = std::make_unique<ToldDevice>();
    device_ = device.get();
    Devices devices;
    devices.push_back(std::move(device));
    engine::Config config;
    config.job = "pieces";
    config.self.id = {1, 1};
    config.replicas = 2;
    config.group.lane = lane;
    driver_ = std::make_unique<EngineDriver>(std::move(config), std::move(devices), nullptr, lane,
                                             &host_, &log_);
    Say(Completion::Kind::kUp);
  }
  void Say(Completion::Kind kind) { Hear(Of(kind)); }
  void SayPiece(std::span<const std::byte> bytes, uint64_t offset, bool more) {
    Completion completion = Of(Completion::Kind::kReceived);
    completion.header.kind = wire::FrameKind::kControl;
    completion.header.flags = more ? wire::kFrameMore : 0;
    completion.header.offset = offset;
    completion.header.payload_bytes = static_cast<uint32_t>(bytes.size());
    completion.payload = bytes;
    Hear(std::move(completion));
  }
  Completion Of(Completion::Kind kind) {
    Completion completion;
    completion.kind = kind;
    completion.link = &device_->link;
    completion.peer = kPeer;
    return completion;
  }
  void Hear(Completion completion) {
    device_->says.push_back(std::move(completion));
    driver_->Poll(++now_);
  }
  // Nothing that it said was wrong.
  bool IsHeard() const { return driver_->Links().at(0).up; }

  NobodyHost host_;
  Logger log_;
  ToldDevice* device_ = nullptr;
  std::unique_ptr<EngineDriver> driver_;
  TimeNs now_ = 0;
};

std::vector<std::byte> LongMessage() {
  wire::ColumnVerdicts verdicts;
  verdicts.marks.resize(200);
  return wire::Encode(verdicts);
}

TEST_F(EngineDriverTest, APathThatComesBackLosesNoPieceOfAMessage) {
  const std::vector<std::byte> message = LongMessage();
  const size_t half = message.size() / 2;
  SayPiece({message.data(), half}, 0, true);
  Say(Completion::Kind::kPathLost);
  Say(Completion::Kind::kUp);
  SayPiece({message.data() + half, message.size() - half}, half, false);
  EXPECT_TRUE(IsHeard());
  EXPECT_EQ(device_->link.released, 2);
}

TEST_F(EngineDriverTest, ALinkThatBeginsAnewBeginsWithAMessage) {
  const std::vector<std::byte> message = LongMessage();
  SayPiece({message.data(), message.size() / 2}, 0, true);
  Say(Completion::Kind::kDown);
  Say(Completion::Kind::kUp);
  SayPiece(message, 0, false);
  EXPECT_TRUE(IsHeard());
}

// What it said behind that was not heard: to take the word back would be to wait for it for good.
TEST_F(EngineDriverTest, WhoHasSaidNoMessageIsNotHeardAgainByThatLink) {
  const std::vector<std::byte> message = LongMessage();
  SayPiece(message, 7, false);
  EXPECT_FALSE(IsHeard());
  Say(Completion::Kind::kPathLost);
  Say(Completion::Kind::kUp);
  EXPECT_FALSE(IsHeard());
  Say(Completion::Kind::kDown);
  Say(Completion::Kind::kUp);
  EXPECT_TRUE(IsHeard());
}

// As a peer of this host that writes to its ring behind its head: through a mapping of its own, so
// that ThreadSanitizer takes it for the other process that it stands for.
TEST_F(EngineDriverTest, AMessageThatChangesWhileItIsReadHarmsNobody) {
  const std::vector<std::byte> message = LongMessage();
  constexpr size_t kBytes = 64 * 1024;
  ASSERT_LE(message.size(), kBytes);
  auto sealed = transport::CreateSealedMemory("ring", kBytes, transport::Pages::kNow);
  ASSERT_TRUE(sealed.ok());
  auto seen = transport::MapSealedMemory(sealed->fd, kBytes, kBytes);
  ASSERT_TRUE(seen.ok());
  std::memcpy(sealed->memory->data(), message.data(), message.size());
  std::atomic<bool> over{false};
  std::thread peer([&] {
    // Every word in turn points, or reaches, far outside.
    const uint32_t far = 0x7ffffff0;
    for (size_t at = 0; !over; at = (at + 4) % (message.size() / 4 * 4)) {
      std::memcpy(sealed->memory->data() + at, &far, sizeof far);
      for (int i = 0; i < 20; ++i) std::atomic_signal_fence(std::memory_order_seq_cst);
      std::memcpy(sealed->memory->data() + at, message.data() + at, sizeof far);
    }
  });
  for (int i = 0; i < 20'000; ++i) {
    SayPiece({(*seen)->data(), message.size()}, 0, false);
    if (IsHeard()) continue;
    Say(Completion::Kind::kDown);
    Say(Completion::Kind::kUp);
  }
  over = true;
  peer.join();
}

// The peer is not to blame where what links take runs out here; if it was to say so first it would
// be out.
TEST_F(EngineDriverTest, ALinkThatThisSystemEndsIsNobodyElsesFault) {
  const auto end = [this](Code code) {
    Completion completion = Of(Completion::Kind::kDown);
    completion.status = {code, "epoll_ctl: No space left on device"};
    Hear(std::move(completion));
    return engine::IsOver(driver_->engine().phase());
  };
  EXPECT_FALSE(end(Code::kLink));
  EXPECT_FALSE(end(Code::kSystem)) << "it was not up";
  Say(Completion::Kind::kUp);
  EXPECT_TRUE(end(Code::kSystem));
}

// What follows may take long, and writes over what was lent: inputs come back first of all.
TEST_F(EngineDriverTest, WhoHasNoMemoryTakesBackAtOnceWhatOthersRead) {
  auto memory = *transport::LaneMemory::Create({1, 1});
  const auto peers = *transport::LaneMemory::Create(kPeer);
  ASSERT_TRUE(peers->Map({1, 1}, transport::UniqueFd(dup(memory->fd()))).ok());
  HostLane lane(std::move(memory), 1);
  Make(&lane);
  const int segment = peers->SegmentOf({1, 1});
  const Epoch era = MakeEpoch(1'000'000, 0);
  EXPECT_FALSE(peers->FlagUp({&segment, 1}, era));
  driver_->Break();
  EXPECT_TRUE(peers->FlagUp({&segment, 1}, era));
  EXPECT_EQ(device_->link.taken_back, 1);
  driver_->Break();
  EXPECT_EQ(device_->link.taken_back, 1);
  driver_.reset();  // before its lane
}

}  // namespace
}  // namespace ftar::runtime
