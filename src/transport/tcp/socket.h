// Addresses and sockets of the tcp transport: which local address to use, listening in a port
// range, dialling, options. Plain functions over values; any thread. Descriptors returned are
// nonblocking and close-on-exec. Errors are Code::kConfig with the knob's name as argument when the
// configuration is to blame, else Code::kSystem.
#ifndef FTAR_TRANSPORT_TCP_SOCKET_H_
#define FTAR_TRANSPORT_TCP_SOCKET_H_

#include <sys/socket.h>

#include <string>

#include "base/ids.h"
#include "base/status.h"
#include "transport/fd.h"

namespace ftar::transport::tcp {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t bytes = 0;

  const sockaddr* raw() const { return reinterpret_cast<const sockaddr*>(&storage); }
  int family() const { return storage.ss_family; }
  uint16_t port() const;
  void set_port(uint16_t port);
  bool loopback() const;
  bool wildcard() const;
  std::string Text() const;  // "10.0.0.3:4711", "[::1]:4711"
};

// Numbers only, no names: "10.0.0.3:4711", "[::1]:4711".
// Port 0, "any", is an address to listen on and no address of a peer.
Expected<SocketAddress> ParseAddress(const std::string& text, bool any_port = false);

// The local address that knob `interface` names (see DeviceConfig::interface_name); the port is 0.
Expected<SocketAddress> ResolveInterface(const std::string& name,
                                         const std::vector<std::string>& routes_to,
                                         bool allow_wildcard);

// The name of the interface that has this address; empty: none has.
std::string InterfaceOf(const SocketAddress& local);

struct Listener {
  UniqueFd fd;
  SocketAddress address;  // with the port in use
};
// `ports` is "a-b", "a" or empty for any. `congestion` is that of the connections it takes in: ""
// and "system" leave the default, "auto" takes cubic where there is one; kConfig if this system has
// no such control.
Expected<Listener> Listen(const SocketAddress& address, const std::string& ports,
                          const std::string& congestion);

// Starts to connect from `local`'s address. *error is errno if it failed at once (the descriptor is
// then invalid).
UniqueFd Dial(const SocketAddress& peer, const SocketAddress& local, const std::string& congestion,
              int* error);

// TCP_NODELAY. What the peer's host has not acknowledged after `unanswered_max_ns` breaks the
// connection; 0: the kernel's own patience, a quarter of an hour.
Status SetOptions(int fd, TimeNs unanswered_max_ns);
// Closing it resets the connection: what is not on its way yet is never sent.
void ResetAtClose(int fd);

}  // namespace ftar::transport::tcp

#endif  // FTAR_TRANSPORT_TCP_SOCKET_H_
