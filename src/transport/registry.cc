// The transports there are, by name.
#include <algorithm>

#include "transport/faulty/device.h"
#include "transport/shm/device.h"
#include "transport/tcp/device.h"
#include "transport/transport.h"

namespace ftar::transport {
namespace {

using OpenFunction = Expected<std::unique_ptr<Device>> (*)(const DeviceConfig& config);
struct Entry {
  const char* name;
  OpenFunction open;
};
constexpr Entry kEntries[] = {
    {"shm", shm::ShmDevice::Open},
    {"tcp", tcp::TcpDevice::Open},
};

constexpr char kFaultyPrefix[] = "faulty+";

// Only in builds for tests: nobody shall be able to switch faults on in a real job.
Expected<std::unique_ptr<Device>> OpenFaulty(const std::string& inner, const DeviceConfig& config) {
#ifdef FTAR_TEST_HOOKS
  auto device = OpenDevice(inner, config);
  if (!device.ok()) return device;
  return std::unique_ptr<Device>(
      std::make_unique<faulty::FaultyDevice>(std::move(*device), faulty::FaultPlan{}));
#else
  static_cast<void>(config);
  return Status(Code::kConfig, "transport",
                "'faulty+" + inner + "' exists only in builds with FTAR_TEST_HOOKS");
#endif
}

}  // namespace

Expected<std::unique_ptr<Device>> OpenDevice(const std::string& name, const DeviceConfig& config) {
  if (name.starts_with(kFaultyPrefix))
    return OpenFaulty(name.substr(sizeof kFaultyPrefix - 1), config);
  for (const Entry& entry : kEntries) {
    if (name == entry.name) return entry.open(config);
  }
  std::string known;
  for (const std::string& device : DeviceNames()) known += (known.empty() ? "" : ", ") + device;
  return Status(Code::kConfig, "transport",
                "there is no transport '" + name + "'; there are: " + known);
}

std::vector<std::string> DeviceNames() {
  std::vector<std::string> names;
  for (const Entry& entry : kEntries) names.emplace_back(entry.name);
  return names;
}

}  // namespace ftar::transport
