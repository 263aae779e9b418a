#include "perf/verify.h"

#include <gtest/gtest.h>

#include <cmath>

#include "perf/numbers.h"
#include "perf/types.h"

namespace ftar::perf {
namespace {

std::vector<Participant> Members(int n) {
  std::vector<Participant> members;
  for (int i = 0; i < n; ++i) members.push_back({i, 1});
  return members;
}

double FloatAt(ftarDtype_t dtype, const Tile& tile, size_t i) {
  return DecodeFloat(dtype, tile.bytes.data() + i * tile.element_bytes);
}

TEST(Verify, InputsDifferByReplicaRoundAndPlace) {
  const Tile base = InputTile(FTAR_F32, FTAR_SUM, 1, 7);
  EXPECT_EQ(base.bytes, InputTile(FTAR_F32, FTAR_SUM, 1, 7).bytes);
  EXPECT_NE(base.bytes, InputTile(FTAR_F32, FTAR_SUM, 2, 7).bytes);
  EXPECT_NE(base.bytes, InputTile(FTAR_F32, FTAR_SUM, 1, 8).bytes);
}

// The order of additions must not show: that is what makes the answer known for every plan.
TEST(Verify, TheAnswerDoesNotDependOnTheOrder) {
  for (const TypeInfo& type : AllTypes()) {
    for (const OpInfo& op : AllOps()) {
      if (!Supported(type.dtype, op.redop)) continue;
      std::vector<Participant> members;
      for (int i = 0; i < 8; ++i) members.push_back({i, op.redop == FTAR_WAVG ? WeightOf(i) : 1});
      std::vector<Participant> reversed(members.rbegin(), members.rend());
      EXPECT_EQ(ExpectedTile(type.dtype, op.redop, members, 3).bytes,
                ExpectedTile(type.dtype, op.redop, reversed, 3).bytes)
          << type.name << " " << op.name;
    }
  }
}

TEST(Verify, EveryParticipantCounts) {
  for (const TypeInfo& type : AllTypes()) {
    for (const OpInfo& op : AllOps()) {
      if (!Supported(type.dtype, op.redop)) continue;
      EXPECT_NE(ExpectedTile(type.dtype, op.redop, Members(4), 3).bytes,
                ExpectedTile(type.dtype, op.redop, Members(3), 3).bytes)
          << type.name << " " << op.name;
    }
  }
}

// However many there are, no product of integers is that of an output which nobody wrote.
TEST(Verify, ProductsOfManyAreNotZero) {
  for (ftarDtype_t dtype : {FTAR_I8, FTAR_U8, FTAR_I32, FTAR_U64}) {
    const Tile zeros{TypeOf(dtype).bytes, std::vector<std::byte>(kPeriod * TypeOf(dtype).bytes)};
    const Tile product = ExpectedTile(dtype, FTAR_PROD, Members(32), 3);
    EXPECT_EQ(CountWrong(product, 0, kPeriod, zeros.bytes.data()), kPeriod) << TypeOf(dtype).name;
    EXPECT_NE(product.bytes, ExpectedTile(dtype, FTAR_PROD, Members(31), 3).bytes);
  }
}

// And with rounding the order must show, or the inputs could not tell member order from another.
TEST(Verify, RoundingInputsShowTheOrder) {
  for (ftarDtype_t dtype : {FTAR_F32, FTAR_F64}) {
    std::vector<Participant> members = Members(5);
    std::vector<Participant> reversed(members.rbegin(), members.rend());
    EXPECT_NE(ExpectedTile(dtype, FTAR_SUM, members, 3, Values::kRounding).bytes,
              ExpectedTile(dtype, FTAR_SUM, reversed, 3, Values::kRounding).bytes);
  }
}

TEST(Verify, NoNumberIsInfiniteOrNan) {
  for (const TypeInfo& type : AllTypes()) {
    if (type.number_class != NumberClass::kFloat) continue;
    for (const OpInfo& op : AllOps()) {
      const Tile tile = ExpectedTile(type.dtype, op.redop, Members(8), 5);
      for (size_t i = 0; i < kPeriod; ++i) {
        ASSERT_TRUE(std::isfinite(FloatAt(type.dtype, tile, i))) << type.name << " " << op.name;
      }
    }
  }
}

TEST(Verify, SumsAndAveragesByHand) {
  const std::vector<Participant> two = {{0, 1}, {5, 3}};
  const Tile a = InputTile(FTAR_F64, FTAR_SUM, 0, 1), b = InputTile(FTAR_F64, FTAR_SUM, 5, 1);
  const Tile sum = ExpectedTile(FTAR_F64, FTAR_SUM, two, 1);
  const Tile mean = ExpectedTile(FTAR_F64, FTAR_AVG, two, 1);
  const Tile weighted = ExpectedTile(FTAR_F64, FTAR_WAVG, two, 1);
  for (size_t i = 0; i < 100; ++i) {
    const double x = FloatAt(FTAR_F64, a, i), y = FloatAt(FTAR_F64, b, i);
    EXPECT_EQ(FloatAt(FTAR_F64, sum, i), x + y);
    EXPECT_EQ(FloatAt(FTAR_F64, mean, i), (x + y) / 2);
    EXPECT_EQ(FloatAt(FTAR_F64, weighted, i), (x + 3 * y) / 4);
  }
}

TEST(Verify, AMemberOfWeightZeroIsNotRead) {
  const std::vector<Participant> with = {{0, 1}, {1, 0}, {2, 1}}, without = {{0, 1}, {2, 1}};
  for (ftarRedop_t redop : {FTAR_SUM, FTAR_PROD, FTAR_MIN, FTAR_MAX, FTAR_AVG}) {
    EXPECT_EQ(ExpectedTile(FTAR_I32, redop, with, 1).bytes,
              ExpectedTile(FTAR_I32, redop, without, 1).bytes);
  }
}

TEST(Verify, IntegerAveragesTruncateTowardZero) {
  const Tile a = InputTile(FTAR_I8, FTAR_AVG, 0, 1), b = InputTile(FTAR_I8, FTAR_AVG, 1, 1);
  const Tile mean = ExpectedTile(FTAR_I8, FTAR_AVG, Members(2), 1);
  for (size_t i = 0; i < kPeriod; ++i) {
    const auto at = [&](const Tile& tile) { return static_cast<int8_t>(tile.bytes[i]); };
    ASSERT_EQ(at(mean), static_cast<int8_t>((int{at(a)} + int{at(b)}) / 2));
  }
}

TEST(Verify, WrongElementsAreCounted) {
  const Tile tile = InputTile(FTAR_I32, FTAR_SUM, 0, 1);
  const uint64_t count = 3 * kPeriod + 17;
  std::vector<int32_t> buffer(count);
  FillTiled(tile, 5, count, buffer.data());
  EXPECT_EQ(CountWrong(tile, 5, count, buffer.data()), 0u);
  buffer[0] ^= 1;
  buffer[kPeriod + 3] ^= 1 << 30;
  buffer[count - 1] ^= 1;
  EXPECT_EQ(CountWrong(tile, 5, count, buffer.data()), 3u);
  EXPECT_GT(CountWrong(tile, 6, count, buffer.data()), count / 2);
  EXPECT_EQ(CountWrong(tile, 5, 0, nullptr), 0u);
}

// Data that is right but lies a power of two off must be wrong data.
TEST(Verify, DisplacedDataIsWrong) {
  const Tile tile = InputTile(FTAR_F32, FTAR_SUM, 0, 1);
  std::vector<float> buffer(1 << 17);
  FillTiled(tile, 0, buffer.size(), buffer.data());
  for (uint64_t shift = 1; shift <= 1 << 16; shift *= 2) {
    EXPECT_GT(CountWrong(tile, 0, 4096, buffer.data() + shift), 4000u) << shift;
  }
}

}  // namespace
}  // namespace ftar::perf
