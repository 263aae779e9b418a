// Goal: a record comes back as it was written, or is refused with a reason; there is no third way.
#include "membership/record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ftar::membership {
namespace {

using testing::HasSubstr;

CoordinatorRecord Example() {
  CoordinatorRecord record{"job", MakeEpoch(7, 3), wire::View{}};
  record.view->epoch = record.view->era = record.epoch;
  for (uint64_t i = 0; i < 3; ++i) {
    wire::ViewEntry entry;
    entry.card.id = {i + 1, 9};
    entry.card.replica = static_cast<int32_t>(i);
    entry.card.host = "host";
    entry.first = {wire::Bound::Kind::kSeq, 0, 0, {{1, i}}};
    record.view->entries.push_back(entry);
  }
  return record;
}

std::string WhyNot(std::span<const std::byte> bytes) {
  const Expected<CoordinatorRecord> read = DecodeRecord(bytes);
  return read.ok() ? "" : read.status().text();
}

TEST(Record, ComesBackAsItWas) {
  for (const CoordinatorRecord& record :
       {Example(), CoordinatorRecord{}, CoordinatorRecord{"ended", MakeEpoch(9, 1), {}}}) {
    const Expected<CoordinatorRecord> read = DecodeRecord(EncodeRecord(record));
    ASSERT_TRUE(read.ok()) << read.status().ToString();
    EXPECT_EQ(read->job, record.job);
    EXPECT_EQ(read->epoch, record.epoch);
    EXPECT_EQ(read->view, record.view);
  }
}

TEST(Record, CutOffAnywhereIsRefused) {
  const std::vector<std::byte> bytes = EncodeRecord(Example());
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_NE(WhyNot({bytes.data(), size}), "") << size;
  std::vector<std::byte> longer = bytes;
  longer.push_back(std::byte{0});
  EXPECT_THAT(WhyNot(longer), HasSubstr("something behind it"));
}

TEST(Record, AFlippedBitAnywhereIsRefused) {
  std::vector<std::byte> bytes = EncodeRecord(Example());
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    const std::byte mask{static_cast<uint8_t>(1u << bit % 8)};
    bytes[bit / 8] ^= mask;
    EXPECT_NE(WhyNot(bytes), "") << bit;
    bytes[bit / 8] ^= mask;
  }
  EXPECT_EQ(WhyNot(bytes), "");
}

TEST(Record, SaysWhatIsWrong) {
  std::vector<std::byte> bytes = EncodeRecord(Example());
  bytes[kRecordHeaderBytes + 8] ^= std::byte{1};
  EXPECT_THAT(WhyNot(bytes), HasSubstr("corrupt"));
  bytes = EncodeRecord(Example());
  bytes[8] = std::byte{2};
  EXPECT_THAT(WhyNot(bytes), HasSubstr("version 2."));
  bytes[0] = std::byte{'#'};
  EXPECT_EQ(WhyNot(bytes), "it is no coordinator's state");
}

}  // namespace
}  // namespace ftar::membership
