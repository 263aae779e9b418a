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

}  // namespace
}  // namespace ftar::runtime
