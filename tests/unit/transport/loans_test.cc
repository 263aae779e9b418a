// Goal: what a peer says of its memory is believed only where it makes sense, and a loan that was
// taken back is known for it.
#include "transport/shm/loans.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <cstring>
#include <memory>

#include "transport/fd.h"

namespace ftar::transport::shm {
namespace {

constexpr size_t kBytes = 64 * 1024;

// Both ends over plain memory and a pair of sockets.
class Loans : public testing::Test {
 protected:
  Loans() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    lender_socket = UniqueFd(ends[0]);
    borrower_socket = UniqueFd(ends[1]);
    block = *exports->Allocate(kBytes);
    borrower.Begin();
  }
  Lender::Way TryLend(std::span<const std::byte> payload, Reference* reference) {
    return lender.Lend(payload, lender_socket.get(), reference);
  }
  // The block is mapped at the other end when this has been tried twice.
  Reference Lend(size_t offset = 0, size_t bytes = 4096) {
    Reference reference;
    for (int i = 0; i < 3; ++i) {
      if (TryLend({block + offset, bytes}, &reference) == Lender::Way::kLent) break;
      EXPECT_EQ(borrower.Listen(borrower_socket.get()), Borrower::Socket::kOpen);
      EXPECT_LT(i, 2);
    }
    lender.Lent(reference, {}, 9);
    return reference;
  }

  UniqueFd lender_socket, borrower_socket;
  std::unique_ptr<SegmentHeader> lender_words = std::make_unique<SegmentHeader>();
  std::unique_ptr<SegmentHeader> borrower_words = std::make_unique<SegmentHeader>();
  std::shared_ptr<ExportedMemory> exports = std::make_shared<ExportedMemory>();
  std::byte* block = nullptr;
  Lender lender{lender_words.get(), borrower_words.get(), exports};
  Borrower borrower{borrower_words.get(), lender_words.get(), exports};
};

// A full ring; or a link that fails, and takes all back by itself.
TEST_F(Loans, AReferenceThatDoesNotGoOutIsNoLoan) {
  const Reference first = Lend();
  lender.Unsent();
  EXPECT_TRUE(lender.idle());
  const Reference second = Lend();
  EXPECT_EQ(second.slot, first.slot);
  EXPECT_TRUE(borrower.Intact(second));
  lender.RecallAll();
  lender.Unsent();
  EXPECT_TRUE(lender.idle());
}

TEST_F(Loans, NothingIsLentBeforeThePeerHasMappedIt) {
  Reference reference;
  EXPECT_EQ(TryLend({block, 4096}, &reference), Lender::Way::kCopy);
  EXPECT_EQ(TryLend({block, 4096}, &reference), Lender::Way::kCopy) << "it was only told";
  EXPECT_EQ(borrower.Listen(borrower_socket.get()), Borrower::Socket::kOpen);
  EXPECT_EQ(TryLend({block, 4096}, &reference), Lender::Way::kLent);
  std::byte elsewhere[4096];
  EXPECT_EQ(TryLend(elsewhere, &reference), Lender::Way::kCopy);
  EXPECT_EQ(TryLend({block + kBytes - 1, 4096}, &reference), Lender::Way::kCopy);
}

// Nobody here can copy a GPU's memory: the sender asks first, and what was promised is kept.
TEST_F(Loans, AGpusMemoryIsLentOnceThePeerHasAGpuToMapItWith) {
  std::byte* const device = block + 8 * 4096;  // stands for addresses that nobody may follow
  exports->Free(block);
  auto there = std::make_shared<int>(0);
  exports->Add(device, kBytes / 2, UniqueFd(::dup(lender_socket.get())), there);
  EXPECT_FALSE(lender.LendsDevice({device, 4096}, lender_socket.get()));
  EXPECT_EQ(borrower.Listen(borrower_socket.get()), Borrower::Socket::kOpen);
  borrower.MapWaiting();
  EXPECT_FALSE(lender.LendsDevice({device, 4096}, lender_socket.get())) << "no GPU there yet";
  Reference reference;
  EXPECT_EQ(TryLend({device, 4096}, &reference), Lender::Way::kWait);
  static std::byte mapped[kBytes];
  exports->SetImporter([](int fd, size_t bytes) -> Expected<std::shared_ptr<std::byte>> {
    EXPECT_GE(fd, 0);
    EXPECT_EQ(bytes, kBytes / 2);
    return std::shared_ptr<std::byte>(mapped, [](std::byte*) {});
  });
  borrower.MapWaiting();
  EXPECT_TRUE(lender.LendsDevice({device, 4096}, lender_socket.get()));
  EXPECT_FALSE(lender.LendsDevice({device, kBytes}, lender_socket.get())) << "beyond the block";
  ASSERT_EQ(TryLend({device + 100, 4096}, &reference), Lender::Way::kLent);
  lender.Lent(reference, {}, 9);
  const auto borrowed = borrower.Take(reference);
  ASSERT_TRUE(borrowed.ok());
  EXPECT_TRUE(borrowed->on_device);
  EXPECT_EQ(borrowed->payload.data(), mapped + 100);
  EXPECT_EQ(there.use_count(), 2);
  exports->Free(device);
  EXPECT_EQ(there.use_count(), 1);
}

int OpenDescriptors() {
  int open = 0;
  for (int fd = 0; fd < 1024; ++fd) open += ::fcntl(fd, F_GETFD) >= 0 ? 1 : 0;
  return open;
}

// A peer without a GPU keeps nothing of it, and the link goes on, however many there were.
TEST_F(Loans, AGpusBlockThatIsGoneBeforeItCouldBeMappedIsCountedAndForgotten) {
  static std::byte mapped[4][4096];
  const auto memory = [this](int i) { return block + i * 4096; };
  exports->Free(block);
  const auto show = [&](int i) {
    exports->Add(memory(i), 4096, UniqueFd(::dup(lender_socket.get())), nullptr);
    EXPECT_FALSE(lender.LendsDevice({memory(i), 4096}, lender_socket.get()));
    EXPECT_EQ(borrower.Listen(borrower_socket.get()), Borrower::Socket::kOpen);
  };
  const auto forget = [&](int i) {
    ASSERT_TRUE(exports->Free(memory(i)));
    lender.ForgetFreed(lender_socket.get());
    EXPECT_EQ(borrower.Listen(borrower_socket.get()), Borrower::Socket::kOpen);
  };
  const int before = OpenDescriptors();
  for (int round = 0; round < 5000; ++round) {  // more than a peer may show at once
    show(0);
    forget(0);
  }
  EXPECT_EQ(OpenDescriptors(), before);
  for (int i : {0, 1, 2, 3}) show(i);
  forget(2);  // behind one that stays
  forget(1);
  forget(0);
  for (int i : {0, 3}) EXPECT_FALSE(lender.LendsDevice({memory(i), 4096}, lender_socket.get()));
  exports->SetImporter([](int, size_t) -> Expected<std::shared_ptr<std::byte>> {
    return std::shared_ptr<std::byte>(mapped[0], [](std::byte*) {});
  });
  borrower.MapWaiting();
  EXPECT_TRUE(lender.LendsDevice({memory(3), 4096}, lender_socket.get()));
  show(1);
  EXPECT_TRUE(lender.LendsDevice({memory(1), 4096}, lender_socket.get()));
}

TEST_F(Loans, APeerWhoseGpuCannotMapItGetsCopiesThatItsSenderMakes) {
  std::byte* const device = block;
  exports->Free(block);
  exports->Add(device, kBytes, UniqueFd(::dup(lender_socket.get())), nullptr);
  exports->SetImporter([](int, size_t) -> Expected<std::shared_ptr<std::byte>> {
    return Status(Code::kDevice, "not reachable from this GPU");
  });
  EXPECT_FALSE(lender.LendsDevice({device, 4096}, lender_socket.get()));
  EXPECT_EQ(borrower.Listen(borrower_socket.get()), Borrower::Socket::kOpen);
  EXPECT_FALSE(lender.LendsDevice({device, 4096}, lender_socket.get()));
}

TEST_F(Loans, AReferenceOutsideOfWhatWasShownIsRefused) {
  Reference good = Lend(4096);
  EXPECT_TRUE(borrower.Take(good).ok());
  Reference bad = good;
  bad.offset = kBytes - 100;
  EXPECT_EQ(borrower.Take(bad).status().code(), Code::kCorrupt);
  bad.offset = UINT64_MAX;
  EXPECT_EQ(borrower.Take(bad).status().code(), Code::kCorrupt);
  bad = good;
  bad.slot = kLoansMax;
  EXPECT_EQ(borrower.Take(bad).status().code(), Code::kCorrupt);
  bad = good;
  bad.block = 77;
  EXPECT_EQ(borrower.Take(bad).status().code(), Code::kCorrupt);
  bad.age += 1;  // recalled, so that its block may be gone
  ASSERT_TRUE(borrower.Take(bad).ok());
  EXPECT_TRUE(borrower.Take(bad)->payload.empty());
}

TEST_F(Loans, ALateReturnIsNotThatOfTheNextLoan) {
  const Reference first = Lend();
  lender.RecallAll();
  EXPECT_FALSE(borrower.Intact(first));
  const Reference second = Lend();
  ASSERT_EQ(second.slot, first.slot);
  borrower.GiveBack(first);
  Lender::Returned returned;
  EXPECT_FALSE(lender.TakeReturned(&returned));
  EXPECT_TRUE(borrower.Intact(second));
  borrower.GiveBack(second);
  ASSERT_TRUE(lender.TakeReturned(&returned));
  EXPECT_EQ(returned.cookie, 9u);
  EXPECT_TRUE(lender.idle());
}

TEST_F(Loans, WhatWasTakenBackWaitsForNothing) {
  wire::FrameHeader header;
  header.kind = wire::FrameKind::kRaw;
  Lend();  // that is out for long, of another group
  header.group = 7;
  Reference reference;
  ASSERT_EQ(TryLend({block, 4096}, &reference), Lender::Way::kLent);
  lender.Lent(reference, header, 8);
  lender.Recall(7, 0);
  EXPECT_FALSE(lender.idle());
  lender.Recall(0, 0);
  EXPECT_TRUE(lender.idle());
}

TEST_F(Loans, WhatComesBackDoesNotWaitForWhatWasLentBefore) {
  Lend();  // that is out for long, of another group
  Reference reference;
  ASSERT_EQ(TryLend({block, 4096}, &reference), Lender::Way::kLent);
  lender.Lent(reference, {}, 8);
  Lender::Returned returned;
  EXPECT_FALSE(lender.HasReturned());
  EXPECT_FALSE(lender.TakeReturned(&returned, /*any=*/true));
  borrower.GiveBack(reference);
  EXPECT_TRUE(lender.HasReturned());
  EXPECT_FALSE(lender.TakeReturned(&returned)) << "the oldest is not back";
  ASSERT_TRUE(lender.TakeReturned(&returned, /*any=*/true));
  EXPECT_EQ(returned.cookie, 8u);
  EXPECT_FALSE(lender.HasReturned());
  EXPECT_FALSE(lender.idle());
}

TEST_F(Loans, AFreedBlockIsUnmappedAtThePeer) {
  const Reference reference = Lend();
  const std::weak_ptr<const void> mapped = borrower.Take(reference)->memory;
  borrower.GiveBack(reference);
  Lender::Returned returned;
  EXPECT_TRUE(lender.TakeReturned(&returned));
  ASSERT_TRUE(exports->Free(block));
  lender.ForgetFreed(lender_socket.get());
  EXPECT_FALSE(mapped.expired());
  EXPECT_EQ(borrower.Listen(borrower_socket.get()), Borrower::Socket::kOpen);
  EXPECT_TRUE(mapped.expired());
}

TEST_F(Loans, AForeignWordOnTheSocketIsCorrupt) {
  const char noise[24] = "not what is agreed upon";
  ASSERT_EQ(::send(lender_socket.get(), noise, sizeof noise, 0), ssize_t{sizeof noise});
  EXPECT_EQ(borrower.Listen(borrower_socket.get()), Borrower::Socket::kCorrupt);
}

TEST_F(Loans, AClosedSocketIsTheEnd) {
  lender_socket.Reset();
  EXPECT_EQ(borrower.Listen(borrower_socket.get()), Borrower::Socket::kClosed);
}

}  // namespace
}  // namespace ftar::transport::shm
