#include "perf/process.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "fmt/format.h"
#include "perf/clock.h"

namespace ftar::perf {
namespace {

// Runs in the child, between fork and exec; this process has one thread, so allocation is safe.
[[noreturn]] void Become(const SpawnRequest& request, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  if (getppid() != parent) _exit(127);  // the launcher died before the line above
  for (const auto& [name, value] : request.environment) setenv(name.c_str(), value.c_str(), 1);
  for (int fd : request.keep) fcntl(fd, F_SETFD, 0);
  if (request.stdout_fd >= 0) dup2(request.stdout_fd, STDOUT_FILENO);
  std::vector<char*> argv;
  for (const std::string& argument : request.arguments)
    argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  execvp(argv[0], argv.data());
  fmt::print(stderr, "ftar-perf: cannot start {}: {}\n", argv[0], std::strerror(errno));
  _exit(127);
}

}  // namespace

pid_t Spawn(const SpawnRequest& request) {
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child == 0) Become(request, parent);
  return child;
}

bool MakePipe(int* read_fd, int* write_fd) {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) return false;
  *read_fd = fds[0];
  *write_fd = fds[1];
  return true;
}

std::string OwnPath() {
  char path[PATH_MAX];
  const ssize_t n = readlink("/proc/self/exe", path, sizeof path);
  return n > 0 ? std::string(path, static_cast<size_t>(n)) : "ftar-perf";
}

std::string CompanionPath(const std::string& name) {
  const std::string own = OwnPath();
  const std::string beside = own.substr(0, own.rfind('/') + 1) + name;
  return access(beside.c_str(), X_OK) == 0 ? beside : name;
}

std::string RandomToken() {
  unsigned char bytes[32] = {};
  if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes) return "";
  std::string text;
  for (unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

std::string FreeAddresses(int count) {
  std::string text;
  std::vector<int> held;  // until all are drawn, so that they differ
  bool ok = true;
  for (int i = 0; i < count && ok; ++i) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    auto* const raw = reinterpret_cast<sockaddr*>(&address);
    held.push_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ok = bind(held.back(), raw, length) == 0 && getsockname(held.back(), raw, &length) == 0;
    text += fmt::format("{}127.0.0.1:{}", i == 0 ? "" : ",", ntohs(address.sin_port));
  }
  for (const int fd : held) close(fd);
  return ok ? text : "";
}

bool LineBuffer::Fill(int fd) {
  char chunk[65536];
  const ssize_t n = read(fd, chunk, sizeof chunk);
  if (n < 0) return errno == EINTR || errno == EAGAIN;
  text_.append(chunk, static_cast<size_t>(n));
  return n > 0;
}

bool LineBuffer::Next(std::string* line) {
  const size_t end = text_.find('\n', begin_);
  if (end == std::string::npos) {
    text_.erase(0, begin_);
    begin_ = 0;
    return false;
  }
  *line = text_.substr(begin_, end - begin_);
  begin_ = end + 1;
  return true;
}

Coordinator::~Coordinator() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  if (fd_ >= 0) close(fd_);
}

std::string Coordinator::Start(const std::string& token, int timeout_s) {
  int write_fd = -1;
  if (!MakePipe(&fd_, &write_fd)) return "no pipe for the coordinator";
  SpawnRequest request;
  request.arguments = {CompanionPath("ftar-coordinator"), "--listen", "127.0.0.1:0"};
  request.environment = {{"FTAR_TOKEN", token}};
  request.stdout_fd = write_fd;
  pid_ = Spawn(request);
  close(write_fd);
  if (pid_ < 0) return "cannot fork the coordinator";
  LineBuffer lines;
  const int64_t deadline_ns = NowNs() + timeout_s * int64_t{1'000'000'000};
  while (NowNs() < deadline_ns) {
    pollfd entry{fd_, POLLIN, 0};
    if (poll(&entry, 1, 100) <= 0) continue;
    if (!lines.Fill(fd_)) return "ftar-coordinator ended before it was ready";
    std::string line;
    while (lines.Next(&line)) {
      const std::string mark = "listening on ";
      const size_t at = line.find(mark);
      if (at == std::string::npos) continue;
      address_ = line.substr(at + mark.size());
      return "";
    }
  }
  return "ftar-coordinator did not get ready";
}

}  // namespace ftar::perf
