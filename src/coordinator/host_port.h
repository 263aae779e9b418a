// Where somebody listens, as people write it. Functions of their arguments; any thread.
#ifndef FTAR_COORDINATOR_HOST_PORT_H_
#define FTAR_COORDINATOR_HOST_PORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace ftar::coordinator {

struct HostPort {
  std::string host;
  uint16_t port = 0;
  bool operator==(const HostPort&) const = default;
};
// "host:port", "[v6]:port".
std::string ShownAddress(const HostPort& address);
Expected<HostPort> ParseHostPort(const std::string& text, const std::string& argument);
// One or more, with commas between. No text: none.
Expected<std::vector<HostPort>> ParseHostPorts(const std::string& text,
                                               const std::string& argument);

}  // namespace ftar::coordinator

#endif  // FTAR_COORDINATOR_HOST_PORT_H_
