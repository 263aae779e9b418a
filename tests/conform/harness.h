// What all conformance tests share: nodes (a device with its card), a pump that drives several of
// them on one thread, frames with a known content. Real time bounds every wait; nothing here sleeps
// longer than a device's descriptor stays silent.
#ifndef FTAR_TESTS_CONFORM_HARNESS_H_
#define FTAR_TESTS_CONFORM_HARNESS_H_

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "transport/transport.h"

namespace ftar::conform {

using transport::Completion;
using transport::Device;
using transport::DeviceConfig;
using transport::Link;

// One instance of the suite.
struct Variant {
  std::string name;       // of the test instance
  std::string transport;  // of the registry, "faulty+..." included
  int streams = 1;
  std::string interface_name;
  bool single_mapping = false;  // shm: both ends share one mapping, so that TSan sees races
  bool tcp() const { return transport.find("tcp") != std::string::npos; }
};
std::vector<Variant> AllVariants();
std::vector<Variant> TcpVariants();
inline void PrintTo(const Variant& variant, std::ostream* out) { *out << variant.name; }

TimeNs Now();
MemberId Member(uint64_t number);
DeviceConfig BaseConfig(const Variant& variant, uint64_t member);
Expected<std::unique_ptr<Device>> OpenVariant(const Variant& variant, const DeviceConfig& config);

// A device, its card, and what it has said so far.
class Node {
 public:
  Node(const Variant& variant, uint64_t member) : Node(variant, BaseConfig(variant, member)) {}
  Node(const Variant& variant, const DeviceConfig& config);

  bool PollOnce(size_t budget_bytes = 8u << 20);
  Link* Connect(const Node& peer) { return device->Connect(peer.card, Now()); }
  int Count(Completion::Kind kind) const;
  const Completion* Last(Completion::Kind kind) const;
  bool Up() const { return Count(Completion::Kind::kUp) + Count(Completion::Kind::kAccepted) > 0; }
  bool Down() const { return Count(Completion::Kind::kDown) > 0; }
  std::vector<Completion> Received() const;
  void ReleaseAll();

  DeviceConfig config;
  std::unique_ptr<Device> device;
  wire::MemberCard card;
  std::vector<Completion> log;
  // Called for every completion before it is logged; false keeps it out of the log.
  std::function<bool(Completion&)> filter;
};

// Polls the nodes until `done` or the time is over; returns done().
bool PumpUntil(std::vector<Node*> nodes, const std::function<bool()>& done,
               TimeNs timeout_ns = 10 * kSecond);
// For a fixed short while, to see that nothing more happens.
void PumpFor(std::vector<Node*> nodes, TimeNs time_ns);
// Connects a to b and waits until both say so.
void Join(Node* a, Node* b);

// A frame whose content follows from its number.
struct TestFrame {
  wire::FrameHeader header;
  std::vector<std::byte> ext, payload;
};
TestFrame MakeFrame(uint64_t number, size_t payload_bytes, size_t ext_bytes = 0);
// Empty if `got` is frame `number` with that size, else what is wrong.
std::string Difference(const Completion& got, uint64_t number, size_t payload_bytes,
                       size_t ext_bytes = 0);

class ConformTest : public testing::TestWithParam<Variant> {};
std::string VariantName(const testing::TestParamInfo<Variant>& info);

}  // namespace ftar::conform

#endif  // FTAR_TESTS_CONFORM_HARNESS_H_
