#include "tests/process/harness.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

extern char** environ;

namespace process {
namespace {

std::string FolderOfThisProgram() {
  char path[4096];
  const ssize_t size = readlink("/proc/self/exe", path, sizeof path);
  const std::string whole(path, static_cast<size_t>(std::max<ssize_t>(size, 0)));
  return whole.substr(0, whole.rfind('/'));
}

std::vector<std::string> EnvironmentWith(const Variables& variables) {
  std::vector<std::string> out;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::string name = text.substr(0, text.find('='));
    if (!name.starts_with("FTAR_") && !variables.contains(name)) out.push_back(text);
  }
  for (const auto& [name, value] : variables) out.push_back(name + "=" + value);
  return out;
}

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

}  // namespace

double NowSeconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

void SleepMs(int milliseconds) {
  const timespec time{milliseconds / 1000, (milliseconds % 1000) * 1'000'000L};
  nanosleep(&time, nullptr);
}

std::string WorkerPath() { return FolderOfThisProgram() + "/ftar_process_worker"; }
std::string WeatherPath() { return FolderOfThisProgram() + "/libftar_weather.so"; }
std::string CoordinatorPath() { return FolderOfThisProgram() + "/../ftar-coordinator"; }

// ---- Process

Process::Process(const std::string& program, const std::vector<std::string>& arguments,
                 const Variables& variables) {
  int input[2], output[2];
  if (pipe2(input, O_CLOEXEC) != 0 || pipe2(output, O_CLOEXEC) != 0) return;
  error_ = memfd_create("errors", MFD_CLOEXEC);
  std::vector<std::string> words = {program};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<std::string> environment = EnvironmentWith(variables);
  const std::vector<char*> argv = Pointers(words), envp = Pointers(environment);
  pid_ = fork();
  if (pid_ == 0) {
    dup2(input[0], STDIN_FILENO);
    dup2(output[1], STDOUT_FILENO);
    dup2(error_, STDERR_FILENO);
    execve(program.c_str(), argv.data(), envp.data());
    _exit(127);
  }
  close(input[0]);
  close(output[1]);
  in_ = input[1];
  out_ = output[0];
}

Process::~Process() {
  if (pid_ > 0 && !status_) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  for (const int fd : {in_, out_, error_}) {
    if (fd >= 0) close(fd);
  }
}

bool Process::ReadSome(double seconds) {
  if (ended_) return false;
  pollfd entry{out_, POLLIN, 0};
  if (poll(&entry, 1, static_cast<int>(std::max(0.0, seconds) * 1000)) <= 0) return false;
  char buffer[65536];
  const ssize_t got = read(out_, buffer, sizeof buffer);
  if (got <= 0) {
    ended_ = true;
    return false;
  }
  partial_.append(buffer, static_cast<size_t>(got));
  for (size_t end = partial_.find('\n'); end != std::string::npos; end = partial_.find('\n')) {
    lines_.push_back(partial_.substr(0, end));
    partial_.erase(0, end + 1);
  }
  return true;
}

bool Process::WaitLine(const std::string& prefix, double seconds) {
  const double deadline = NowSeconds() + seconds;
  size_t seen = 0;
  for (;;) {
    for (; seen < lines_.size(); ++seen) {
      if (lines_[seen].starts_with(prefix)) return true;
    }
    const double left = deadline - NowSeconds();
    if (left <= 0 || ended_) return false;
    ReadSome(left);
  }
}

void Process::Collect() {
  while (ReadSome(0)) {
  }
}

int Process::WaitExit(double seconds) {
  const double deadline = NowSeconds() + seconds;
  while (!ended_ && NowSeconds() < deadline) ReadSome(deadline - NowSeconds());
  while (!status_) {
    int status = 0;
    const pid_t got = waitpid(pid_, &status, WNOHANG);
    if (got == pid_) {
      status_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    } else if (NowSeconds() >= deadline) {
      return -1;
    } else {
      SleepMs(1);
    }
  }
  return *status_;
}

void Process::Signal(int signal) const {
  if (pid_ > 0 && !status_) kill(pid_, signal);
}

void Process::CloseInput() {
  if (in_ >= 0) close(in_);
  in_ = -1;
}

bool Process::Stopped() const {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/stat", pid_);
  FILE* const file = fopen(path, "r");
  if (file == nullptr) return false;
  char text[1024] = "";
  const size_t got = fread(text, 1, sizeof text - 1, file);
  fclose(file);
  text[got] = '\0';
  const char* const end = strrchr(text, ')');
  return end != nullptr && end[2] == 'T';
}

std::vector<std::string> Process::LinesWith(const std::string& prefix) const {
  std::vector<std::string> out;
  for (const std::string& line : lines_) {
    if (line.starts_with(prefix)) out.push_back(line);
  }
  return out;
}

std::string Process::Errors() const {
  std::string out(65536, '\0');
  const ssize_t got = pread(error_, out.data(), out.size(), 0);
  out.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
  return out;
}

std::string Process::Output() const {
  std::string out;
  for (const std::string& line : lines_) out += "  " + line + "\n";
  const std::string errors = Errors();
  if (!errors.empty()) out += "  standard error:\n" + errors;
  return out;
}

std::string Field(const std::string& line, const std::string& name) {
  const std::string key = " " + name + "=";
  const size_t at = line.find(key);
  if (at == std::string::npos) return {};
  const size_t begin = at + key.size();
  return line.substr(begin, name == "text" ? std::string::npos : line.find(' ', begin) - begin);
}

// ---- Coordinator, Team

Coordinator::Coordinator(const Variables& variables, const std::string& address,
                         const std::vector<std::string>& more_arguments) {
  Variables all = variables;
  if (!all.contains("FTAR_LOG")) all["FTAR_LOG"] = "info";
  std::vector<std::string> arguments = {"--listen", address};
  arguments.insert(arguments.end(), more_arguments.begin(), more_arguments.end());
  process_ = std::make_unique<Process>(CoordinatorPath(), arguments, all);
  if (process_->WaitLine("ftar-coordinator ", 10)) {
    const std::string& line = process_->lines().back();
    address_ = line.substr(line.rfind(' ') + 1);
  }
}

std::string FreeAddresses(int count) {
  std::string out;
  std::vector<int> held;  // until all are drawn, so that they differ
  for (int i = 0; i < count; ++i) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    held.push_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (bind(held.back(), reinterpret_cast<sockaddr*>(&address), size) != 0) continue;
    getsockname(held.back(), reinterpret_cast<sockaddr*>(&address), &size);
    out += (out.empty() ? "" : ",") + ("127.0.0.1:" + std::to_string(ntohs(address.sin_port)));
  }
  for (const int fd : held) close(fd);
  return out;
}

Team::Team(const std::string& coordinator, int replicas, const Variables& variables,
           const std::vector<std::string>& arguments)
    : coordinator_(coordinator),
      replicas_(replicas),
      variables_(variables),
      arguments_(arguments) {}

Process& Team::Start(int replica, const Variables& extra) {
  return StartWith(replica, extra, arguments_);
}

Process& Team::StartWith(int replica, const Variables& extra,
                         const std::vector<std::string>& arguments) {
  Variables all = variables_;
  all["FTAR_COORDINATOR"] = coordinator_;
  all["FTAR_REPLICA"] = std::to_string(replica);
  all["FTAR_REPLICAS"] = std::to_string(replicas_);
  for (const auto& [name, value] : extra) all[name] = value;
  members_[replica] = std::make_unique<Process>(WorkerPath(), arguments, all);
  return *members_[replica];
}

bool Team::WaitReady(double seconds) {
  const double deadline = NowSeconds() + seconds;
  for (auto& [replica, member] : members_) {
    if (!member->WaitLine("ready", deadline - NowSeconds())) return false;
  }
  return true;
}

std::string Team::Story() {
  std::string out;
  for (auto& [replica, member] : members_) {
    member->Collect();
    out += "replica " + std::to_string(replica) + ":\n" + member->Output();
  }
  return out;
}

}  // namespace process
