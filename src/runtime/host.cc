#include "runtime/host.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace ftar::runtime {
namespace {

// Passes, while a /proc that is not mounted or closed to us stays so.
bool IsShortage(int error) { return error == EMFILE || error == ENFILE || error == ENOMEM; }

}  // namespace

std::string HostName() {
  char name[256] = "";
  if (gethostname(name, sizeof name - 1) != 0) return "unknown";
  return name;
}

Expected<std::string> HostKey() {
  constexpr char kBootId[] = "/proc/sys/kernel/random/boot_id";
  constexpr char kSpace[] = "/proc/self/ns/net";
  char boot[64] = "";
  const int fd = open(kBootId, O_RDONLY | O_CLOEXEC);
  if (fd < 0 && IsShortage(errno)) return Status::System(kBootId, errno);
  ssize_t got = 0;
  if (fd >= 0) {
    got = read(fd, boot, sizeof boot - 1);
    close(fd);
  }
  std::string key(boot, static_cast<size_t>(std::max<ssize_t>(got, 0)));
  while (!key.empty() && key.back() == '\n') key.pop_back();
  if (key.empty()) key = HostName();
  struct stat space {};
  if (stat(kSpace, &space) == 0) {
    key += "/" + std::to_string(space.st_ino);
  } else if (IsShortage(errno)) {
    return Status::System(kSpace, errno);
  }
  return key;
}

Cores UsableCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0)
    return {std::max(1, static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN))), 0};
  return {std::max(1, CPU_COUNT(&set)), XXH3_64bits(&set, sizeof set)};
}

Expected<MemberId> RandomMemberId() {
  MemberId id;
  while (!id.valid()) {
    const ssize_t got = getrandom(&id, sizeof id, 0);
    if (got < 0 && errno != EINTR) return Status::System("getrandom", errno);
    if (got != static_cast<ssize_t>(sizeof id)) id = {};
  }
  return id;
}

}  // namespace ftar::runtime
