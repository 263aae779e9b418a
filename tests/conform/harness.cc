#include "tests/conform/harness.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "transport/sealed_memory.h"

namespace ftar::conform {

std::vector<Variant> AllVariants() {
  return {
      {"tcp1", "tcp", 1, "127.0.0.1"},
      {"tcp2", "tcp", 2, "127.0.0.1"},
      {"tcp1v6", "tcp", 1, "::1"},
      {"tcp2v6", "tcp", 2, "::1"},
      {"shm", "shm", 1, ""},
      {"shm_one_mapping", "shm", 1, "", true},
      {"faulty_tcp", "faulty+tcp", 2, "127.0.0.1"},
      {"faulty_shm", "faulty+shm", 1, ""},
  };
}

std::vector<Variant> TcpVariants() {
  std::vector<Variant> variants;
  for (const Variant& variant : AllVariants()) {
    if (variant.tcp()) variants.push_back(variant);
  }
  return variants;
}

TimeNs Now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

MemberId Member(uint64_t number) { return {0x1111222233330000 + number, 77 + number}; }

DeviceConfig BaseConfig(const Variant& variant, uint64_t member) {
  DeviceConfig config;
  config.self = Member(member);
  config.job = "conform";
  config.token = "a secret";
  config.interface_name = variant.interface_name;
  config.tcp_streams = variant.streams;
  config.host_key = "this host";
  config.path_retry_ns = 2 * kSecond;
  return config;
}

Expected<std::unique_ptr<Device>> OpenVariant(const Variant& variant, const DeviceConfig& config) {
  transport::ShareMappingsForTest(variant.single_mapping);
  return transport::OpenDevice(variant.transport, config);
}

Node::Node(const Variant& variant, const DeviceConfig& node_config) : config(node_config) {
  auto opened = OpenVariant(variant, config);
  if (!opened.ok()) {
    ADD_FAILURE() << opened.status().ToString();
    return;
  }
  device = std::move(*opened);
  card.id = config.self;
  card.pid = getpid();
  card.host = "here";
  card.host_key = "this host";
  card.addresses = device->address();
}

bool Node::PollOnce(size_t budget_bytes) {
  std::vector<Completion> batch;
  const bool any = device->Poll(Now(), budget_bytes, &batch);
  for (Completion& completion : batch) {
    if (filter && !filter(completion)) continue;
    log.push_back(std::move(completion));
  }
  return any;
}

int Node::Count(Completion::Kind kind) const {
  return static_cast<int>(
      std::count_if(log.begin(), log.end(), [&](const Completion& c) { return c.kind == kind; }));
}

const Completion* Node::Last(Completion::Kind kind) const {
  for (auto it = log.rbegin(); it != log.rend(); ++it) {
    if (it->kind == kind) return &*it;
  }
  return nullptr;
}

std::vector<Completion> Node::Received() const {
  std::vector<Completion> out;
  for (const Completion& completion : log) {
    if (completion.kind == Completion::Kind::kReceived) out.push_back(completion);
  }
  return out;
}

void Node::ReleaseAll() {
  for (const Completion& completion : log) {
    if (completion.kind == Completion::Kind::kReceived) completion.link->Release(completion.token);
  }
  log.clear();
}

bool PumpUntil(std::vector<Node*> nodes, const std::function<bool()>& done, TimeNs timeout_ns) {
  const TimeNs end = Now() + timeout_ns;
  while (!done()) {
    if (Now() > end) return false;
    bool any = false;
    for (Node* node : nodes) any = node->PollOnce() || any;
    if (any || done()) continue;
    // Nothing to do: wait as a runtime does, woken by any node's descriptor or its next deadline.
    std::vector<pollfd> fds;
    bool sleep = true;
    TimeNs deadline = Now() + 5 * kMillisecond;
    for (Node* node : nodes) {
      sleep = node->device->PrepareSleep() && sleep;
      fds.push_back({node->device->wait_fd(), POLLIN, 0});
      deadline = std::min(deadline, node->device->next_deadline());
    }
    const TimeNs wait_ns = deadline - Now();
    const timespec wait{0, std::max<TimeNs>(0, wait_ns)};
    if (sleep && wait_ns > 0) ::ppoll(fds.data(), fds.size(), &wait, nullptr);
    for (Node* node : nodes) node->device->FinishSleep();
  }
  return true;
}

void PumpFor(std::vector<Node*> nodes, TimeNs time_ns) {
  const TimeNs end = Now() + time_ns;
  PumpUntil(
      std::move(nodes), [end] { return Now() >= end; }, time_ns + kSecond);
}

void Join(Node* a, Node* b) {
  a->Connect(*b);
  ASSERT_TRUE(PumpUntil(
      {a, b}, [&] { return a->device->Find(b->card.id) != nullptr && a->Up() && b->Up(); }))
      << (a->Last(Completion::Kind::kDown) != nullptr
              ? a->Last(Completion::Kind::kDown)->status.ToString()
              : "timeout");
}

TestFrame MakeFrame(uint64_t number, size_t payload_bytes, size_t ext_bytes) {
  TestFrame frame;
  frame.header.kind = wire::FrameKind::kRaw;
  frame.header.group = 7;
  frame.header.seq = number;
  frame.header.chunk = static_cast<uint32_t>(number * 3);
  frame.header.era = 99;
  frame.header.attempt = number ^ 0x5555;
  frame.header.signature = ~number;
  frame.header.offset = number * 1000;
  frame.ext.resize(ext_bytes);
  frame.payload.resize(payload_bytes);
  for (size_t i = 0; i < ext_bytes; ++i) frame.ext[i] = static_cast<std::byte>(number + 3 * i);
  for (size_t i = 0; i < payload_bytes; ++i)
    frame.payload[i] = static_cast<std::byte>(number * 31 + i * 7 + (i >> 8));
  return frame;
}

std::string Difference(const Completion& got, uint64_t number, size_t payload_bytes,
                       size_t ext_bytes) {
  const TestFrame want = MakeFrame(number, payload_bytes, ext_bytes);
  if (got.header.seq != number) {
    return "frame " + std::to_string(got.header.seq) + " instead of " + std::to_string(number);
  }
  if (got.header.kind != want.header.kind || got.header.group != want.header.group ||
      got.header.chunk != want.header.chunk || got.header.era != want.header.era ||
      got.header.attempt != want.header.attempt || got.header.signature != want.header.signature ||
      got.header.offset != want.header.offset) {
    return "a header field of frame " + std::to_string(number) + " changed";
  }
  if (got.payload.size() != payload_bytes || got.ext.size() != ext_bytes) {
    return "sizes " + std::to_string(got.payload.size()) + " and " + std::to_string(got.ext.size());
  }
  if (payload_bytes > 0 &&
      std::memcmp(got.payload.data(), want.payload.data(), payload_bytes) != 0) {
    return "payload of frame " + std::to_string(number) + " differs";
  }
  if (ext_bytes > 0 && std::memcmp(got.ext.data(), want.ext.data(), ext_bytes) != 0) {
    return "extension of frame " + std::to_string(number) + " differs";
  }
  return "";
}

std::string VariantName(const testing::TestParamInfo<Variant>& info) { return info.param.name; }

}  // namespace ftar::conform
