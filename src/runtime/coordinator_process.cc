#include "runtime/coordinator_process.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

namespace ftar::runtime {
namespace {

constexpr char kProgram[] = "ftar-coordinator";

std::string FolderOfThisLibrary() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&FolderOfThisLibrary), &info) == 0) return {};
  if (info.dli_fname == nullptr) return {};
  char* const real = realpath(info.dli_fname, nullptr);
  if (real == nullptr) return {};
  std::string out(real);
  free(real);
  return out.substr(0, out.rfind('/'));
}

std::string FindProgram(const std::vector<std::string>& environment) {
  std::vector<std::string> folders;
  if (const std::string own = FolderOfThisLibrary(); !own.empty()) {
    folders = {own, own + "/../bin", own + "/../../bin"};
  }
  for (const std::string& entry : environment) {
    if (!entry.starts_with("PATH=")) continue;
    for (size_t at = 5; at < entry.size();) {
      const size_t colon = std::min(entry.find(':', at), entry.size());
      if (colon > at) folders.push_back(entry.substr(at, colon - at));
      at = colon + 1;
    }
  }
  for (const std::string& folder : folders) {
    const std::string path = folder + "/" + kProgram;
    if (access(path.c_str(), X_OK) == 0) return path;
  }
  return {};
}

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

// In the child of a process with threads: nothing but system calls.
[[noreturn]] void BecomeCoordinator(const char* path, char* const* arguments,
                                    char* const* environment) {
  setsid();
  // A second fork lets init inherit it, so that the parent owes it no wait().
  const pid_t second = fork();
  if (second != 0) _exit(second < 0 ? 1 : 0);
  const int null = open("/dev/null", O_RDWR);
  dup2(null, STDIN_FILENO);
  dup2(null, STDOUT_FILENO);
  dup2(null, STDERR_FILENO);
  syscall(SYS_close_range, 3u, ~0u, 0u);
  execve(path, arguments, environment);
  _exit(127);
}

}  // namespace

Status StartCoordinatorProcess(const CoordinatorCommand& command,
                               const std::vector<std::string>& environment) {
  const std::string path = FindProgram(environment);
  if (path.empty()) {
    return Status(Code::kCoordinator, "coordinator",
                  "ftar-coordinator is neither beside the library nor in PATH; start one and set "
                  "FTAR_COORDINATOR");
  }
  const bool v6 = command.host.find(':') != std::string::npos;
  const std::string address =
      (v6 ? "[" + command.host + "]" : command.host) + ":" + std::to_string(command.port);
  std::vector<std::string> arguments = {kProgram, "--listen", address,    "--exit-when-empty",
                                        "10",     "--job",    command.job};
  std::vector<std::string> variables;
  for (const std::string& entry : environment) {
    const bool replaced = entry.starts_with("FTAR_TOKEN=") ||
                          entry.starts_with("FTAR_TOKEN_FILE=") ||
                          entry.starts_with("FTAR_TEST_") || entry.starts_with("FTAR_JOB=");
    if (!replaced) variables.push_back(entry);
  }
  if (!command.token.empty()) variables.push_back("FTAR_TOKEN=" + command.token);
  const std::vector<char*> argv = Pointers(arguments), envp = Pointers(variables);
  const pid_t child = fork();
  if (child < 0) return Status::System("fork for ftar-coordinator", errno);
  if (child == 0) BecomeCoordinator(path.c_str(), argv.data(), envp.data());
  int result = 0;
  pid_t got = 0;
  do {
    got = waitpid(child, &result, 0);
  } while (got < 0 && errno == EINTR);
  // A program that ignores SIGCHLD has nothing to wait for: then the connection will tell.
  if (got == child && result != 0) {
    return Status(Code::kCoordinator, "coordinator", "ftar-coordinator could not be started");
  }
  return Status::Ok();
}

}  // namespace ftar::runtime
