#include "api/structs.h"

#include <gtest/gtest.h>

#include <string>

namespace ftar::api {
namespace {

struct Known {
  size_t size;
  int64_t a;
  int64_t b;
};
struct Newer {
  size_t size;
  int64_t a;
  int64_t b;
  int64_t c;
};

const Known* AsKnown(const Newer& newer) { return reinterpret_cast<const Known*>(&newer); }

TEST(Structs, ReadsWhatItKnows) {
  Known in{sizeof(Known), 1, 2}, out{0, -1, -2};
  ASSERT_TRUE(ReadStruct(&in, "x", &out).ok());
  EXPECT_EQ(out.a, 1);
  EXPECT_EQ(out.b, 2);
  EXPECT_EQ(out.size, sizeof(Known));
}

TEST(Structs, NullIsNamed) {
  Known out{};
  const Status status = ReadStruct<Known>(nullptr, "config", &out);
  EXPECT_EQ(status.code(), Code::kArg);
  EXPECT_EQ(status.argument(), "config");
}

TEST(Structs, SizeZeroIsRefused) {
  Known in{0, 1, 2}, out{0, -1, -2};
  const Status status = ReadStruct(&in, "config", &out);
  EXPECT_EQ(status.code(), Code::kArg);
  EXPECT_EQ(status.argument(), "config.size");
  EXPECT_EQ(out.a, -1) << "a refused struct changes nothing";
}

TEST(Structs, ShorterKeepsDefaults) {
  Known in{offsetof(Known, b), 1, 2}, out{0, -1, -2};
  ASSERT_TRUE(ReadStruct(&in, "x", &out).ok());
  EXPECT_EQ(out.a, 1);
  EXPECT_EQ(out.b, -2);
}

TEST(Structs, LongerWithZeroTailIsFine) {
  const Newer in{sizeof(Newer), 1, 2, 0};
  Known out{};
  EXPECT_TRUE(ReadStruct(AsKnown(in), "x", &out).ok());
}

TEST(Structs, LongerWithValueInTailNamesTheOffset) {
  const Newer in{sizeof(Newer), 1, 2, 1};
  Known out{};
  const Status status = ReadStruct(AsKnown(in), "x", &out);
  EXPECT_EQ(status.code(), Code::kArg);
  EXPECT_NE(status.text().find("byte 24"), std::string::npos) << status.text();
}

TEST(Structs, SizesThatEndInAFieldOrNowhereAreRefused) {
  for (size_t size : {size_t{8}, size_t{17}, sizeof(Known) + 1, size_t{1} << 40, SIZE_MAX - 7}) {
    Known in{size, 1, 2}, out{};
    EXPECT_EQ(ReadStruct(&in, "x", &out).code(), Code::kArg) << size;
  }
}

TEST(Structs, WritesNoFurtherThanTheCallersSize) {
  Known out{offsetof(Known, b), 0, 77};
  WriteStruct(Known{sizeof(Known), 5, 6}, &out);
  EXPECT_EQ(out.a, 5);
  EXPECT_EQ(out.b, 77);
  EXPECT_EQ(out.size, offsetof(Known, b));
  Newer larger{sizeof(Newer), 0, 0, 0};
  WriteStruct(Known{sizeof(Known), 5, 6}, reinterpret_cast<Known*>(&larger));
  EXPECT_EQ(larger.b, 6);
  EXPECT_EQ(larger.size, sizeof(Newer));
}

TEST(Structs, TextIsCutAtACharacter) {
  char field[6];
  CopyText("abcdef", field);
  EXPECT_STREQ(field, "abcde");
  CopyText("abcd\xC3\xA9", field);
  EXPECT_STREQ(field, "abcd") << "never half a character";
  CopyText("", field);
  EXPECT_STREQ(field, "");
}

TEST(Structs, TextIsOneLineWhoeverWroteIt) {
  char field[16];
  CopyText("a\nb\r\t\x1b[1m\x7f\xC3\xA9", field);
  EXPECT_STREQ(field, "a b   [1m \xC3\xA9");
  CopyText(std::string("a\0b", 3), field);
  EXPECT_STREQ(field, "a b");
}

}  // namespace
}  // namespace ftar::api
