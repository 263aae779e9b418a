#include "base/knob_value.h"

#include <gtest/gtest.h>

#include "base/ids.h"

namespace ftar {
namespace {

struct Case {
  KnobId id;
  const char* text;
  int64_t number;
  const char* canonical;
};

TEST(ParseKnob, AcceptsWhatUsersWrite) {
  const Case cases[] = {
      {KnobId::kTimeout, "10s", 10 * kSecond, "10s"},
      {KnobId::kTimeout, "1.5s", 1500 * kMillisecond, "1500ms"},
      {KnobId::kTimeout, "120s", 120 * kSecond, "2min"},
      {KnobId::kTimeout, "5m", 300 * kSecond, "5min"},
      {KnobId::kTimeout, "1h", 3600 * kSecond, "1h"},
      {KnobId::kLateTimeout, "off", 0, "off"},
      {KnobId::kChunk, "65536", 65536, "64KiB"},
      {KnobId::kChunk, "1M", 1 << 20, "1MiB"},
      {KnobId::kChunk, "1500", 1500, "1500B"},
      {KnobId::kChunk, "auto", 0, "auto"},
      {KnobId::kOneshotMax, "0", 0, "0B"},
      {KnobId::kWindow, "1024", 1024, "1024"},
      {KnobId::kFt, "0", 0, "off"},
      {KnobId::kFt, "true", 1, "on"},
      {KnobId::kPlan, "direct", 2, "direct"},
      {KnobId::kPorts, "4000", 4000, "4000-4000"},
      {KnobId::kPorts, "4000-4100", 4000, "4000-4100"},
      {KnobId::kInterface, "10.0.0.0/8", 0, "10.0.0.0/8"},
  };
  for (const Case& c : cases) {
    const Expected<KnobValue> value = ParseKnob(KnobOf(c.id), c.text);
    ASSERT_TRUE(value.ok()) << c.text << ": " << value.status().ToString();
    EXPECT_EQ(value->number, c.number) << c.text;
    EXPECT_EQ(value->text, c.canonical) << c.text;
  }
}

TEST(ParseKnob, RefusesTheRestByName) {
  const std::pair<KnobId, const char*> cases[] = {
      {KnobId::kTimeout, ""},        {KnobId::kTimeout, "10"},    {KnobId::kTimeout, "-1s"},
      {KnobId::kTimeout, "off"},     {KnobId::kTimeout, "0s"},    {KnobId::kTimeout, "nans"},
      {KnobId::kTimeout, "1e9h"},    {KnobId::kTimeout, "1s "},   {KnobId::kTimeout, "99999h"},
      {KnobId::kChunk, "64KB"},      {KnobId::kChunk, "12"},      {KnobId::kChunk, "1.GiBx"},
      {KnobId::kWindow, "0"},        {KnobId::kWindow, "1025"},   {KnobId::kWindow, "1x"},
      {KnobId::kWindow, ""},         {KnobId::kFt, "maybe"},      {KnobId::kPlan, "tree"},
      {KnobId::kPlan, ""},           {KnobId::kPlan, "auto|"},    {KnobId::kPorts, "0"},
      {KnobId::kPorts, "5-4"},       {KnobId::kPorts, "1-70000"}, {KnobId::kPorts, "a-b"},
      {KnobId::kHost, "evil\nname"}, {KnobId::kTcpStreams, "17"}, {KnobId::kChunk, "9MiB"},
  };
  for (const auto& [id, text] : cases) {
    const Expected<KnobValue> value = ParseKnob(KnobOf(id), text);
    ASSERT_FALSE(value.ok()) << KnobOf(id).name << "=" << text;
    EXPECT_EQ(value.status().code(), Code::kConfig);
    EXPECT_EQ(value.status().argument(), KnobOf(id).name);
    EXPECT_NE(value.status().text().find("must be"), std::string::npos);
  }
}

TEST(FormatDuration, PicksTheLargestExactUnit) {
  EXPECT_EQ(FormatDuration(0), "0s");
  EXPECT_EQ(FormatDuration(1), "1ns");
  EXPECT_EQ(FormatDuration(90 * kSecond), "90s");
  EXPECT_EQ(FormatDuration(25 * kMicrosecond), "25us");
}

}  // namespace
}  // namespace ftar
