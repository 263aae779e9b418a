#include "tests/process/connections.h"

#include <dirent.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>

namespace process {

bool ForConnections(pid_t pid, const std::function<void(int fd, uint16_t peer_port)>& treat) {
  const int process = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (process < 0) return false;
  bool allowed = true;
  DIR* const folder = opendir(("/proc/" + std::to_string(pid) + "/fd").c_str());
  while (const dirent* entry = folder != nullptr ? readdir(folder) : nullptr) {
    if (entry->d_name[0] == '.') continue;
    const int fd = static_cast<int>(syscall(SYS_pidfd_getfd, process, std::atoi(entry->d_name), 0));
    if (fd < 0 && errno == EPERM) allowed = false;
    if (fd < 0) continue;
    sockaddr_storage peer{};
    socklen_t size = sizeof peer;
    const bool connected = getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) == 0;
    // The port stands at the same place in both.
    if (connected && (peer.ss_family == AF_INET || peer.ss_family == AF_INET6))
      treat(fd, ntohs(reinterpret_cast<sockaddr_in*>(&peer)->sin_port));
    close(fd);
  }
  if (folder != nullptr) closedir(folder);
  close(process);
  return allowed;
}

bool Cut(int fd) { return shutdown(fd, SHUT_RDWR) == 0; }

bool Deafen(int fd) {
  sock_filter nothing = BPF_STMT(BPF_RET | BPF_K, 0);
  const sock_fprog program = {1, &nothing};
  return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0;
}

}  // namespace process
