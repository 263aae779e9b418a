#include "transport/tcp/costs.h"

#include <netinet/in.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <fstream>

namespace ftar::transport::tcp {
namespace {

// Sending, the kernel's part of receiving, and reading of some hundred bytes on loopback.
constexpr uint64_t kEndsNs = 5'000;
// What TCP moves on two cores, whatever the card could.
constexpr uint64_t kBytePsLeast = 150;
// One connection is one core's work at either end: 20 Gbit/s.
constexpr uint32_t kStreamBytePs = 400;
constexpr int kStreamsLeast = 2, kStreamsMost = 8;
constexpr uint64_t kMegabitsMost = 10'000'000;

}  // namespace

uint32_t BytePsOf(uint64_t megabits_a_second) {
  if (megabits_a_second == 0 || megabits_a_second > kMegabitsMost) return 0;
  return static_cast<uint32_t>(std::max(8'000'000 / megabits_a_second, kBytePsLeast));
}

uint32_t BytePs(const SocketAddress& local) {
  const std::string name = InterfaceOf(local);
  if (name.empty()) return 0;
  std::ifstream file("/sys/class/net/" + name + "/speed");
  int64_t megabits = 0;
  return file >> megabits && megabits > 0 ? BytePsOf(static_cast<uint64_t>(megabits)) : 0;
}

uint32_t RoundNs(int fd) {
  tcp_info info{};
  socklen_t bytes = sizeof info;
  if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0) return 0;
  return static_cast<uint32_t>(
      std::min<uint64_t>(uint64_t{info.tcpi_rtt} * kMicrosecond / 2 + kEndsNs, kSecond));
}

int StreamsFor(uint32_t byte_ps) {
  if (byte_ps == 0) return kStreamsLeast;
  const auto wanted = static_cast<int>((kStreamBytePs + byte_ps - 1) / byte_ps);
  return std::clamp(wanted, kStreamsLeast, kStreamsMost);
}

}  // namespace ftar::transport::tcp
