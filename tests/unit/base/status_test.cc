#include "base/status.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "base/ids.h"

namespace ftar {
namespace {

TEST(Status, OkCostsOneWordAndSaysSo) {
  EXPECT_EQ(sizeof(Status), sizeof(void*));
  EXPECT_TRUE(Status().ok());
  EXPECT_TRUE(Status(Code::kOk, "ignored").ok());
  EXPECT_EQ(Status().ToString(), "ok");
  EXPECT_EQ(Status().text(), "");
}

TEST(Status, CopiesAreEqualAndIndependent) {
  Status a(Code::kPeer, "replica 3", "gone");
  const Status b = a;
  a = Status::Ok();
  EXPECT_TRUE(a.ok());
  EXPECT_EQ(b.code(), Code::kPeer);
  EXPECT_EQ(b.ToString(), "peer [replica 3]: gone");
}

TEST(Status, SystemNamesTheError) {
  const Status status = Status::System("open /x", ENOENT);
  EXPECT_EQ(status.code(), Code::kSystem);
  EXPECT_EQ(status.text(), "open /x: No such file or directory");
}

// Every error code belongs to exactly one group, which is what callers branch on.
TEST(Code, GroupsPartitionTheErrors) {
  const Code codes[] = {Code::kArg,     Code::kVersion, Code::kMismatch,    Code::kAbsent,
                        Code::kLink,    Code::kCorrupt, Code::kPeer,        Code::kAuth,
                        Code::kEvicted, Code::kLeft,    Code::kCoordinator, Code::kQuorum,
                        Code::kMemory,  Code::kInternal};
  for (const Code c : codes) {
    const int groups = IsUsageError(c) + IsOpError(c) + IsLinkError(c) + IsPeerError(c) +
                       IsEpochError(c) + IsGroupError(c) + IsHostError(c);
    EXPECT_EQ(groups, 1) << CodeName(c);
  }
}

TEST(Expected, HoldsAValueOrTheReason) {
  const Expected<int> value = 3;
  const Expected<int> error = Status(Code::kArg, "no");
  EXPECT_TRUE(value.ok());
  EXPECT_EQ(*value, 3);
  EXPECT_FALSE(error.ok());
  EXPECT_EQ(error.status().text(), "no");
}

TEST(Epoch, CounterAboveIncarnation) {
  const Epoch epoch = MakeEpoch(7, 9);
  EXPECT_EQ(EpochCounter(epoch), 7u);
  EXPECT_EQ(EpochIncarnation(epoch), 9);
  EXPECT_LT(MakeEpoch(7, 65535), MakeEpoch(8, 0));
}

TEST(MemberId, PrintsItsFirstEightDigits) {
  EXPECT_EQ(ToString(MemberId{0x0123456789abcdef, 1}), "01234567");
  EXPECT_EQ(ToFullString(MemberId{0x0123456789abcdef, 1}), "0123456789abcdef0000000000000001");
  EXPECT_FALSE(MemberId().valid());
}

}  // namespace
}  // namespace ftar
