#include "transport/tcp/socket.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <limits>
#include <memory>

namespace ftar::transport::tcp {
namespace {

constexpr int kBacklog = 512;

Status BadInterface(const std::string& name, const std::string& why) {
  return {Code::kConfig, "interface", "interface '" + name + "': " + why};
}

// Of a socket that is not connected yet: a connection that has begun with bbr is paced for good,
// since the kernel does not take that back when another control follows.
bool SetCongestion(int fd, const std::string& congestion) {
  if (congestion.empty() || congestion == "system") return true;
  const std::string name = congestion == "auto" ? "cubic" : congestion;
  return ::setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.data(),
                      static_cast<socklen_t>(name.size())) == 0 ||
         congestion == "auto";
}

SocketAddress FromRaw(const sockaddr* raw) {
  SocketAddress address;
  address.bytes = raw->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  std::memcpy(&address.storage, raw, address.bytes);
  return address;
}

bool ParseHost(std::string text, SocketAddress* address) {
  if (text.size() >= 2 && text.front() == '[' && text.back() == ']')
    text = text.substr(1, text.size() - 2);
  sockaddr_in v4{};
  if (inet_pton(AF_INET, text.c_str(), &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    *address = FromRaw(reinterpret_cast<sockaddr*>(&v4));
    return true;
  }
  sockaddr_in6 v6{};
  if (inet_pton(AF_INET6, text.c_str(), &v6.sin6_addr) == 1) {
    v6.sin6_family = AF_INET6;
    *address = FromRaw(reinterpret_cast<sockaddr*>(&v6));
    return true;
  }
  return false;
}

bool ParseNumber(std::string_view text, unsigned max, unsigned* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size() && *value <= max;
}

// The bytes of an address, for comparing prefixes.
std::pair<const unsigned char*, unsigned> HostBytes(const SocketAddress& address) {
  if (address.family() == AF_INET) {
    return {reinterpret_cast<const unsigned char*>(
                &reinterpret_cast<const sockaddr_in*>(&address.storage)->sin_addr),
            4};
  }
  return {reinterpret_cast<const unsigned char*>(
              &reinterpret_cast<const sockaddr_in6*>(&address.storage)->sin6_addr),
          16};
}

bool InPrefix(const SocketAddress& address, const SocketAddress& network, unsigned bits) {
  if (address.family() != network.family()) return false;
  const auto [a, bytes] = HostBytes(address);
  const unsigned char* b = HostBytes(network).first;
  for (unsigned i = 0; i < bytes && bits > 0; ++i) {
    const unsigned here = bits < 8 ? bits : 8;
    const auto mask = static_cast<unsigned char>(0xff << (8 - here));
    if (((a[i] ^ b[i]) & mask) != 0) return false;
    bits -= here;
  }
  return true;
}

bool LinkLocal(const SocketAddress& address) {
  return address.family() == AF_INET6 &&
         IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(&address.storage)->sin6_addr);
}

// The best local address that `accept` takes: IPv4 before IPv6, since link-local and temporary IPv6
// addresses are common.
template <typename Accept>
bool FindLocal(Accept accept, SocketAddress* found) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return false;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, freeifaddrs);
  bool any = false;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const SocketAddress address = FromRaw(entry->ifa_addr);
    if (LinkLocal(address) || !accept(entry->ifa_name, address)) continue;
    if (!any || (found->family() == AF_INET6 && family == AF_INET)) *found = address;
    any = true;
  }
  return any;
}

// The address from which the kernel would talk to `route_to`; no packet is sent.
Expected<SocketAddress> LocalByRoute(const std::string& route_to) {
  const size_t colon = route_to.rfind(':');
  std::string host = route_to.substr(0, colon);
  if (host.size() >= 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* list = nullptr;
  const int error = getaddrinfo(host.c_str(), "9", &hints, &list);
  if (error != 0)
    return Status(Code::kConfig, "coordinator", "host '" + host + "': " + gai_strerror(error));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list, freeaddrinfo);
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    const UniqueFd fd(::socket(entry->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (!fd.valid() || ::connect(fd.get(), entry->ai_addr, entry->ai_addrlen) != 0) continue;
    SocketAddress local;
    local.bytes = sizeof local.storage;
    if (::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&local.storage), &local.bytes) != 0)
      continue;
    local.set_port(0);
    return local;
  }
  return BadInterface("", "no route to the coordinator's host '" + host + "'");
}

// Of several the first may have gone for good, its name with it.
Expected<SocketAddress> LocalByRoutes(const std::vector<std::string>& routes_to) {
  Expected<SocketAddress> first = LocalByRoute(routes_to.front());
  for (size_t i = 1; i < routes_to.size() && !first.ok(); ++i) {
    Expected<SocketAddress> other = LocalByRoute(routes_to[i]);
    if (other.ok()) return other;
  }
  return first;
}

}  // namespace

uint16_t SocketAddress::port() const {
  return ntohs(family() == AF_INET ? reinterpret_cast<const sockaddr_in*>(&storage)->sin_port
                                   : reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_port);
}

void SocketAddress::set_port(uint16_t port) {
  if (family() == AF_INET) {
    reinterpret_cast<sockaddr_in*>(&storage)->sin_port = htons(port);
  } else {
    reinterpret_cast<sockaddr_in6*>(&storage)->sin6_port = htons(port);
  }
}

bool SocketAddress::loopback() const {
  if (family() == AF_INET) {
    return (ntohl(reinterpret_cast<const sockaddr_in*>(&storage)->sin_addr.s_addr) >> 24) == 127;
  }
  const in6_addr& v6 = reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(&v6) || (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == 127);
}

bool SocketAddress::wildcard() const {
  const auto [bytes, count] = HostBytes(*this);
  for (unsigned i = 0; i < count; ++i) {
    if (bytes[i] != 0) return false;
  }
  return true;
}

std::string SocketAddress::Text() const {
  char host[INET6_ADDRSTRLEN] = "?";
  inet_ntop(family(), HostBytes(*this).first, host, sizeof host);
  const std::string port_text = ":" + std::to_string(port());
  return family() == AF_INET6 ? "[" + std::string(host) + "]" + port_text : host + port_text;
}

Expected<SocketAddress> ParseAddress(const std::string& text, bool any_port) {
  const size_t colon = text.rfind(':');
  SocketAddress address;
  unsigned port = 0;
  if (colon == std::string::npos || !ParseHost(text.substr(0, colon), &address) ||
      !ParseNumber(std::string_view(text).substr(colon + 1), 65535, &port) ||
      (port == 0 && !any_port)) {
    return Status(Code::kPeer, "'" + text.substr(0, 80) + "' is not a tcp address");
  }
  address.set_port(static_cast<uint16_t>(port));
  return address;
}

Expected<SocketAddress> ResolveInterface(const std::string& name,
                                         const std::vector<std::string>& routes_to,
                                         bool allow_wildcard) {
  SocketAddress address;
  if (name.empty()) {
    if (!routes_to.empty()) return LocalByRoutes(routes_to);
    ParseHost("127.0.0.1", &address);
    return address;
  }
  if (ParseHost(name, &address)) {
    if (address.wildcard() && !allow_wildcard) {
      return BadInterface(name, "listening on a wildcard address needs allow_wildcard=on");
    }
    return address;
  }
  if (const size_t slash = name.find('/'); slash != std::string::npos) {
    SocketAddress network;
    unsigned bits = 0;
    if (!ParseHost(name.substr(0, slash), &network) ||
        !ParseNumber(std::string_view(name).substr(slash + 1),
                     network.family() == AF_INET ? 32 : 128, &bits)) {
      return BadInterface(name, "is not a CIDR like 10.0.0.0/8");
    }
    if (FindLocal([&](const char*, const SocketAddress& a) { return InPrefix(a, network, bits); },
                  &address)) {
      address.set_port(0);
      return address;
    }
    return BadInterface(name, "no address of this host lies in it");
  }
  if (FindLocal([&](const char* found, const SocketAddress&) { return name == found; }, &address))
    return address;
  return BadInterface(name, "no such interface with an address here");
}

std::string InterfaceOf(const SocketAddress& local) {
  constexpr unsigned kAllBits = 128;
  std::string name;
  SocketAddress found;
  FindLocal(
      [&](const char* each, const SocketAddress& address) {
        if (!InPrefix(address, local, kAllBits)) return false;
        name = each;
        return true;
      },
      &found);
  return name;
}

Expected<Listener> Listen(const SocketAddress& address, const std::string& ports,
                          const std::string& congestion) {
  unsigned first = 0, last = 0;
  if (!ports.empty()) {
    const size_t dash = ports.find('-');
    if (!ParseNumber(std::string_view(ports).substr(0, dash), 65535, &first) || first == 0) {
      return Status(Code::kConfig, "ports", "'" + ports + "' is not a port range like 4000-4100");
    }
    last = first;
    if (dash != std::string::npos &&
        (!ParseNumber(std::string_view(ports).substr(dash + 1), 65535, &last) || last < first)) {
      return Status(Code::kConfig, "ports", "'" + ports + "' is not a port range like 4000-4100");
    }
  }
  int error = 0;
  for (unsigned port = first; port <= last; ++port) {
    Listener listener;
    listener.fd =
        UniqueFd(::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!listener.fd.valid()) return Status::System("socket", errno);
    if (!SetCongestion(listener.fd.get(), congestion)) {
      const Status why = Status::System("congestion control '" + congestion + "'", errno);
      return Status(Code::kConfig, "tcp_congestion", why.text());
    }
    const int on = 1;
    ::setsockopt(listener.fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (address.family() == AF_INET6)
      ::setsockopt(listener.fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    listener.address = address;
    listener.address.set_port(static_cast<uint16_t>(port));
    if (::bind(listener.fd.get(), listener.address.raw(), listener.address.bytes) == 0 &&
        ::listen(listener.fd.get(), kBacklog) == 0) {
      listener.address.bytes = sizeof listener.address.storage;
      ::getsockname(listener.fd.get(), reinterpret_cast<sockaddr*>(&listener.address.storage),
                    &listener.address.bytes);
      return listener;
    }
    error = errno;
    if (error != EADDRINUSE && error != EACCES) break;
  }
  const Status why = Status::System(
      "listening on " + address.Text() + (ports.empty() ? "" : ", ports " + ports), error);
  return Status(Code::kConfig, error == EADDRNOTAVAIL ? "interface" : "ports", why.text());
}

UniqueFd Dial(const SocketAddress& peer, const SocketAddress& local, const std::string& congestion,
              int* error) {
  *error = 0;
  UniqueFd fd(::socket(peer.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid() || !SetCongestion(fd.get(), congestion)) {
    *error = errno;
    fd.Reset();
    return fd;
  }
  // From the chosen interface, so that traffic stays where the user wants it. Between loopback and
  // the rest there is no route.
  if (local.family() == peer.family() && !local.wildcard() && local.loopback() == peer.loopback()) {
    SocketAddress from = local;
    from.set_port(0);
    const int on = 1;
    ::setsockopt(fd.get(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
    if (::bind(fd.get(), from.raw(), from.bytes) != 0) {
      *error = errno;
      fd.Reset();
      return fd;
    }
  }
  if (::connect(fd.get(), peer.raw(), peer.bytes) != 0 && errno != EINPROGRESS) {
    *error = errno;
    fd.Reset();
  }
  return fd;
}

Status SetOptions(int fd, TimeNs unanswered_max_ns) {
  const int on = 1;
  if (::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0)
    return Status::System("TCP_NODELAY", errno);
  const auto unanswered_ms = static_cast<unsigned>(
      std::min<TimeNs>(unanswered_max_ns / kMillisecond, std::numeric_limits<int>::max()));
  if (::setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unanswered_ms, sizeof unanswered_ms) != 0)
    return Status::System("TCP_USER_TIMEOUT", errno);
  return {};
}

void ResetAtClose(int fd) {
  const linger at_once{1, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
}

}  // namespace ftar::transport::tcp
