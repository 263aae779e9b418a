// Goal: a process is never taken for one of another host because of what it lacks for a moment.
#include "runtime/host.h"

#include <gtest/gtest.h>

#include "tests/unit/descriptors_left.h"

namespace ftar::runtime {
namespace {

TEST(Host, ItsKeyIsTheSameOrNone) {
  const Expected<std::string> key = HostKey();
  ASSERT_TRUE(key.ok()) << key.status().ToString();
  {
    const DescriptorsLeft shortage(0);
    EXPECT_FALSE(HostKey().ok());
  }
  const Expected<std::string> again = HostKey();
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  EXPECT_EQ(*again, *key);
}

TEST(Host, SaysWhenDescriptorsAreShort) {
  const DescriptorsLeft shortage(3);
  EXPECT_TRUE(CheckFreeDescriptors(3).ok());
  EXPECT_FALSE(CheckFreeDescriptors(4).ok());
  EXPECT_TRUE(CheckFreeDescriptors(3).ok()) << "they are given back";
}

}  // namespace
}  // namespace ftar::runtime
