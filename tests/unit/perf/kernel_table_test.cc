// Goal: what ftar-kernels prints becomes ftar-perf's document and rows, and nothing else does.
#include "perf/kernel_table.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace ftar::perf {
namespace {

constexpr const char* kLines =
    "{\"where\": \"card\", \"kernel\": \"sum\", \"type\": \"f32\", \"sources\": 2, "
    "\"destinations\": 1, \"blocks\": 2, \"threads\": 512, \"unroll\": 4, \"checksum\": true, "
    "\"cache\": \"out\", \"bytes\": 1000, \"us\": 2.5, \"touched_gbs\": 1.2, \"result_gbs\": 0.4, "
    "\"of_copy\": 0.5}\n"
    "a warning of somebody's\n"
    "{\"no_device\": \"none here\"}";

TEST(KernelTableTest, ReadsRowsAndTheMissingDevice) {
  const nlohmann::json document = KernelDocument(kLines);
  ASSERT_EQ(document["results"].size(), 1u);
  EXPECT_EQ(document["results"][0]["blocks"], 2);
  EXPECT_EQ(document["no_device"], "none here");
  EXPECT_TRUE(KernelDocument("")["results"].empty());
}

TEST(KernelTableTest, ARowSaysWhereAndHowFast) {
  const std::string row = KernelRow(KernelDocument(kLines)["results"][0]);
  for (const char* part : {"card", "2>1", "2x512", "fused", "2.50", "0.40", "0.500"}) {
    EXPECT_NE(row.find(part), std::string::npos) << part << " in " << row;
  }
  EXPECT_EQ(row.size(), KernelHead().size());
}

}  // namespace
}  // namespace ftar::perf
