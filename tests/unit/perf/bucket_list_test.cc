#include "perf/bucket_list.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace ftar::perf {
namespace {

uint64_t Sum(const std::vector<uint64_t>& elements) {
  return std::accumulate(elements.begin(), elements.end(), uint64_t{0});
}

TEST(BucketList, ReadsElementsNamesAndComments) {
  const BucketList list = ParseBuckets("# a model\n12 h.0.weight\n\n  7\r\n3\tlast");
  EXPECT_EQ(list.error, "");
  EXPECT_EQ(list.elements, (std::vector<uint64_t>{12, 7, 3}));
}

TEST(BucketList, EachBadLineIsNamed) {
  for (const char* text : {"5\nx", "5\n-1", "5\n0 empty", "5\n12x", "5\n99999999999999999999"}) {
    const BucketList list = ParseBuckets(text);
    EXPECT_NE(list.error.find("line 2"), std::string::npos) << text << ": " << list.error;
  }
  EXPECT_NE(ParseBuckets("# nothing\n").error, "");
  EXPECT_NE(ReadBucketFile("/nowhere/at/all").error, "");
}

// The totals are those that the models' authors publish.
TEST(BucketList, ShippedListsHaveEveryParameter) {
  const std::string folder = FTAR_BUCKET_FOLDER;
  const BucketList gpt2 = ReadBucketFile(folder + "/gpt2.txt");
  EXPECT_EQ(gpt2.error, "");
  EXPECT_EQ(Sum(gpt2.elements), 124'439'808u);
  const BucketList llama = ReadBucketFile(folder + "/llama3-8b.txt");
  EXPECT_EQ(llama.error, "");
  EXPECT_EQ(Sum(llama.elements), 8'030'261'248u);
  for (const BucketList& list : {gpt2, llama}) {
    EXPECT_GE(list.elements.size(), 50u);
    EXPECT_LE(list.elements.size(), 500u);
    // In 16-bit floats 64 KiB to 64 MiB.
    EXPECT_GE(*std::min_element(list.elements.begin(), list.elements.end()), 32u << 10);
    EXPECT_LE(*std::max_element(list.elements.begin(), list.elements.end()), 32u << 20);
  }
}

TEST(BucketList, ThinningKeepsTheMixAndTheTotal) {
  const BucketList llama = ReadBucketFile(std::string(FTAR_BUCKET_FOLDER) + "/llama3-8b.txt");
  const uint64_t largest = *std::max_element(llama.elements.begin(), llama.elements.end());
  for (uint64_t total : {1u << 28, 1u << 30}) {
    const std::vector<uint64_t> thin = ThinBuckets(llama.elements, total);
    EXPECT_NEAR(static_cast<double>(Sum(thin)), total, static_cast<double>(largest));
    EXPECT_GT(std::count_if(thin.begin(), thin.end(), [](uint64_t n) { return n < 5 << 20; }), 0);
    EXPECT_GT(std::count_if(thin.begin(), thin.end(), [](uint64_t n) { return n > 20 << 20; }), 0);
  }
  EXPECT_EQ(ThinBuckets(llama.elements, Sum(llama.elements)), llama.elements);
  EXPECT_EQ(ThinBuckets({5, 6}, 1).size(), 1u);
}

}  // namespace
}  // namespace ftar::perf
