// The transports there are, by name.
#include <algorithm>

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

}  // namespace

Expected<std::unique_ptr<Device>> OpenDevice(const std::string& name, const DeviceConfig& config) {
  for (const Entry& entry : kEntries) {
    if (name == entry.name) return entry.open(config);
  }
  std::string known;
  for (const std::string& device : DeviceNames()) known += (known.empty() ? "" : ", ") + device;
  return Status(Code::kConfig, "transport", "there is no transport '" + name + "'; there are: " + known);
}

std::vector<std::string> DeviceNames() {
  std::vector<std::string> names;
  for (const Entry& entry : kEntries) names.emplace_back(entry.name);
  return names;
}

}  // namespace ftar::transport
