// Bad input and bad weather inside one process, each named by `scenario=`. Every finding is a line
// "NAME=RESULT".
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "tests/process/worker.h"

namespace worker {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

void Found(const std::string& name, ftarResult_t code) {
  Say("found " + name + "=" + ftarResultString(code));
}

struct Member {
  ftar::Job job;
  ftar::Group group;
  bool ok = false;
};

Member Join(ftar::JobConfig config = {}) {
  Member out;
  auto joined = ftar::Job::Join(std::move(config));
  if (!joined.ok()) {
    SayError("join", joined.code());
    return out;
  }
  out.job = std::move(joined).value();
  auto opened = out.job.OpenGroup();
  if (!opened.ok()) {
    SayError("group", opened.code());
    return out;
  }
  out.group = std::move(opened).value();
  out.ok = true;
  Say("ready");
  return out;
}

int JoinOnly(const Arguments&) {
  const Member member = Join();
  if (member.ok) Say("end join status=FTAR_OK");
  return 0;
}

// An operation that the others have not entered, destroyed under way: its handle stays good, its
// buffer comes back.
int Destroy(const Arguments&) {
  Member member = Join();
  if (!member.ok) return 2;
  std::vector<float> data(1000, 1.0f);
  ftar::Op op = member.group.AllReduce(data);
  Found("test", op.Test().status);
  Found("destroy", ftarJobDestroy(member.job.get()));
  Found("wait", op.Wait(5 * kSecond).status);
  Found("again", ftarJobDestroy(member.job.get()));
  Say(std::string("found intact=") + (data == std::vector<float>(1000, 1.0f) ? "yes" : "no"));
  return 0;
}

// Every call in a forked child says so, and the parent goes on as if nothing had happened.
int Fork(const Arguments&) {
  Member member = Join();
  if (!member.ok) return 2;
  std::vector<float> data(1000, 1.0f);
  const pid_t child = fork();
  if (child == 0) {
    Found("child_wait_ready", member.job.WaitReady(0).code());
    Found("child_start", member.group.AllReduce(data).Wait(0).status);
    Found("child_leave", member.job.Leave(0).code());
    Found("child_view", member.job.GetView().code());
    ftarStepInfo step = FTAR_STEP_INFO_INIT;
    Found("child_step", ftarStepBegin(member.job.get(), nullptr, &step));
    Found("child_destroy", ftarJobDestroy(member.job.get()));
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  Say("found child_exit=" + std::to_string(status));
  Found("parent_op", member.group.AllReduce(data).Wait(10 * kSecond).status);
  Found("parent_leave", member.job.Leave(10 * kSecond).code());
  return 0;
}

// A data loader that lives on must not hide its parent's death. The child ends when the test closes
// our input.
int ForkThenDie(const Arguments&) {
  Member member = Join();
  if (!member.ok) return 2;
  if (fork() == 0) {
    char byte = 0;
    while (read(STDIN_FILENO, &byte, 1) > 0) {
    }
    _exit(0);
  }
  std::vector<float> data(1000, 1.0f);
  Found("op", member.group.AllReduce(data).Wait(10 * kSecond).status);
  kill(getpid(), SIGKILL);
  return 0;
}

int LeaveThenWait(const Arguments&) {
  Member member = Join();
  if (!member.ok) return 2;
  std::vector<float> data(1000, 1.0f), more(1000, 1.0f);
  ftar::Op op = member.group.AllReduce(data);
  Found("leave", member.job.Leave(10 * kSecond).code());
  Found("wait", op.Wait(10 * kSecond).status);
  Found("start", member.group.AllReduce(more).Wait(0).status);
  Found("leave_again", member.job.Leave(0).code());
  return 0;
}

struct InCallback {
  Member* member = nullptr;
  std::vector<float> data = std::vector<float>(10, 1.0f);
};

// What a callback may not do is refused there, and the engine goes on.
int Callback(const Arguments&) {
  static InCallback context;
  Member member = Join();
  if (!member.ok) return 2;
  context.member = &member;
  std::vector<float> data(1000, 1.0f);
  ftar::OpDesc desc;
  desc.kind = FTAR_ALLREDUCE;
  desc.count = data.size();
  desc.send = desc.recv = data.data();
  desc.on_done = [](const ftarOutcome*, void* user) {
    auto* in = static_cast<InCallback*>(user);
    Found("callback_start", in->member->group.AllReduce(in->data).Wait(0).status);
    Found("callback_leave", in->member->job.Leave(0).code());
    Found("callback_destroy", ftarJobDestroy(in->member->job.get()));
  };
  desc.user = &context;
  Found("op", member.group.Start(desc).Wait(10 * kSecond).status);
  Found("next", member.group.AllReduce(data).Wait(10 * kSecond).status);
  Found("leave", member.job.Leave(10 * kSecond).code());
  return 0;
}

void LimitDescriptors(rlim_t most) {
  rlimit limit{most, most};
  setrlimit(RLIMIT_NOFILE, &limit);
}

int NoDescriptorsAtJoin(const Arguments& arguments) {
  LimitDescriptors(static_cast<rlim_t>(arguments.Number("descriptors", 5)));
  return JoinOnly(arguments);
}

// Out of descriptors while running: what is connected goes on.
int NoDescriptorsMidway(const Arguments&) {
  Member member = Join();
  if (!member.ok) return 2;
  std::vector<float> data(100000, 1.0f);
  Found("before", member.group.AllReduce(data).Wait(10 * kSecond).status);
  LimitDescriptors(3);
  Found("after", member.group.AllReduce(data).Wait(10 * kSecond).status);
  Found("leave", member.job.Leave(10 * kSecond).code());
  return 0;
}

// Memory for `megabytes=` more than there is now.
int NoMemoryAtJoin(const Arguments& arguments) {
  long pages = 0;
  if (FILE* const file = fopen("/proc/self/statm", "r"); file != nullptr) {
    if (fscanf(file, "%ld", &pages) != 1) pages = 0;
    fclose(file);
  }
  const rlim_t bytes = static_cast<rlim_t>(pages) * static_cast<rlim_t>(getpagesize()) +
                       (static_cast<rlim_t>(arguments.Number("megabytes", 0)) << 20);
  const rlimit limit{bytes, bytes};
  setrlimit(RLIMIT_AS, &limit);
  try {
    return JoinOnly(arguments);
  } catch (const std::bad_alloc&) {  // this program's own words
    constexpr std::string_view kEnd = "end join status=FTAR_ERR_MEMORY\n";
    return write(STDOUT_FILENO, kEnd.data(), kEnd.size()) < 0 ? 1 : 0;
  }
}

// Operations until something ends them; `ops=` of them at most.
int Plain(const Arguments& arguments) {
  ftar::JobConfig config;
  Member member = Join(std::move(config));
  if (!member.ok) return 2;
  const int64_t ops = arguments.Number("ops", 2);
  std::vector<float> data(static_cast<size_t>(arguments.Number("count", 1000)), 1.0f);
  for (int64_t i = 0; i < ops; ++i) {
    const ftar::Outcome outcome = member.group.AllReduce(data).Wait(20 * kSecond);
    Say("found op" + std::to_string(i) + "=" + ftarResultString(outcome.status) +
        " participants=" + std::to_string(outcome.participants) + " text=" + outcome.Text());
    if (!outcome.ok() && outcome.status != FTAR_ERR_MISMATCH) return 0;
    if (const int64_t pause = arguments.Number("pause_ms", 0); pause > 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(pause));
    }
  }
  Found("leave", member.job.Leave(10 * kSecond).code());
  return 0;
}

// Nobody reads what the library logs, and SIGPIPE is as every program finds it.
int BrokenStderr(const Arguments& arguments) {
  int ends[2];
  if (pipe(ends) != 0) return 2;
  close(ends[0]);
  dup2(ends[1], STDERR_FILENO);
  signal(SIGPIPE, SIG_DFL);
  return Plain(arguments);
}

// Processor time of a member that only waits, in a wait and outside of any, in milliseconds per
// second.
int Idle(const Arguments&) {
  Member member = Join();
  if (!member.ok) return 2;
  const auto used_ms = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000 +
           (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1000;
  };
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  long before = used_ms();
  std::this_thread::sleep_for(std::chrono::seconds(1));
  Say("found outside=" + std::to_string(used_ms() - before));
  std::vector<float> data(1000, 1.0f);
  ftar::Op op = member.group.AllReduce(data);
  before = used_ms();
  Found("wait", op.Wait(kSecond).status);
  Say("found inside=" + std::to_string(used_ms() - before));
  return 0;
}

// Operations whose buffers are of another kind at each member, by its own dice: memory of
// ftarMemAlloc or the heap's, in place or not. It says how many were wrong.
int Kinds(const Arguments& arguments) {
  const auto least = static_cast<size_t>(arguments.Number("least", 1100));
  const size_t most = least + 20000;  // less memory than 64 KiB is not shown
  const auto calls = static_cast<uint64_t>(arguments.Number("calls", 2000));
  const Member member = Join();
  if (!member.ok) return 2;
  const auto seed = static_cast<uint64_t>(arguments.Number("seed", 0));
  void* shared = nullptr;
  if (ftarMemAlloc(member.job.get(), 2 * most * sizeof(float), nullptr, &shared) != FTAR_OK)
    return 2;
  std::vector<float> own(2 * most);
  int wrong = 0;
  for (uint64_t i = 0; i < calls; ++i) {
    // Alike, until all have mapped what they read.
    const uint64_t dice = i < 100 ? 0 : (i * 2654435761 >> (7 + 4 * seed)) % 4;
    float* const send = dice < 2 ? static_cast<float*>(shared) : own.data();
    float* const recv = dice % 2 == 0 ? send + most : send;
    const size_t count = least + i / 100 * 997 % 5000;
    std::fill_n(send, count, static_cast<float>(10 * i + seed + 1));
    // The other one's line is there when this one calls.
    if (seed == i / 50 % 2) std::this_thread::sleep_for(std::chrono::microseconds(20));
    ftarOp_t op = nullptr;
    if (ftarAllReduce(send, recv, count, FTAR_F32, FTAR_SUM, member.group.get(), &op) != FTAR_OK ||
        ftarOpWait(op, -1, nullptr) != FTAR_OK)
      return 2;
    ftarOpRelease(op);
    const auto right = std::count(recv, recv + count, static_cast<float>(20 * i + 3));
    if (static_cast<size_t>(right) != count) ++wrong;
  }
  Say("found wrong=" + std::to_string(wrong));
  return 0;
}

}  // namespace

int RunScenario(const std::string& name, const Arguments& arguments) {
  const struct {
    const char* name;
    int (*run)(const Arguments&);
  } scenarios[] = {{"join", JoinOnly},
                   {"destroy", Destroy},
                   {"fork", Fork},
                   {"fork_then_die", ForkThenDie},
                   {"leave_then_wait", LeaveThenWait},
                   {"callback", Callback},
                   {"no_descriptors_at_join", NoDescriptorsAtJoin},
                   {"no_descriptors_midway", NoDescriptorsMidway},
                   {"no_memory_at_join", NoMemoryAtJoin},
                   {"plain", Plain},
                   {"broken_stderr", BrokenStderr},
                   {"idle", Idle},
                   {"kinds", Kinds}};
  for (const auto& scenario : scenarios) {
    if (name == scenario.name) return scenario.run(arguments);
  }
  Say("end status=unknown scenario " + name);
  return 2;
}

}  // namespace worker
