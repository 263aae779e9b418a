// Preloaded into a process, makes its system misbehave as variables say:
//   WEATHER_CLOCK=1     the wall clock is an hour off, now ahead, now behind, at each look
//   WEATHER_NO_SPACE=N  after N times there is no space for shared memory (ENOSPC)
//   WEATHER_HANG=N      after N connections it stands still at the next (SIGSTOP)
// At the end it says on standard error how often it struck, so that a test knows that it was there.
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

namespace {

std::atomic<int> looks{0}, allocations{0}, refusals{0}, connections{0};

template <typename Function>
Function Real(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

bool On(const char* variable) { return getenv(variable) != nullptr; }

time_t Stepped(time_t seconds) { return looks++ % 2 == 0 ? seconds + 3600 : seconds - 3600; }

// Zero: there is space still.
int NoSpace() {
  const char* allowed = getenv("WEATHER_NO_SPACE");
  if (allowed == nullptr || allocations++ < atoi(allowed)) return 0;
  ++refusals;
  return ENOSPC;
}

struct Report {
  ~Report() {
    char line[80];
    const int size = snprintf(line, sizeof line, "weather: clock %d, refused %d\n", looks.load(),
                              refusals.load());
    [[maybe_unused]] const ssize_t done = write(STDERR_FILENO, line, static_cast<size_t>(size));
  }
} report;

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* now) noexcept {
  static const auto real = Real<int (*)(clockid_t, timespec*)>("clock_gettime");
  const int result = real(clock, now);
  if (clock == CLOCK_REALTIME && On("WEATHER_CLOCK")) now->tv_sec = Stepped(now->tv_sec);
  return result;
}

int connect(int fd, const sockaddr* address, socklen_t size) {
  static const auto real = Real<int (*)(int, const sockaddr*, socklen_t)>("connect");
  const char* allowed = getenv("WEATHER_HANG");
  int type = 0;
  socklen_t type_size = sizeof type;
  getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_size);
  const bool tcp = address->sa_family != AF_UNIX && type == SOCK_STREAM;
  if (allowed != nullptr && tcp && connections++ == atoi(allowed)) kill(getpid(), SIGSTOP);
  return real(fd, address, size);
}

int gettimeofday(timeval* __restrict now, void* __restrict zone) noexcept {
  static const auto real = Real<int (*)(timeval*, void*)>("gettimeofday");
  const int result = real(now, zone);
  if (On("WEATHER_CLOCK")) now->tv_sec = Stepped(now->tv_sec);
  return result;
}

time_t time(time_t* out) noexcept {
  static const auto real = Real<time_t (*)(time_t*)>("time");
  time_t now = real(nullptr);
  if (On("WEATHER_CLOCK")) now = Stepped(now);
  if (out != nullptr) *out = now;
  return now;
}

int fallocate(int fd, int mode, off_t offset, off_t bytes) {
  static const auto real = Real<int (*)(int, int, off_t, off_t)>("fallocate");
  if (const int error = NoSpace(); error != 0) return errno = error, -1;
  return real(fd, mode, offset, bytes);
}

}  // extern "C"
