#include "coordinator/host_port.h"

#include <algorithm>
#include <charconv>

namespace ftar::coordinator {

std::string ShownAddress(const HostPort& address) {
  const bool v6 = address.host.find(':') != std::string::npos;
  return (v6 ? "[" + address.host + "]" : address.host) + ":" + std::to_string(address.port);
}

Expected<HostPort> ParseHostPort(const std::string& text, const std::string& argument) {
  const auto bad = [&] {
    return Status(Code::kConfig, argument,
                  argument + " is '" + text +
                      "'; it must be HOST:PORT or [IPv6]:PORT, with a port from 0 to 65535");
  };
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) return bad();
  HostPort out;
  out.host = text.substr(0, colon);
  if (out.host.front() == '[' && out.host.back() == ']') {
    out.host = out.host.substr(1, out.host.size() - 2);
  } else if (out.host.find(':') != std::string::npos) {
    return bad();
  }
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + colon + 1, end, out.port);
  if (error != std::errc() || stop != end || out.host.empty()) return bad();
  return out;
}

Expected<std::vector<HostPort>> ParseHostPorts(const std::string& text,
                                               const std::string& argument) {
  std::vector<HostPort> out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    const Expected<HostPort> parsed = ParseHostPort(text.substr(at, end - at), argument);
    if (!parsed.ok()) return parsed.status();
    out.push_back(*parsed);
    at = end + 1;
  }
  return out;
}

}  // namespace ftar::coordinator
