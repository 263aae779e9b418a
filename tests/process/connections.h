// Strikes at other processes' TCP connections, from outside.
#ifndef FTAR_TESTS_PROCESS_CONNECTIONS_H_
#define FTAR_TESTS_PROCESS_CONNECTIONS_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>

namespace process {

// Does something to every TCP connection of another process; false where the kernel does not let
// us.
bool ForConnections(pid_t pid, const std::function<void(int fd, uint16_t peer_port)>& treat);

// As a middlebox that forgets connections.
bool Cut(int fd);
// As a route that has gone: nothing more comes in, no acknowledgement either.
bool Deafen(int fd);

}  // namespace process

#endif  // FTAR_TESTS_PROCESS_CONNECTIONS_H_
