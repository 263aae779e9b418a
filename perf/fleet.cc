#include "perf/fleet.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "fmt/format.h"
#include "perf/clock.h"

namespace ftar::perf {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;
constexpr int64_t kDumpNs = kSecondNs;  // for the ranks to write their recorders
constexpr int kCoordinatorTimeoutS = 20;

}  // namespace

Fleet::Fleet(const Options& options, std::vector<std::string> arguments, OnRecord on_record,
             OnGone on_gone)
    : options_(options),
      arguments_(std::move(arguments)),
      on_record_(std::move(on_record)),
      on_gone_(std::move(on_gone)) {}

Fleet::~Fleet() {
  EndAll();
  for (auto& [number, process] : processes_) {
    if (process.fd >= 0) close(process.fd);
  }
  if (signal_fd_ >= 0) close(signal_fd_);
}

std::string Fleet::Open(uint64_t arena_part_bytes) {
  board_ = Board::Create();
  if (board_ == nullptr) return "no memory for the board";
  if (arena_part_bytes > 0) {
    arena_ = Arena::Create(options_.ranks, arena_part_bytes);
    if (arena_ == nullptr) return "no memory for the arena";
  }
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGCHLD);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  signal_fd_ = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
  if (signal_fd_ < 0) return "no descriptor for signals";
  token_ = RandomToken();
  if (options_.hosted) {
    meeting_ = FreeAddresses(options_.ranks);
    return meeting_.empty() ? "no free port on loopback" : "";
  }
  std::string error = coordinator_.Start(token_, kCoordinatorTimeoutS);
  if (error.empty() && options_.ideal == IdealKind::kFtOff)
    error = second_coordinator_.Start(token_, kCoordinatorTimeoutS);
  return error;
}

bool Fleet::StartRank(const RankStart& start) {
  if (start.number >= kMaxProcesses) return false;
  RankProcess process;
  int write_fd = -1;
  if (!MakePipe(&process.fd, &write_fd)) return false;
  SpawnRequest request;
  request.arguments = {OwnPath()};
  request.arguments.insert(request.arguments.end(), arguments_.begin(), arguments_.end());
  const int arena_fd = arena_ != nullptr ? arena_->fd() : -1;
  const std::pair<const char*, int64_t> values[] = {
      {"--rank-index", start.replica},   {"--rank-slot", start.number},
      {"--rank-world", options_.ranks},  {"--rank-report-fd", write_fd},
      {"--rank-board-fd", board_->fd()}, {"--rank-arena-fd", arena_fd}};
  for (const auto& [name, value] : values) {
    request.arguments.insert(request.arguments.end(), {name, std::to_string(value)});
  }
  if (options_.ideal == IdealKind::kFtOff) {
    request.arguments.emplace_back("--rank-second-coordinator");
    request.arguments.push_back(second_coordinator_.address());
  }
  if (start.newcomer) request.arguments.emplace_back("--rank-newcomer");
  if (start.bystander) request.arguments.emplace_back("--rank-bystander");
  request.environment = start.environment;
  if (options_.hosted) request.environment.emplace_back("FTAR_COORDINATOR_KIND", "hosted");
  request.environment.emplace_back("FTAR_COORDINATOR",
                                   options_.hosted ? meeting_ : coordinator_.address());
  request.environment.emplace_back("FTAR_TOKEN", token_);
  request.keep = {write_fd, board_->fd()};
  if (arena_fd >= 0) request.keep.push_back(arena_fd);
  process.pid = Spawn(request);
  close(write_fd);
  process.number = start.number;
  process.replica = start.replica;
  process.bystander = start.bystander;
  process.progress_ns = NowNs();
  process.exited = process.pid < 0;
  const bool started = process.pid > 0;
  processes_.emplace(start.number, std::move(process));
  return started;
}

void Fleet::Pump(int timeout_ms) {
  std::vector<pollfd> entries;
  std::vector<RankProcess*> owners;
  for (auto& [number, process] : processes_) {
    if (process.fd < 0) continue;
    entries.push_back({process.fd, POLLIN, 0});
    owners.push_back(&process);
  }
  // A child's end wakes this at once, so that its time is known.
  entries.push_back({signal_fd_, POLLIN, 0});
  if (poll(entries.data(), entries.size(), timeout_ms) > 0) {
    for (size_t i = 0; i < owners.size(); ++i) {
      if (entries[i].revents != 0) ReadLines(owners[i]);
    }
  }
  Reap();
}

void Fleet::ReadLines(RankProcess* process) {
  const bool open = process->lines.Fill(process->fd);
  std::string line;
  while (process->lines.Next(&line)) {
    const std::optional<Record> record = Decode(line);
    if (record) on_record_(*process, *record);
  }
  if (open) return;
  close(process->fd);
  process->fd = -1;
}

void Fleet::Reap() {
  signalfd_siginfo info;
  while (read(signal_fd_, &info, sizeof info) > 0) {
  }
  for (auto& [number, process] : processes_) {
    int status = 0;
    if (process.exited || waitpid(process.pid, &status, WNOHANG | WUNTRACED) != process.pid)
      continue;
    if (WIFSTOPPED(status)) {
      process.stop_ns = NowNs();
      continue;
    }
    process.exited = true;
    process.wait_status = status;
    process.exit_ns = NowNs();
    // What it wrote before its end is in the pipe; a forked child may hold the other end open.
    while (process.fd >= 0) {
      pollfd entry{process.fd, POLLIN, 0};
      if (poll(&entry, 1, 0) <= 0) break;
      ReadLines(&process);
    }
    if (process.fd >= 0) close(process.fd);
    process.fd = -1;
    on_gone_(process);
  }
}

bool Fleet::StandsStill(RankProcess* process) {
  const int64_t now_ns = NowNs();
  const BoardSlot& show = slot(process->number);
  const uint64_t signature = show.delivered.load() * 1'000'003 + show.seq.load() * 31 +
                             static_cast<uint64_t>(show.state.load());
  if (signature != process->signature) {
    process->signature = signature;
    process->progress_ns = now_ns;
  }
  return now_ns - process->progress_ns >= options_.hang_timeout_s * kSecondNs;
}

void Fleet::DumpAll() {
  if (options_.dump_folder.empty()) return;
  for (auto& [number, process] : processes_) {
    if (!process.exited) kill(process.pid, SIGUSR1);
  }
  SleepNs(kDumpNs);
}

void Fleet::EndAll() {
  for (auto& [number, process] : processes_) {
    const int grandchild = slot(number).child_pid.load();
    if (grandchild > 0) kill(grandchild, SIGKILL);
    if (process.exited) continue;
    kill(process.pid, SIGKILL);
    waitpid(process.pid, &process.wait_status, 0);
    process.exited = true;
  }
}

}  // namespace ftar::perf
