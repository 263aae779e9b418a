// Goal: what a peer says of its memory is believed only where it makes sense, and a loan that was
// taken back is known for it.
#include "transport/shm/loans.h"

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
  // The block is mapped at the other end when this has been tried twice.
  Reference Lend(size_t offset = 0, size_t bytes = 4096) {
    Reference reference;
    for (int i = 0; i < 3; ++i) {
      if (lender.Lend({block + offset, bytes}, lender_socket.get(), &reference)) break;
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
  Borrower borrower{borrower_words.get(), lender_words.get()};
};

TEST_F(Loans, NothingIsLentBeforeThePeerHasMappedIt) {
  Reference reference;
  EXPECT_FALSE(lender.Lend({block, 4096}, lender_socket.get(), &reference));
  EXPECT_FALSE(lender.Lend({block, 4096}, lender_socket.get(), &reference)) << "it was only told";
  EXPECT_EQ(borrower.Listen(borrower_socket.get()), Borrower::Socket::kOpen);
  EXPECT_TRUE(lender.Lend({block, 4096}, lender_socket.get(), &reference));
  std::byte elsewhere[4096];
  EXPECT_FALSE(lender.Lend(elsewhere, lender_socket.get(), &reference));
  EXPECT_FALSE(lender.Lend({block + kBytes - 1, 4096}, lender_socket.get(), &reference));
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

TEST_F(Loans, AFreedBlockIsUnmappedAtThePeer) {
  const Reference reference = Lend();
  const std::weak_ptr<const MappedMemory> mapped = borrower.Take(reference)->memory;
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
