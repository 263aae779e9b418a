#include "wire/frame.h"

#include <gtest/gtest.h>

namespace ftar::wire {
namespace {

TEST(Frame, DefaultHeaderIsValid) { EXPECT_TRUE(ValidateHeader(FrameHeader{}).ok()); }

TEST(Frame, WrongMagicKindOrLengthIsThePeersFault) {
  FrameHeader header;
  header.magic = 0;
  EXPECT_EQ(ValidateHeader(header).code(), Code::kPeer);
  for (int kind : {0, 6, 255}) {
    header = {};
    header.kind = static_cast<FrameKind>(kind);
    EXPECT_EQ(ValidateHeader(header).code(), Code::kPeer) << kind;
  }
  header = {};
  header.ext_bytes = kExtBytesMax + 1;
  EXPECT_EQ(ValidateHeader(header).code(), Code::kPeer);
  header = {};
  header.payload_bytes = kPayloadBytesMax + 1;
  EXPECT_EQ(ValidateHeader(header).code(), Code::kPeer);
}

TEST(Frame, OtherWireVersionIsNamed) {
  FrameHeader header;
  header.version = 9;
  const Status status = ValidateHeader(header);
  EXPECT_EQ(status.code(), Code::kVersion);
  EXPECT_NE(status.text().find("version 9"), std::string::npos);
}

}  // namespace
}  // namespace ftar::wire
