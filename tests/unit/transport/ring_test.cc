#include "transport/shm/ring.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <vector>

namespace ftar::transport::shm {
namespace {

constexpr size_t kRing = 8192;

// Two segments in plain memory: what the two sides of a link share.
struct Segments {
  struct alignas(64) Memory {
    std::byte bytes[kRingOffset + kRing];
  };
  std::unique_ptr<Memory> a = std::make_unique<Memory>(), b = std::make_unique<Memory>();
  SegmentHeader* writer_side = new (a->bytes) SegmentHeader;
  SegmentHeader* reader_side = new (b->bytes) SegmentHeader;
  RingWriter writer{writer_side, reader_side, kRing};
  RingReader reader{reader_side, writer_side, kRing};
};

wire::FrameHeader Header(uint64_t seq, size_t ext, size_t payload) {
  wire::FrameHeader header;
  header.seq = seq;
  header.ext_bytes = static_cast<uint32_t>(ext);
  header.payload_bytes = static_cast<uint32_t>(payload);
  return header;
}

TEST(Ring, CarriesFramesAroundItsEnd) {
  Segments s;
  std::vector<std::byte> bytes(4000);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 13);
  for (uint64_t i = 0; i < 1000; ++i) {
    const size_t ext = i % 70, payload = i * 131 % 3000;
    ASSERT_EQ(s.writer.Write(Header(i, ext, payload), {bytes.data(), ext},
                             {bytes.data() + i % 9, payload}),
              RingWriter::Result::kWritten);
    RingReader::Record record;
    const auto more = s.reader.Next(&record);
    ASSERT_TRUE(more.ok() && *more) << more.status().ToString();
    EXPECT_EQ(record.header.seq, i);
    ASSERT_EQ(record.payload.size(), payload);
    EXPECT_EQ(std::memcmp(record.payload.data(), bytes.data() + i % 9, payload), 0);
    EXPECT_EQ(std::memcmp(record.ext.data(), bytes.data(), ext), 0);
    s.reader.Done(record.end);
    EXPECT_FALSE(s.reader.HasMore());
  }
}

TEST(Ring, IsFullUntilTheReaderIsDone) {
  Segments s;
  const std::vector<std::byte> bytes(1000);
  int written = 0;
  while (s.writer.Write(Header(0, 0, 1000), {}, bytes) == RingWriter::Result::kWritten) ++written;
  EXPECT_EQ(written, static_cast<int>(kRing / RecordBytes(0, 1000)));
  EXPECT_FALSE(s.writer.RoomMayHaveCome());
  RingReader::Record record;
  ASSERT_TRUE(*s.reader.Next(&record));
  EXPECT_EQ(s.writer.Write(Header(0, 0, 1000), {}, bytes), RingWriter::Result::kFull);
  s.reader.Done(record.end);
  EXPECT_TRUE(s.writer.RoomMayHaveCome());
  EXPECT_EQ(s.writer.Write(Header(0, 0, 1000), {}, bytes), RingWriter::Result::kWritten);
  EXPECT_EQ(s.writer.Write(Header(0, 0, 1000), {}, bytes), RingWriter::Result::kFull);
}

TEST(Ring, AStoppedReaderReadsWhatWasThere) {
  Segments s;
  for (const uint64_t seq : {1, 2}) {
    ASSERT_EQ(s.writer.Write(Header(seq, 0, 0), {}, {}), RingWriter::Result::kWritten);
  }
  s.reader.Stop();
  ASSERT_EQ(s.writer.Write(Header(3, 0, 0), {}, {}), RingWriter::Result::kWritten);
  RingReader::Record record;
  for (const uint64_t seq : {1, 2}) {
    ASSERT_TRUE(*s.reader.Next(&record));
    EXPECT_EQ(record.header.seq, seq);
  }
  const auto more = s.reader.Next(&record);
  EXPECT_TRUE(more.ok() && !*more);
}

TEST(Ring, TheLongestFrameAlwaysFitsAnEmptyRing) {
  for (size_t start = 0; start < 40; ++start) {
    Segments s;
    const std::vector<std::byte> bytes(kRing);
    RingReader::Record record;
    for (size_t i = 0; i < start; ++i) {
      ASSERT_EQ(s.writer.Write(Header(0, 0, 0), {}, {}), RingWriter::Result::kWritten);
      ASSERT_TRUE(*s.reader.Next(&record));
      s.reader.Done(record.end);
    }
    const size_t longest = s.writer.record_bytes_max() - RecordBytes(0, 0);
    EXPECT_EQ(s.writer.Write(Header(0, 0, longest), {}, {bytes.data(), longest}),
              RingWriter::Result::kWritten)
        << start;
  }
}

// Whatever the peer writes into its segment, the reader stays within it.
TEST(Ring, NonsenseFromThePeerIsAnError) {
  const auto next_after = [](const std::function<void(Segments*)>& damage) {
    Segments s;
    const std::vector<std::byte> bytes(500);
    s.writer.Write(Header(0, 10, 500), {bytes.data(), 10}, bytes);
    damage(&s);
    RingReader::Record record;
    return s.reader.Next(&record).status().code();
  };
  const auto header_of = [](Segments* s) {
    return reinterpret_cast<wire::FrameHeader*>(s->a->bytes + kRingOffset);
  };
  EXPECT_EQ(next_after([](Segments*) {}), Code::kOk);
  EXPECT_EQ(next_after([](Segments* s) { s->writer_side->head = kRing + 64; }), Code::kCorrupt);
  EXPECT_EQ(next_after([](Segments* s) { s->writer_side->head = UINT64_MAX; }), Code::kCorrupt);
  EXPECT_EQ(next_after([](Segments* s) { s->writer_side->head = 100; }), Code::kCorrupt);
  EXPECT_EQ(next_after([](Segments* s) { s->writer_side->head = 64; }), Code::kCorrupt);
  EXPECT_EQ(next_after([&](Segments* s) { header_of(s)->payload_bytes = 5000; }), Code::kCorrupt);
  EXPECT_EQ(next_after([&](Segments* s) { header_of(s)->payload_bytes = UINT32_MAX; }),
            Code::kCorrupt);
  EXPECT_EQ(next_after([&](Segments* s) { header_of(s)->ext_bytes = UINT32_MAX; }), Code::kCorrupt);
  EXPECT_EQ(next_after([&](Segments* s) { header_of(s)->magic = 0; }), Code::kCorrupt);
  EXPECT_EQ(next_after([&](Segments* s) { header_of(s)->magic = 0x5366; }),
            Code::kCorrupt);  // a skip beyond the head
  EXPECT_EQ(next_after([&](Segments* s) { header_of(s)->kind = static_cast<wire::FrameKind>(77); }),
            Code::kCorrupt);
  // And the writer does not believe a reader's progress that cannot be.
  Segments s;
  const std::vector<std::byte> bytes(2000);
  while (s.writer.Write(Header(0, 0, 2000), {}, bytes) == RingWriter::Result::kWritten) {
  }
  s.reader_side->tail = 1u << 30;
  EXPECT_EQ(s.writer.Write(Header(0, 0, 2000), {}, bytes), RingWriter::Result::kPeerCorrupt);
}

}  // namespace
}  // namespace ftar::transport::shm
