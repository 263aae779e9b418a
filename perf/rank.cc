#include "perf/rank.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <latch>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "perf/arena.h"
#include "perf/board.h"
#include "perf/clock.h"
#include "perf/engine.h"

namespace ftar::perf {
namespace {

bool IsVictim(const Options& options) {
  for (const FaultSpec& fault : options.faults) {
    if (fault.rank >= 0 && fault.rank == options.role.index) return true;
  }
  return false;
}

// Memory that the kernel must take apart when the victim dies, like that of a trainer.
void* MakeResident(uint64_t bytes) {
  if (bytes == 0) return nullptr;
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  madvise(memory, bytes, MADV_NOHUGEPAGE);  // small pages take longest to free
  for (uint64_t i = 0; i < bytes; i += 4096) static_cast<volatile char*>(memory)[i] = 1;
  return memory;
}

// A child that outlives its parent with all its descriptors, like a data loader's worker; but not
// the launcher, which may be ended before it ends the child.
void ForkChild(BoardSlot* slot) {
  const auto launcher = static_cast<int>(syscall(SYS_pidfd_open, getppid(), 0));
  const pid_t child = fork();
  if (child == 0) {
    pollfd entry{launcher, POLLIN, 0};  // when it ends; never, where the system cannot tell
    while (poll(&entry, 1, -1) <= 0) {
    }
    _exit(0);
  }
  if (launcher >= 0) close(launcher);
  slot->child_pid.store(child);
}

// Where the ranks of one process wait for each other before any gives memory back: a GPU's driver
// lets that wait for all streams of the process, and their operations may wait for that driver.
class Departure {
 public:
  explicit Departure(std::latch* all) : all_(all) {}
  ~Departure() {
    if (all_ != nullptr) all_->count_down();
  }
  Departure(const Departure&) = delete;
  Departure& operator=(const Departure&) = delete;

  void Await() {
    if (std::latch* all = std::exchange(all_, nullptr)) all->arrive_and_wait();
  }

 private:
  std::latch* all_;  // null: nobody to wait for
};

// The board of a run without launcher: nobody else reads it.
struct Station {
  std::unique_ptr<Board> board;
  std::unique_ptr<Arena> arena;  // only with --fresh
  std::unique_ptr<Reporter> reporter;
  DirectReporter* direct = nullptr;
};

Station MakeStation(const Options& options, const Schedule& schedule) {
  Station station;
  if (options.role.index >= 0) {
    station.board = Board::Open(options.role.board_fd);
    if (options.fresh) station.arena = Arena::Open(options.role.arena_fd);
    station.reporter = std::make_unique<PipeReporter>(options.role.report_fd);
  } else {
    station.board = Board::Create();
    auto direct = std::make_unique<DirectReporter>(options, schedule);
    station.direct = direct.get();
    station.reporter = std::move(direct);
  }
  return station;
}

int Fail(Reporter* reporter, ftarResult_t status, const std::string& what) {
  const std::string text = fmt::format("{}: {}", what, Session::LastError());
  std::fprintf(stderr, "ftar-perf: %s\n", text.c_str());
  reporter->Send(EndRecord{status, 0, text});
  return kExitLibrary;
}

// A victim that is out, and a rank that has left as planned, have ended as they should; whether
// that was to be expected is for the launcher to say.
int ExitCode(const EndRecord& end, uint64_t wrong) {
  if (wrong > 0) return kExitWrong;
  if (end.status == FTAR_ERR_EVICTED || end.status == FTAR_ERR_LEFT) return kExitOk;
  if (end.status == FTAR_TIMEOUT) return kExitHang;
  return end.status == FTAR_OK && end.text.empty() ? kExitOk : kExitLibrary;
}

// Writes the flight recorder when the launcher asks by SIGUSR1, which the process has blocked
// before the first thread was made, so that only these receive it: one of them, and tells the rest.
class Dumper {
 public:
  Dumper(const Options& options, ftarJob_t job) {
    if (options.dump_folder.empty()) return;
    path_ = fmt::format("{}/rank-{}.json", options.dump_folder, options.role.slot);
    thread_ = std::thread([this, job] { Main(job); });
  }
  ~Dumper() {
    quit_ = true;
    if (thread_.joinable()) thread_.join();
  }
  Dumper(const Dumper&) = delete;
  Dumper& operator=(const Dumper&) = delete;

  static sigset_t Signals() {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR1);
    return signals;
  }

 private:
  void Main(ftarJob_t job) {
    static std::atomic<int> asked{0};
    const sigset_t signals = Signals();
    const timespec pause{0, 100'000'000};
    for (int seen = asked; !quit_;) {
      if (sigtimedwait(&signals, nullptr, &pause) == SIGUSR1) ++asked;
      if (seen == asked) continue;
      seen = asked;
      ftarJobDump(job, path_.c_str());
    }
  }

  std::string path_;
  std::atomic<bool> quit_{false};
  std::thread thread_;
};

// The same ranks once more, in a job with other knobs (--against).
class Beside {
 public:
  explicit Beside(const Options& options) : options_(options), session_(options_, &reporter_) {
    options_.knobs.insert(options_.knobs.end(), options.against.begin(), options.against.end());
    options_.knobs.emplace_back("coordinator", options.role.second_coordinator);
  }
  ftarResult_t Enter() {
    const ftarResult_t status = session_.Join();
    return status == FTAR_OK ? session_.Enter(options_.window) : status;
  }
  Session* session() { return &session_; }
  // A job's own memory is nothing special to another job.
  Buffers* buffers() { return &buffers_; }

 private:
  Options options_;
  SilentReporter reporter_;
  Session session_;
  Buffers buffers_;  // gone before its job is
};

// The control of a join: everything up to the join, and nothing after it.
int StandBy(BoardSlot* slot) {
  slot->state.store(static_cast<int32_t>(RankState::kDone));
  while (true) pause();
}

int RunMember(const Options& options, const Schedule& schedule, const Station& station,
              Session* session, Buffers* buffers, Matmul* matmul) {
  Reporter* reporter = station.reporter.get();
  BoardSlot* slot = &station.board->slot(options.role.slot);
  slot->state.store(static_cast<int32_t>(RankState::kJoining));
  ftarResult_t status = session->Join();
  if (status != FTAR_OK) return Fail(reporter, status, "join");
  status = session->Enter(options.window);
  if (status != FTAR_OK) return Fail(reporter, status, "wait until ready");
  if (options.victim_child && IsVictim(options)) ForkChild(slot);
  if (station.direct != nullptr) station.direct->SetPrinting(session->Info().my_rank == 0);
  if (options.memory != MemoryKind::kPlain) {
    status = buffers->AllocateFor(session->job(), options.memory,
                                  BufferBytes(options, schedule, session->Info().members));
    if (status != FTAR_OK) return Fail(reporter, status, "allocate buffers");
    // Later, others' streams may be waiting for this rank.
    if (!buffers->MakeMirror(LargestBuffer(schedule, session->Info().members)))
      return Fail(reporter, FTAR_ERR_DEVICE, buffers->cuda()->error());
  }
  const Dumper dumper(options, session->job());
  Engine engine(options, schedule, session, buffers, station.board.get(), station.arena.get(),
                reporter);
  engine.SetMatmul(matmul);
  std::optional<Beside> beside;
  if (options.ideal == IdealKind::kKnobs) {
    status = beside.emplace(options).Enter();
    if (status != FTAR_OK) return Fail(reporter, status, "join with other knobs");
    engine.SetBeside(beside->session(), beside->buffers());
  }
  std::optional<Bulk> bulk;
  if (options.beside_bytes > 0) {
    status = bulk.emplace(options, session->job()).Begin();
    if (status != FTAR_OK) return Fail(reporter, status, "begin the operations beside");
    engine.SetBulk(&*bulk);
  }
  EndRecord end = engine.Run();
  if (end.status == FTAR_OK && bulk) {
    end.status = bulk->End();
    if (end.status != FTAR_OK) end.text = Session::LastError();
  }
  if (end.status == FTAR_OK) {
    slot->state.store(static_cast<int32_t>(RankState::kLeaving));
    if (beside) beside->session()->Leave();
    session->Leave();
  }
  slot->state.store(static_cast<int32_t>(RankState::kDone));
  reporter->Send(end);
  if (station.direct != nullptr && !station.direct->Finish()) return kExitWrong;
  if (end.status != FTAR_OK && station.direct != nullptr) {
    std::fprintf(stderr, "ftar-perf: %s\n", end.text.c_str());
  }
  return ExitCode(end, engine.wrong());
}

int RunInJob(const Options& options, const Schedule& schedule, const Station& station,
             Buffers* buffers, Matmul* matmul, Departure* departure) {
  Session session(options, station.reporter.get());
  const int code = RunMember(options, schedule, station, &session, buffers, matmul);
  departure->Await();
  return code;
}

int RunOne(const Options& options, std::latch* all) {
  Departure departure(all);
  const bool direct = options.role.index < 0;
  const Schedule schedule(options, direct);
  Station station = MakeStation(options, schedule);
  if (station.board == nullptr || (options.fresh && station.arena == nullptr)) {
    std::fprintf(stderr, "ftar-perf: no memory for what the ranks share\n");
    return kExitLibrary;
  }
  std::unique_ptr<Cuda> cuda;
  if (options.OnDevice()) {
    std::string why;
    cuda = Cuda::Open(options.cuda_runtime, options.streams, &why);
    if (cuda == nullptr) {
      std::fprintf(stderr, "ftar-perf: --memory device: %s\n", why.c_str());
      return kExitUsage;
    }
  }
  std::unique_ptr<Matmul> matmul;
  if (options.matmul > 0) {
    std::string why;
    matmul = Matmul::Open(options.cublas, options.cuda_runtime, options.matmul, &why);
    if (matmul == nullptr) {
      std::fprintf(stderr, "ftar-perf: --matmul: %s\n", why.c_str());
      return kExitUsage;
    }
  }
  Buffers buffers;
  buffers.UseCuda(cuda.get());
  const int members = options.role.world > 0 ? options.role.world : 1;
  if (!options.OnDevice() && !buffers.AllocatePlain(BufferBytes(options, schedule, members))) {
    std::fprintf(stderr, "ftar-perf: no memory for the buffers\n");
    return kExitLibrary;
  }
  if (options.role.bystander) return StandBy(&station.board->slot(options.role.slot));
  void* resident = IsVictim(options) ? MakeResident(options.victim_resident_bytes) : nullptr;
  const int code = RunInJob(options, schedule, station, &buffers, matmul.get(), &departure);
  buffers.JobGone();
  if (resident != nullptr) munmap(resident, options.victim_resident_bytes);
  return code;
}

void BlockSignals() {
  const sigset_t signals = Dumper::Signals();
  sigprocmask(SIG_BLOCK, &signals, nullptr);
}

}  // namespace

int RunRank(const Options& options) {
  BlockSignals();
  return RunOne(options, nullptr);
}

int RunThreads(const Options& options) {
  BlockSignals();
  const size_t ranks = options.role.report_fds.size();
  std::latch all(static_cast<ptrdiff_t>(ranks));
  std::vector<int> codes(ranks, kExitOk);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < ranks; ++i) {
    Options own = options;
    own.role.index = own.role.slot = static_cast<int>(i);
    own.role.report_fd = options.role.report_fds[i];
    // Each closes what it has opened.
    own.role.board_fd = fcntl(options.role.board_fd, F_DUPFD_CLOEXEC, 0);
    if (options.role.arena_fd >= 0)
      own.role.arena_fd = fcntl(options.role.arena_fd, F_DUPFD_CLOEXEC, 0);
    threads.emplace_back(
        [own = std::move(own), &all, code = &codes[i]] { *code = RunOne(own, &all); });
  }
  for (std::thread& thread : threads) thread.join();
  return *std::max_element(codes.begin(), codes.end());
}

}  // namespace ftar::perf
