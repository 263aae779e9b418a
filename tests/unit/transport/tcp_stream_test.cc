#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "transport/tcp/stream.h"

namespace ftar::transport::tcp {
namespace {

std::vector<std::byte> Bytes(size_t count, uint8_t first) {
  std::vector<std::byte> bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(first + i);
  return bytes;
}

// As it travels.
std::vector<std::byte> Frame(size_t ext_bytes, size_t payload_bytes, bool crc) {
  const std::vector<std::byte> payload = Bytes(payload_bytes, 7);
  OutFrame frame;
  frame.header.kind = wire::FrameKind::kRaw;
  frame.header.seq = 11;
  frame.ext = Bytes(ext_bytes, 3);
  frame.payload = payload;
  StampFrame(&frame, 5, 2, crc);
  std::vector<std::byte> bytes(sizeof frame.header);
  std::memcpy(bytes.data(), &frame.header, sizeof frame.header);
  bytes.insert(bytes.end(), frame.ext.begin(), frame.ext.end());
  bytes.insert(bytes.end(), payload.begin(), payload.end());
  return bytes;
}

// What a stream says when these bytes and no more have come.
Status Read(std::span<const std::byte> bytes, std::vector<Arrived>* arrived,
            Stream::Known known = {}) {
  int ends[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
  const UniqueFd writer(ends[0]);
  BufferPool pool(1 << 20);
  Stream stream(UniqueFd(ends[1]), &pool, {}, std::move(known));
  EXPECT_EQ(write(writer.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  return stream.Read(1 << 20, arrived);
}

TEST(TcpStream, AFrameComesAsItWasSent) {
  for (const size_t ext : {0, 24}) {
    for (const size_t payload : {0, 1000}) {
      for (const bool crc : {false, true}) {
        std::vector<Arrived> arrived;
        ASSERT_TRUE(Read(Frame(ext, payload, crc), &arrived).ok());
        ASSERT_EQ(arrived.size(), 1u);
        EXPECT_EQ(arrived[0].header.link_seq, 5u);
        EXPECT_TRUE(std::ranges::equal(arrived[0].ext(), Bytes(ext, 3)));
        EXPECT_TRUE(std::ranges::equal(arrived[0].payload(), Bytes(payload, 7)));
      }
    }
  }
}

// Whoever believed a length would wait for what is not to come.
TEST(TcpStream, AHeaderThatIsDamagedIsKnownByItself) {
  for (const size_t ext : {0, 24}) {
    const std::vector<std::byte> honest = Frame(ext, 1000, true);
    for (size_t bit = 0; bit < 8 * sizeof(wire::FrameHeader); ++bit) {
      std::vector<std::byte> header(honest.begin(), honest.begin() + sizeof(wire::FrameHeader));
      header[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
      std::vector<Arrived> arrived;
      EXPECT_EQ(Read(header, &arrived).code(), Code::kCorrupt) << "bit " << bit;
      EXPECT_TRUE(arrived.empty());
    }
  }
}

// The ext always, the payload where it is asked for.
TEST(TcpStream, ABodyThatIsDamagedIsKnownWhenItIsThere) {
  for (const bool crc : {false, true}) {
    const size_t ext = 24, header = sizeof(wire::FrameHeader);
    const std::vector<std::byte> honest = Frame(ext, 1000, crc);
    for (size_t at = header; at < honest.size(); at += 3) {
      std::vector<std::byte> damaged = honest;
      damaged[at] ^= std::byte{0x10};
      std::vector<Arrived> arrived;
      const Status read = Read(damaged, &arrived);
      const bool known = crc || at < header + ext;
      EXPECT_EQ(read.code(), known ? Code::kCorrupt : Code::kOk) << "byte " << at;
      EXPECT_EQ(arrived.empty(), known);
    }
  }
}

// Its operation has gone on, and written its result over the payload that is sent once more.
TEST(TcpStream, WhatHasComeBeforeMayHaveChangedSince) {
  std::vector<std::byte> changed = Frame(0, 1000, /*crc=*/true);
  changed.back() ^= std::byte{1};
  std::vector<Arrived> arrived;
  EXPECT_EQ(Read(changed, &arrived, [](uint64_t number) { return number == 4; }).code(),
            Code::kCorrupt);
  EXPECT_TRUE(Read(changed, &arrived, [](uint64_t number) { return number == 5; }).ok());
  EXPECT_EQ(arrived.size(), 1u);
}

}  // namespace
}  // namespace ftar::transport::tcp
