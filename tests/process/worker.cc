// One member as a process of its own, for tests that kill it. Written against ftar.hpp as a user
// would.
//
//   worker [name=value ...]
//     ops=N count=N window=N  allreduces, elements of each, how many are started before the first
//                             is waited for
//     inplace=0|1 steps=0|1   in place; a step mark before each batch
//     together=0|1            three barriers before each batch, so that its first operation finds
//                             the others there and may be shared in the lane; says whether it had
//                             a line at once, "lined=0|1"
//     late_us=N               so much later than the others, then
//     library=0|1             buffers of ftarMemAlloc, which host-mates read where they lie
//     gpu=0|1                 buffers of a GPU that is none, each with a stream (tests/fakegpu)
//     gpu_fault=KIND@SEQ      breaks or hangs that GPU, or aborts the job, gpu_delay_us after the
//                             start of an operation; at the end it says whether streams go on
//     pause_ms=N              between batches
//     linger=0|1              wait for a line on standard input before leaving
//     leave=0|1               leave as planned at the end; else destroy
//     deadline_s=N            print a dump and exit with 99 when the run takes longer
//     scenario=NAME           instead: one of the functions in scenarios.cc
//
// Output, one line each: "ready replica=R members=N",
// "op seq=S status=T participants=R,R,.. digest=H wrong=N ...", "event ...", "end status=T".
// Inputs are small whole numbers, so that the sum over any set of participants is exact.
#include "tests/process/worker.h"

#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <map>
#include <thread>

namespace worker {

Arguments::Arguments(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const char* equals = strchr(argv[i], '=');
    if (equals != nullptr)
      values_[std::string(argv[i], static_cast<size_t>(equals - argv[i]))] = equals + 1;
  }
}

std::string Arguments::Text(const std::string& name, const std::string& otherwise) const {
  const auto found = values_.find(name);
  return found == values_.end() ? otherwise : found->second;
}

int64_t Arguments::Number(const std::string& name, int64_t otherwise) const {
  const std::string text = Text(name, "");
  return text.empty() ? otherwise : strtoll(text.c_str(), nullptr, 10);
}

void Say(const std::string& line) {
  const std::string whole = line + "\n";
  const char* data = whole.data();
  for (size_t left = whole.size(); left > 0;) {
    const ssize_t done = write(STDOUT_FILENO, data, left);
    if (done <= 0) return;
    data += done;
    left -= static_cast<size_t>(done);
  }
}

void SayError(const std::string& what, ftarResult_t code) {
  ftarErrorInfo info = FTAR_ERROR_INFO_INIT;
  ftarGetLastError(&info);
  Say("end " + what + " status=" + ftarResultString(code) + " argument=" + info.argument +
      " text=" + info.text);
}

float Input(int32_t replica, uint64_t seq, size_t i) {
  return static_cast<float>((replica + 1) * 7 + static_cast<int>(seq % 11) +
                            static_cast<int>(i % 5));
}

namespace {

constexpr uint64_t kMeetings = 3;
constexpr std::chrono::microseconds kAhead{300};

uint64_t Digest(const float* data, size_t count) {
  uint64_t hash = 1469598103934665603ull;
  for (size_t i = 0; i < count; ++i) {
    uint32_t bits = 0;
    memcpy(&bits, data + i, sizeof bits);
    hash = (hash ^ bits) * 1099511628211ull;
  }
  return hash;
}

// An operation's buffers. They are used again, and overwritten as soon as the library has given
// them back.
struct Buffers {
  float* send = nullptr;
  float* recv = nullptr;
  OnGpu gpu;
};

struct Started {
  uint64_t seq = 0;
  Buffers buffers;
  bool in_place = false;
  uint64_t lined = 0;  // lines that its start has published
  ftar::Op op{nullptr};
};

class Runner {
 public:
  Runner(const Arguments& arguments, ftar::Job& job, ftar::Group& group)
      : arguments_(arguments), job_(job), group_(group) {
    replica_ = MyReplica();
    count_ = static_cast<size_t>(arguments_.Number("count", 1000));
    gpu_ = arguments_.Number("gpu", 0) != 0;
    library_ = arguments_.Number("library", 0) != 0;
    together_ = arguments_.Number("together", 0) != 0;
  }

  // Its end may come as an exception, with the fault still under way.
  ~Runner() { JoinFault(); }

  // Nobody's stream waits for ever: not that of a member that is out either.
  void TryStreams() {
    JoinFault();
    std::string said;
    for (const Buffers& buffers : free_) said += " " + buffers.gpu.Try();
    Say("streams" + said);
  }

  uint64_t Lines() const {
    uint64_t lines = 0;  // none of a member that is out
    static_cast<void>(ftarJobGetCounter(job_.get(), "lines", &lines));
    return lines;
  }

  // False: this member is out, which it may hear when it starts an operation.
  bool Batch(uint64_t size) {
    std::deque<Started> started;
    bool refused = false;
    for (uint64_t i = 0; i < size && !refused; ++i) {
      try {
        Started one = PrepareOne(together_ && i == 0 ? kMeetings : 0);
        refused = together_ && i == 0 && !Meet();
        if (refused) break;
        Launch(&one);
        started.push_back(std::move(one));
        // Whoever sees others go by frames beyond it does so for the first one, too.
        if (together_ && i == 0 && size > 1) std::this_thread::sleep_for(kAhead);
      } catch (const ftar::Error& error) {
        if (error.code() != FTAR_ERR_ABORTED) throw;
        refused = true;
      }
    }
    for (Started& one : started) {
      if (!Finish(one)) return false;
    }
    if (refused)
      Say(std::string("op refused status=") + ftarResultString(FTAR_ERR_ABORTED) + " wrong=0");
    return !refused;
  }

 private:
  int32_t MyReplica() {
    auto view = job_.GetView();
    if (!view) return -1;
    return view->Member(view->Info().my_rank).replica;
  }

  void JoinFault() {
    if (gpu_fault_.joinable()) gpu_fault_.join();
  }

  float* Allocate() {
    if (library_ && !gpu_) {
      void* memory = nullptr;
      ftar::Status(ftarMemAlloc(job_.get(), count_ * sizeof(float), nullptr, &memory)).OrThrow();
      return static_cast<float*>(memory);
    }
    plain_.emplace_back(count_);
    return plain_.back().data();
  }

  Buffers TakeBuffers() {
    if (free_.empty()) {
      free_.push_back({Allocate(), Allocate(), {}});
      if (gpu_) free_.back().gpu = OnGpu::Make(job_.get(), count_ * sizeof(float), library_);
    }
    const Buffers out = free_.back();
    free_.pop_back();
    return out;
  }

  void GiveBuffers(const Buffers& buffers) {
    std::fill_n(buffers.send, count_, -3.0f);
    std::fill_n(buffers.recv, count_, -2.0f);
    if (gpu_ && !gpu_failed_) buffers.gpu.Put(buffers.send, buffers.recv);
    free_.push_back(buffers);
  }

  // Whoever has not looked at the job for a millisecond, as one that fills large buffers, goes by
  // frames, and all do so then. Who comes last to a barrier has no need to look: at the first one
  // they meet, and of the others each comes early to one.
  bool Meet() {
    for (uint64_t i = 0; i < kMeetings; ++i) {
      const bool late = i > 0 && (i + static_cast<uint64_t>(replica_)) % 2 == 0;
      if (late) std::this_thread::sleep_for(std::chrono::microseconds(100));
      ftar::Op barrier = group_.Barrier();
      ftar::Outcome outcome = barrier.Wait();
      while (!outcome.final()) outcome = barrier.Wait();
      if (!outcome.ok()) return false;
    }
    if (const int64_t late = arguments_.Number("late_us", 0); late > 0)
      std::this_thread::sleep_for(std::chrono::microseconds(late));
    return true;
  }

  // `ahead`: so many operations are started before it.
  Started PrepareOne(uint64_t ahead) {
    Started out;
    out.seq = group_.Info().next_seq + ahead;
    out.in_place = arguments_.Number("inplace", 0) != 0;
    out.buffers = TakeBuffers();
    std::fill_n(out.buffers.recv, count_, -1.0f);
    for (size_t i = 0; i < count_; ++i) out.buffers.send[i] = Input(replica_, out.seq, i);
    if (gpu_) out.buffers.gpu.Put(out.buffers.send, out.buffers.recv);
    return out;
  }

  void Launch(Started* one) {
    const Buffers& buffers = one->buffers;
    ftar::OpDesc desc;
    desc.kind = FTAR_ALLREDUCE;
    desc.dtype = FTAR_F32;
    desc.redop = FTAR_SUM;
    desc.count = count_;
    void* const send = gpu_ ? buffers.gpu.send : buffers.send;
    void* const recv = gpu_ ? buffers.gpu.recv : buffers.recv;
    desc.send = send;
    desc.recv = one->in_place ? send : recv;
    if (gpu_) {
      desc.stream_kind = FTAR_STREAM_CUDA;
      desc.stream = buffers.gpu.stream;
    }
    const uint64_t lines = together_ ? Lines() : 0;
    one->op = group_.Start(desc);
    if (together_) one->lined = Lines() - lines;
    ArmGpuFault(one->seq);
  }

  void ArmGpuFault(uint64_t seq) {
    const std::string fault = arguments_.Text("gpu_fault", "");
    const size_t at = fault.find('@');
    if (at == std::string::npos || std::to_string(seq) != fault.substr(at + 1)) return;
    gpu_fault_ = std::thread([this, kind = fault.substr(0, at)] {
      std::this_thread::sleep_for(std::chrono::microseconds(arguments_.Number("gpu_delay_us", 0)));
      if (kind == "abort") {
        ftarJobAbort(job_.get(), "enough");
      } else {
        OnGpu::Fail(kind == "hang");
        // This program waits for its GPU too, and a GPU that hangs for good is not to be waited
        // for.
        if (kind == "hang") std::this_thread::sleep_for(std::chrono::seconds(3));
        OnGpu::GoOn();
      }
    });
  }

  bool Finish(Started& one) {
    ftar::Outcome outcome = one.op.Wait();
    while (!outcome.final()) {
      Say("wait seq=" + std::to_string(one.seq) + " status=" + ftarResultString(outcome.status));
      outcome = one.op.Wait();
    }
    // After a failure of its own the GPU keeps what it has.
    const bool failed = outcome.status == FTAR_ERR_DEVICE;
    const bool readable =
        !gpu_ || (!failed && one.buffers.gpu.Get(one.buffers.send, one.buffers.recv));
    gpu_failed_ = gpu_failed_ || !readable;
    const float* const send = one.buffers.send;
    const float* const result = one.in_place ? send : one.buffers.recv;
    std::string participants;
    size_t wrong = 0;
    if (outcome.ok()) {
      const std::vector<ftarMemberInfo> members = one.op.Participants();
      for (const ftarMemberInfo& member : members) {
        participants += (participants.empty() ? "" : ",") + std::to_string(member.replica);
      }
      for (size_t i = 0; readable && i < count_; ++i) {
        float sum = 0;
        for (const ftarMemberInfo& member : members) sum += Input(member.replica, one.seq, i);
        wrong += sum != result[i] ? 1 : 0;
      }
    } else if (readable) {  // the input is as it was
      for (size_t i = 0; i < count_; ++i) wrong += send[i] != Input(replica_, one.seq, i) ? 1 : 0;
    }
    char tail[160];
    snprintf(tail, sizeof tail,
             " digest=%016" PRIx64 " wrong=%zu attempts=%d epoch=%" PRIx64 " lined=%" PRIu64,
             outcome.ok() && readable ? Digest(result, count_) : 0, wrong, outcome.attempts,
             outcome.epoch, one.lined);
    Say("op seq=" + std::to_string(one.seq) + " status=" + ftarResultString(outcome.status) +
        " participants=" + participants + tail);
    if (!outcome.ok()) Say("why " + outcome.Text());
    GiveBuffers(one.buffers);
    return outcome.ok() || outcome.status == FTAR_ERR_MISMATCH || outcome.status == FTAR_ERR_ABSENT;
  }

  const Arguments& arguments_;
  ftar::Job& job_;
  ftar::Group& group_;
  int32_t replica_ = -1;
  size_t count_ = 0;
  bool gpu_ = false, library_ = false, together_ = false;
  bool gpu_failed_ = false;
  std::thread gpu_fault_;
  std::vector<Buffers> free_;
  std::deque<std::vector<float>> plain_;
};

// Waits for the end of the run; a run that takes longer is a hang, shown and ended.
void Watch(ftarJob_t job, int64_t seconds) {
  std::thread([job, seconds] {
    std::this_thread::sleep_for(std::chrono::seconds(seconds));
    fprintf(stderr, "hang: process %d is not done after %d s\n", getpid(),
            static_cast<int>(seconds));
    // By a file of its own: a dump replaces its file, here the log of the way into the hang.
    const int dump = memfd_create("dump", 0);
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", dump);
    ftarJobDump(job, path);
    char block[4096];
    off_t at = 0;
    for (ssize_t got = 0; (got = pread(dump, block, sizeof block, at)) > 0; at += got) {
      if (write(STDERR_FILENO, block, static_cast<size_t>(got)) < got) break;
    }
    _exit(99);
  }).detach();
}

// Exported memory of other members that this process has mapped, which nobody else maps for reading
// alone.
size_t BlocksOfOthers() {
  std::ifstream maps("/proc/self/maps");
  size_t blocks = 0;
  for (std::string line; std::getline(maps, line);) {
    const bool shown = line.find("memfd:ftar-user") != std::string::npos;
    if (shown && line.find(" r--s ") != std::string::npos) ++blocks;
  }
  return blocks;
}

int Run(const Arguments& arguments) {
  ftar::JobConfig config;
  config.handler = [](const ftarEvent& event) {
    Say("event type=" + std::to_string(event.type) +
        " replica=" + std::to_string(event.who.replica) + " stage=" + event.who.stage +
        " text=" + event.who.text);
  };
  auto joined = ftar::Job::Join(std::move(config));
  if (!joined.ok()) {
    SayError("join", joined.code());
    return 2;
  }
  ftar::Job job = std::move(joined).value();
  Watch(job.get(), arguments.Number("deadline_s", 30));
  auto opened = job.OpenGroup();
  if (!opened.ok()) {
    SayError("group", opened.code());
    return 2;
  }
  ftar::Group group = std::move(opened).value();
  auto view = job.GetView();
  const ftarViewInfo info = view->Info();
  Say("ready replica=" + std::to_string(view->Member(info.my_rank).replica) +
      " members=" + std::to_string(info.members));
  Runner runner(arguments, job, group);
  const auto ops = static_cast<uint64_t>(arguments.Number("ops", 8));
  const auto window = static_cast<uint64_t>(arguments.Number("window", 1));
  bool in = true;
  // Numbers are the group's: whoever joins later starts where the group is and stops with the
  // others.
  for (uint64_t next = group.Info().next_seq; in && next < ops; next = group.Info().next_seq) {
    const bool steps = arguments.Number("steps", 0) != 0;
    if (steps && !ftar::Finish([&] { return job.BeginStep(); }).ok()) break;
    if (group.Info().next_seq >= ops) break;
    in = runner.Batch(std::min(window, ops - group.Info().next_seq));
    if (const int64_t pause = arguments.Number("pause_ms", 0); pause > 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(pause));
    }
  }
  const bool gpu = arguments.Number("gpu", 0) != 0;
  Say("mapped blocks=" + std::to_string(gpu ? OnGpu::BlocksOfOthers() : BlocksOfOthers()) +
      " lines=" + std::to_string(runner.Lines()));
  if (gpu) runner.TryStreams();
  Say(in ? "finished" : "out");
  if (arguments.Number("linger", 0) != 0) {
    char line[16];
    [[maybe_unused]] const ssize_t got = read(STDIN_FILENO, line, sizeof line);
  }
  ftarResult_t left = FTAR_OK;
  if (in && arguments.Number("leave", 1) != 0) left = job.Leave(10'000'000'000).code();
  Say("end status=" + std::string(ftarResultString(left)));
  return 0;
}

}  // namespace
}  // namespace worker

int main(int argc, char** argv) {
  const worker::Arguments arguments(argc, argv);
  const std::string scenario = arguments.Text("scenario", "");
  return scenario.empty() ? worker::Run(arguments) : worker::RunScenario(scenario, arguments);
}
