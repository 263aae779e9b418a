#include "run.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <ctime>

namespace demo {
namespace {

constexpr int64_t kPhaseTimeoutNs = 60 * kSecond;
constexpr long long kWarmSteps = 60;  // between two strikes, so that each is seen alone
constexpr int64_t kWarmNs = 3 * kSecond;

int64_t Now() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * kSecond + now.tv_nsec;
}

// Runs a program with its standard output in a pipe and its standard error in a file. Everything in
// it dies with the demo.
void Spawn(const std::vector<std::string>& command, const Environment& environment,
           const std::string& errors, Process* process) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw Failure("pipe: " + std::string(strerror(errno)));
  const pid_t parent = getpid();
  process->start_ns = Now();
  process->pid = fork();
  if (process->pid < 0) throw Failure("fork: " + std::string(strerror(errno)));
  if (process->pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    const int file = open(errors.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    dup2(ends[1], STDOUT_FILENO);
    dup2(file, STDERR_FILENO);
    for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
    std::vector<char*> argv;
    for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    execv(argv[0], argv.data());
    fprintf(stderr, "%s: %s\n", argv[0], strerror(errno));
    _exit(127);
  }
  close(ends[1]);
  process->out = ends[0];
  fcntl(process->out, F_SETFL, O_NONBLOCK);
}

// A port of loopback that is free now.
int FreePort() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  const bool bound = bind(fd, reinterpret_cast<sockaddr*>(&address), length) == 0 &&
                     getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) == 0;
  close(fd);
  if (!bound) throw Failure("no free port on loopback");
  return ntohs(address.sin_port);
}

std::string RandomToken() {
  unsigned char bytes[16];
  if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
    throw Failure("getrandom: " + std::string(strerror(errno)));
  std::string token;
  for (unsigned char byte : bytes) token += Format("%02x", byte);
  return token;
}

std::string OwnFolder() {
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path);
  if (length <= 0) throw Failure("cannot tell where ftar-demo lies");
  const std::string program(path, static_cast<size_t>(length));
  return program.substr(0, program.rfind('/'));
}

}  // namespace

std::string Format(const char* format, ...) {
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return text;
}

Run::Run(std::string logs, int64_t timeout_ns)
    : logs_(std::move(logs)), timeout_ns_(timeout_ns), begin_ns_(Now()) {}

Run::~Run() {
  for (auto& process : trainers_) {
    if (process->running()) kill(process->pid, SIGKILL);
  }
  if (coordinator_ && coordinator_->running()) kill(coordinator_->pid, SIGKILL);
  for (auto& process : trainers_) {
    if (process->running()) waitpid(process->pid, nullptr, 0);
    if (process->log) fclose(process->log);
  }
  if (coordinator_ && coordinator_->running()) waitpid(coordinator_->pid, nullptr, 0);
  if (coordinator_ && coordinator_->log) fclose(coordinator_->log);
}

void Run::Play() {
  StartCoordinator();
  for (int replica = 0; replica < kReplicas; ++replica) StartTrainer(replica, '#');
  TrainOn("four replicas train");

  Process* killed = trainers_[kKilled].get();
  killed->may_end = true;
  Await("a moment inside an allreduce", [&] { return KillAmidBuckets(killed); });
  TrainOn("the survivors train on");

  Process* stopped = trainers_[kStopped].get();
  stopped->may_end = true;
  Struck("SIGSTOP", stopped, -1);
  kill(stopped->pid, SIGSTOP);
  TrainOn("the survivors train on");
  Struck("SIGCONT", stopped, -1);
  kill(stopped->pid, SIGCONT);
  Await("the stopped replica learns that it is out", [&] { return !stopped->running(); });

  Process* newcomer = StartTrainer(kKilled, '=');
  Struck("start", newcomer, -1);
  Await("the newcomer trains", [&] { return newcomer->first_step >= 0; });
  TrainOn("the old and the new train on");

  Process* leaver = trainers_[kLeaver].get();
  leaver->may_end = true;
  Struck("SIGTERM", leaver, -1);
  kill(leaver->pid, SIGTERM);
  Await("the leaver goes", [&] { return !leaver->running(); });
  TrainOn("the rest trains on");

  for (auto& process : trainers_) process->may_end = true;
  Struck("SIGINT", trainers_.back().get(), -1);
  kill(trainers_.back()->pid, SIGINT);
  Await("the end of the training", [&] {
    return std::none_of(trainers_.begin(), trainers_.end(),
                        [](const auto& process) { return process->running(); });
  });
}

void Run::StartCoordinator() {
  const std::string address = "127.0.0.1:" + std::to_string(FreePort());
  environment_ = {{"FTAR_COORDINATOR", address},
                  {"FTAR_TOKEN", RandomToken()},
                  {"FTAR_REPLICAS", std::to_string(kReplicas)},
                  {"FTAR_TIMEOUT", std::to_string(timeout_ns_ / kMillisecond) + "ms"}};
  coordinator_.reset(Open("coordinator", "ftar-coordinator", {"--listen", address},
                          {{"FTAR_TOKEN", environment_["FTAR_TOKEN"]}}));
  Await("the coordinator", [&] { return !coordinator_->lines.empty(); });
  printf("coordinator at %s, logs in %s\n", address.c_str(), logs_.c_str());
}

Process* Run::StartTrainer(int replica, char mark) {
  Environment environment = environment_;
  environment["FTAR_REPLICA"] = std::to_string(replica);
  const std::string name = Format("replica %d%s", replica, mark == '#' ? "" : " (anew)");
  trainers_.emplace_back(Open(name, "ftar-trainer", {"1000000000"}, environment));
  trainers_.back()->replica = replica;
  trainers_.back()->mark = mark;
  return trainers_.back().get();
}

Process* Run::Open(const std::string& name, const std::string& program,
                   const std::vector<std::string>& arguments, const Environment& environment) {
  auto process = std::make_unique<Process>();
  process->name = name;
  std::string file = logs_ + "/";
  for (char c : name) file += c == ' ' ? '-' : c;
  std::vector<std::string> command = {OwnFolder() + "/" + program};
  command.insert(command.end(), arguments.begin(), arguments.end());
  process->log = fopen((file + ".jsonl").c_str(), "w");
  if (process->log == nullptr) throw Failure(file + ".jsonl: " + strerror(errno));
  Spawn(command, environment, file + ".err", process.get());
  return process.release();
}

// Lets the run go on until `done`, which is asked after every batch of lines. Throws if it takes
// too long.
void Run::Await(const std::string& what, const std::function<bool()>& done) {
  const int64_t deadline = Now() + kPhaseTimeoutNs;
  while (!done()) {
    if (Now() > deadline)
      throw Failure("waited " + std::to_string(kPhaseTimeoutNs / kSecond) +
                    " s in vain for: " + what);
    Pump(20);
  }
}

// A quiet stretch: some steps and some seconds, counted from the first step that ends after now.
void Run::TrainOn(const std::string& what) {
  const long long before = steps_.empty() ? -1 : steps_.rbegin()->first;
  int64_t since_ns = 0;
  Await(what, [&] {
    const long long gone = steps_.empty() ? 0 : steps_.rbegin()->first - before;
    if (gone >= 2 && since_ns == 0) since_ns = Now();  // the first of them may have been under way
    return gone >= kWarmSteps && Now() - since_ns >= kWarmNs;
  });
}

// Kills the victim only in the middle of a step's allreduce: some buckets on their way, others not
// even started. It is held for a moment, and its log says how far it came.
bool Run::KillAmidBuckets(Process* victim) {
  const auto amid = [&] {
    return victim->reducing >= 0 && victim->started > 0 && victim->started < victim->buckets;
  };
  if (!amid()) return false;
  int status;
  kill(victim->pid, SIGSTOP);
  if (waitpid(victim->pid, &status, WUNTRACED) != victim->pid || !WIFSTOPPED(status)) {
    throw Failure(victim->name + " is gone too early");
  }
  Read(victim);
  const bool still = amid();
  if (still) Struck("kill -9", victim, victim->reducing);
  kill(victim->pid, still ? SIGKILL : SIGCONT);
  return still;
}

void Run::Struck(const std::string& what, const Process* victim, long long step) {
  strikes_.push_back({what, victim, Now(), step});
  const std::string where = step >= 0 ? Format(", inside the allreduce of step %lld", step) : "";
  printf("%6.2f s  %s: %s%s\n", Seconds(strikes_.back().at_ns), what.c_str(), victim->name.c_str(),
         where.c_str());
  fflush(stdout);
}

// Waits for lines, takes them, and looks after the dead.
void Run::Pump(int wait_ms) {
  std::vector<pollfd> polled;
  std::vector<Process*> of;
  auto add = [&](Process* process) {
    if (process == nullptr || process->out < 0) return;
    polled.push_back({process->out, POLLIN, 0});
    of.push_back(process);
  };
  add(coordinator_.get());
  for (auto& process : trainers_) add(process.get());
  if (poll(polled.data(), polled.size(), wait_ms) < 0 && errno != EINTR)
    throw Failure("poll: " + std::string(strerror(errno)));
  for (size_t i = 0; i < polled.size(); ++i) {
    if (polled[i].revents != 0) Read(of[i]);
  }
  Reap();
  Progress();
}

// Takes everything that is in a process's pipe now.
void Run::Read(Process* process) {
  char bytes[65536];
  for (;;) {
    const ssize_t got = read(process->out, bytes, sizeof bytes);
    if (got < 0) return;  // nothing more now
    if (got == 0) {
      close(process->out);
      process->out = -1;
      return;
    }
    fwrite(bytes, 1, static_cast<size_t>(got), process->log);
    process->pending.append(bytes, static_cast<size_t>(got));
    size_t from = 0;
    for (size_t end; (end = process->pending.find('\n', from)) != std::string::npos;
         from = end + 1) {
      Take(process, process->pending.substr(from, end - from));
    }
    process->pending.erase(0, from);
  }
}

void Run::Take(Process* process, const std::string& text) {
  Json line = process->replica < 0 ? Json{{"event", "line"}, {"text", text}}
                                   : Json::parse(text, nullptr, false);
  if (!line.is_object() || !line.contains("event")) {
    problems_.push_back(process->name + " wrote what is no log line: " + text.substr(0, 100));
  } else if (line["event"] == "allreduce") {
    process->reducing = line["step"];
    process->started = line["started"];
  } else if (line["event"] == "step") {
    TakeStep(process, line);
  } else {
    line["read_ns"] = Now();
    process->lines.push_back(std::move(line));
  }
}

void Run::TakeStep(Process* process, const Json& line) {
  const long long step = line["step"];
  process->reducing = -1;
  process->buckets = line["buckets"].size();
  if (process->first_step < 0) process->first_step = step;
  if (process->last_step >= 0 && step != process->last_step + 1) {
    problems_.push_back(Format("%s went from step %lld to step %lld", process->name.c_str(),
                               process->last_step, step));
  }
  process->last_step = step;
  steps_[step].push_back({process, Now(), std::stod(line["loss"].get<std::string>()), line["hash"],
                          line["buckets"], line["who"]});
}

void Run::Reap() {
  auto reap = [](Process* process) {
    int status;
    if (process == nullptr || !process->running() ||
        waitpid(process->pid, &status, WNOHANG) != process->pid)
      return false;
    process->wait_status = status;
    process->end_ns = Now();
    return true;
  };
  auto cause = [](int status) {
    return WIFSIGNALED(status) ? Format("by signal %d", WTERMSIG(status))
                               : Format("with status %d", WEXITSTATUS(status));
  };
  if (reap(coordinator_.get()))
    throw Failure("the coordinator ended " + cause(coordinator_->wait_status));
  for (auto& process : trainers_) {
    if (!reap(process.get())) continue;
    if (process->out >= 0) Read(process.get());
    if (process->may_end) continue;
    const Json* out = process->Find("out");
    throw Failure(process->name + " ended " + cause(process->wait_status) +
                  (out ? ": " + (*out)["text"].get<std::string>() : ""));
  }
}

void Run::Progress() {
  if (steps_.empty() || Now() - said_ns_ < kSecond) return;
  said_ns_ = Now();
  const Seen& seen = steps_.rbegin()->second.front();
  std::string who;
  for (int replica : seen.who) who += Format(" %d", replica);
  printf("%6.2f s  step %lld, loss %.3f, replicas%s\n", Seconds(said_ns_), steps_.rbegin()->first,
         seen.loss, who.c_str());
  fflush(stdout);
}

}  // namespace demo
