#include "wire/codec.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>

#include "tests/unit/sample.h"
#include "tests/unit/wire/fields.h"
#include "wire/messages_generated.h"

namespace ftar::wire {
namespace {

using test::AllMessages;
using test::SameMessage;

// Decodes a copy of exactly the right size, so that the sanitizer sees a read behind the end.
Expected<Message> DecodeExact(const std::byte* data, size_t size) {
  std::vector<std::byte> exact(data, data + size);
  exact.shrink_to_fit();
  return Decode(exact);
}

TEST(Codec, EveryMessageComesBackWithAllFields) {
  for (const Message& message : AllMessages(true)) {
    Expected<Message> back = Decode(Encode(message));
    ASSERT_TRUE(back.ok()) << MessageName(message) << ": " << back.status().ToString();
    EXPECT_TRUE(SameMessage(message, *back)) << MessageName(message);
  }
}

// Whoever decides by it makes room for as many chunks.
TEST(Codec, AStatusTellsOfAllItsChunks) {
  wire::OpStatus op;
  op.chunks = 65;
  for (const size_t words : {0, 1, 2, 3}) {
    op.final_chunks.assign(words, 0);
    wire::ColumnStatus status;
    status.groups.emplace_back().ops = {op};
    EXPECT_EQ(Decode(Encode(Message(status))).ok(), words == 2) << words;
  }
}

TEST(Codec, DefaultsComeBackAsDefaults) {
  for (const Message& message : AllMessages(false)) {
    Expected<Message> back = Decode(Encode(message));
    // No enumerator of Evidence or Verdict is 0, and their defaults are valid, so nothing here may
    // be refused.
    ASSERT_TRUE(back.ok()) << MessageName(message) << ": " << back.status().ToString();
    EXPECT_TRUE(SameMessage(message, *back)) << MessageName(message);
  }
}

// The walk over fields is itself under test: a filled message must differ from a default one in
// every comparison.
TEST(Codec, FilledMessagesDifferFromDefaults) {
  const std::vector<Message> filled = AllMessages(true), empty = AllMessages(false);
  for (size_t i = 0; i < filled.size(); ++i) {
    const bool has_fields =
        std::visit([](const auto& body) { return test::kFields<std::decay_t<decltype(body)>> > 0; },
                   filled[i]);
    EXPECT_EQ(SameMessage(filled[i], empty[i]), !has_fields) << MessageName(filled[i]);
  }
}

TEST(Codec, NamesAreDistinct) {
  std::set<std::string> names;
  for (const Message& message : AllMessages(false)) names.insert(MessageName(message));
  EXPECT_EQ(names.size(), std::variant_size_v<AnyMessage>);
  EXPECT_STREQ(MessageName(Hello{}), "Hello");
  EXPECT_STREQ(MessageName(LeaveReady{}), "LeaveReady");
}

TEST(Codec, TruncatedMessagesAreRefused) {
  for (const Message& message : AllMessages(true)) {
    const std::vector<std::byte> bytes = Encode(message);
    for (size_t size = 0; size < bytes.size(); ++size) {
      Expected<Message> back = DecodeExact(bytes.data(), size);
      if (!back.ok()) {
        EXPECT_EQ(back.status().code(), Code::kPeer);
        EXPECT_FALSE(back.status().text().empty());
      }
      if (size < bytes.size() / 2) {
        EXPECT_FALSE(back.ok()) << MessageName(message) << " at " << size;
      }
    }
  }
}

TEST(Codec, FlippedBitsNeverCrash) {
  for (const Message& message : AllMessages(true)) {
    std::vector<std::byte> bytes = Encode(message);
    for (size_t bit = 0; bit < bytes.size() * 8; bit += kSampleStep) {
      const std::byte mask{static_cast<unsigned char>(1u << bit % 8)};
      bytes[bit / 8] ^= mask;
      Expected<Message> back = DecodeExact(bytes.data(), bytes.size());
      // What passes is a message like any other: it can be written and read again.
      if (back.ok()) {
        EXPECT_TRUE(Decode(Encode(*back)).ok());
      }
      bytes[bit / 8] ^= mask;
    }
  }
}

TEST(Codec, DecodesAtAnyAlignment) {
  const std::vector<std::byte> bytes = Encode(AllMessages(true).front());
  for (size_t shift = 0; shift < 16; ++shift) {
    std::vector<std::byte> shifted(shift);
    shifted.insert(shifted.end(), bytes.begin(), bytes.end());
    EXPECT_TRUE(Decode(std::span(shifted).subspan(shift)).ok()) << shift;
  }
}

TEST(Codec, TextsMayHoldAnyBytes) {
  const Goodbye goodbye{Code::kPeer, std::string("a\0\xff\n", 4)};
  Expected<Message> back = Decode(Encode(goodbye));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(std::get<Goodbye>(*back).text, goodbye.text);
}

TEST(Codec, OverlongAndEmptyInputIsRefused) {
  EXPECT_FALSE(Decode({}).ok());
  EXPECT_FALSE(Decode(std::vector<std::byte>(kMessageBytesMax + 1)).ok());
  EXPECT_FALSE(Decode(std::vector<std::byte>(1000)).ok());
}

// A leaver makes an operation of what another member says that it has called.
TEST(Codec, CallsOfWhichNoOperationCanBeMadeAreRefused) {
  const auto accepts = [](void (*change)(CallNotice&)) {
    CallNotice notice;
    change(notice);
    return Decode(Encode(notice)).ok();
  };
  EXPECT_TRUE(accepts([](CallNotice& n) { n.signature.count = 1 << 30; }));
  EXPECT_FALSE(accepts([](CallNotice& n) { n.signature.element_bytes = 0; }));
  EXPECT_FALSE(accepts([](CallNotice& n) { n.signature.accumulator_bytes = 0; }));
  EXPECT_FALSE(accepts([](CallNotice& n) { n.signature.accumulator_bytes = 2; }));
  EXPECT_FALSE(accepts([](CallNotice& n) { n.signature.accumulator_bytes = 6; }));
  EXPECT_FALSE(accepts([](CallNotice& n) { n.signature.accumulator_bytes = 64; }));
  EXPECT_FALSE(accepts([](CallNotice& n) { n.signature.count = uint64_t{1} << 62; }));
  EXPECT_FALSE(accepts([](CallNotice& n) { n.signature.kind = 5; }));
  EXPECT_FALSE(accepts([](CallNotice& n) { n.signature.dtype = 12; }));
  EXPECT_FALSE(accepts([](CallNotice& n) { n.signature.redop = 6; }));
  EXPECT_FALSE(accepts([](CallNotice& n) { n.signature.plan = 4; }));
  EXPECT_FALSE(accepts([](CallNotice& n) { n.signature.kind = 1; })) << "segments of nobody";
  EXPECT_TRUE(accepts([](CallNotice& n) {
    n.signature.kind = 1;
    n.layout_members = {{0, 1}};
  }));
}

TEST(Codec, UnknownEnumeratorsAreRefused) {
  Evidence evidence;
  evidence.kind = static_cast<EvidenceKind>(99);
  EXPECT_FALSE(Decode(Encode(evidence)).ok());
  evidence.kind = static_cast<EvidenceKind>(0);
  EXPECT_FALSE(Decode(Encode(evidence)).ok());
  EXPECT_FALSE(Decode(Encode(Goodbye{static_cast<Code>(12345), ""})).ok());
  Reserved reserved;
  reserved.earliest.kind = static_cast<Bound::Kind>(4);
  EXPECT_FALSE(Decode(Encode(reserved)).ok());
}

// 20,000 list elements that all name one card with a long text: 100 KiB that would become 200 MiB.
TEST(Codec, SharedElementsCannotExpandWithoutBound) {
  flatbuffers::FlatBufferBuilder b;
  const fb::Id id(1, 2);
  const auto text = b.CreateString(std::string(10'000, 'x'));
  const auto card = fb::CreateCard(b, &id, 0, 0, 0, text, text, text, text);
  const auto peers = b.CreateVector(std::vector(20'000, card));
  const auto welcome = fb::CreateWelcome(b, peers);
  fb::FinishEnvelopeBuffer(b, fb::CreateEnvelope(b, fb::Body::Welcome, welcome.Union()));
  Expected<Message> back =
      Decode({reinterpret_cast<const std::byte*>(b.GetBufferPointer()), b.GetSize()});
  ASSERT_FALSE(back.ok());
  EXPECT_NE(back.status().text().find("expands"), std::string::npos) << back.status().text();
}

// A view of 10,000 members is far from every bound.
TEST(Codec, LargeViewsPass) {
  View view;
  for (uint64_t i = 0; i < 10'000; ++i) {
    ViewEntry entry;
    entry.card.id = {i, i + 1};
    entry.card.host = "h";
    view.entries.push_back(entry);
  }
  Expected<Message> back = Decode(Encode(Install{view, {}}));
  ASSERT_TRUE(back.ok()) << back.status().ToString();
  EXPECT_EQ(std::get<Install>(*back).view, view);
}

}  // namespace
}  // namespace ftar::wire
