/* Preloaded into a rival, gives its TCP sockets the congestion control that RIVAL_CONGESTION names;
 * those that it accepts inherit it from the one that listens. perf/compare compiles it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

int socket(int domain, int type, int protocol) {
  int (*real)(int, int, int) = (int (*)(int, int, int))dlsym(RTLD_NEXT, "socket");
  const int fd = real(domain, type, protocol);
  const char* control = getenv("RIVAL_CONGESTION");
  const int flags = SOCK_NONBLOCK | SOCK_CLOEXEC;
  if (fd < 0 || control == NULL || (type & ~flags) != SOCK_STREAM) return fd;
  if (domain != AF_INET && domain != AF_INET6) return fd;
  if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, control, (socklen_t)strlen(control)) != 0)
    perror("rival: congestion control");
  return fd;
}
