// Processes that share device memory: three survivors map what a fourth has allocated, and the
// fourth is killed while their kernels read it, again and again.
//
// The controller has no CUDA of its own. It keeps some victims started, so that a killed one is
// replaced at once, and passes their memory's descriptors on. A survivor's result has to be right,
// its context usable, and at the end as much memory free as before.
#include <cuda_runtime_api.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <thread>

#include "fault.h"
#include "kernels/host_grid.h"

namespace ftar::device {
namespace {

constexpr size_t kVictimBytes = size_t{8} << 20;
constexpr int kSurvivors = 3;
constexpr int kVictimsReady = 4;
constexpr int kSocket = 3;  // in a child
constexpr int kSkipped = 77;
// The first who use CUDA on a machine wait until it has been read from the disk.
constexpr int kPatienceMs = 30'000, kFirstPatienceMs = 120'000;
constexpr int kForEver = -1;  // in a child: as long as the controller is there
constexpr double kLeakBytesMax = 64e6;

enum class Kind : uint32_t { kReady, kNoDevice, kFailed, kWork, kBusy, kDone, kMeasure };

struct Message {
  Kind kind = Kind::kFailed;
  uint64_t bytes = 0;
  uint64_t number = 0;  // a seed, or free memory
  char text[200] = {};
};

bool Send(int socket, const Message& message, int descriptor = -1) {
  iovec data{.iov_base = const_cast<Message*>(&message), .iov_len = sizeof message};
  msghdr header = {};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  if (descriptor >= 0) {
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(rights), &descriptor, sizeof(int));
  }
  return sendmsg(socket, &header, MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof message);
}

// False when nobody says anything for so long, or the other end is gone.
bool Receive(int socket, Message* message, int* descriptor = nullptr,
             int patience_ms = kPatienceMs) {
  pollfd wait{.fd = socket, .events = POLLIN, .revents = 0};
  if (poll(&wait, 1, patience_ms) != 1) return false;
  iovec data{.iov_base = message, .iov_len = sizeof *message};
  msghdr header = {};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  if (recvmsg(socket, &header, MSG_CMSG_CLOEXEC) != static_cast<ssize_t>(sizeof *message)) {
    return false;
  }
  message->text[sizeof message->text - 1] = '\0';
  const cmsghdr* rights = CMSG_FIRSTHDR(&header);
  if (rights != nullptr && descriptor != nullptr) {
    std::memcpy(descriptor, CMSG_DATA(rights), sizeof(int));
  }
  return true;
}

Message Failed(const std::string& text) {
  Message message{.kind = Kind::kFailed};
  std::snprintf(message.text, sizeof message.text, "%s", text.c_str());
  return message;
}

// ---- the children

int PlayVictim(Gpu* gpu) {
  const auto block = gpu->AllocateShared(kVictimBytes);
  if (!block.ok()) {
    Send(kSocket, Failed(block.status().ToString()));
    return 1;
  }
  if (block->descriptor < 0) {
    Send(kSocket, Failed("the driver gives out no descriptor of its memory"));
    return 1;
  }
  const auto seed = static_cast<uint64_t>(getpid());
  const std::vector<unsigned char> bytes = RandomBytes(kVictimBytes, seed);
  kernels::DeviceSpace space(reduce::MemoryKind::kDevice);
  ExpectOk(space.CopyIn(block->address, bytes.data(), kVictimBytes), "fill");
  Send(kSocket, {.kind = Kind::kReady, .bytes = block->bytes, .number = seed}, block->descriptor);
  // Until it is killed, or the controller is gone.
  for (Message message; Receive(kSocket, &message, nullptr, kForEver);) {
  }
  return 0;
}

kernels::Plan SumOf(const void* a, const void* b, void* to) {
  const reduce::Source sources[] = {{.data = a, .format = reduce::Dtype::kF32, .weight = 1},
                                    {.data = b, .format = reduce::Dtype::kF32, .weight = 1}};
  return kernels::PlanReduction({.dtype = reduce::Dtype::kF32,
                                 .sources = sources,
                                 .destinations = {&to, 1},
                                 .count = kVictimBytes / 4})
      .value();
}

class Survivor {
 public:
  Survivor(Gpu* gpu, Executor* executor) : gpu_(gpu), executor_(executor) {
    mine_.Write(mine_bytes_);
  }

  // The text is empty if all is well.
  std::string Work(const Message& work, int descriptor) {
    const auto theirs = gpu_->Import(descriptor, work.bytes);
    close(descriptor);
    if (!theirs.ok()) return "import: " + theirs.status().ToString();
    for (int i = 0; i < 32; ++i) executor_->Submit(SumOf(*theirs, mine_.data(), sum_.data()));
    Send(kSocket, {.kind = Kind::kBusy});
    if (!Drain(executor_)) return "plans do not end: " + executor_->status().ToString();
    const std::vector<unsigned char> got = sum_.Read();
    const std::vector<unsigned char> input = RandomBytes(kVictimBytes, work.number);
    std::vector<unsigned char> right(kVictimBytes);
    const kernels::Plan plan = SumOf(input.data(), mine_bytes_.data(), right.data());
    if (!kernels::RunOnHost(plan).ok()) return "the host cannot";
    if (got != right) return "a wrong result";
    const Status unmapped = gpu_->Unmap(*theirs);
    if (!unmapped.ok()) return "unmap: " + unmapped.ToString();
    const Status health = gpu_->Health();
    return health.ok() ? "" : health.ToString();
  }

 private:
  Gpu* gpu_;
  Executor* executor_;
  const std::vector<unsigned char> mine_bytes_ =
      RandomBytes(kVictimBytes, static_cast<uint64_t>(getpid()));
  Memory mine_{kVictimBytes}, sum_{kVictimBytes};
};

uint64_t FreeMemory() {
  size_t free_bytes = 0, all = 0;
  cudaMemGetInfo(&free_bytes, &all);
  return free_bytes;
}

int PlaySurvivor(Gpu* gpu, ExecutorKind kind) {
  auto executor = OpenExecutor(Unowned(gpu), {.kind = kind});
  if (!executor.ok()) {
    Send(kSocket, Failed(executor.status().ToString()));
    return 1;
  }
  Survivor survivor(gpu, executor->get());
  Send(kSocket, {.kind = Kind::kReady});
  int descriptor = -1;
  for (Message message; Receive(kSocket, &message, &descriptor, kForEver);) {
    if (message.kind == Kind::kMeasure) {
      Send(kSocket, {.kind = Kind::kDone, .number = FreeMemory()});
      continue;
    }
    const std::string wrong = survivor.Work(message, descriptor);
    Send(kSocket, wrong.empty() ? Message{.kind = Kind::kDone} : Failed(wrong));
  }
  return 0;
}

// ---- the controller

struct Child {
  pid_t pid = -1;
  int socket = -1;
  Message ready;
  int descriptor = -1;  // of a victim's memory
};

Child Spawn(const char* role) {
  int sockets[2] = {-1, -1};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0) return {};
  const pid_t pid = fork();
  if (pid == 0) {
    // Not on itself: that would keep the descriptor's flag.
    const int own = sockets[1] == kSocket ? dup(sockets[1]) : sockets[1];
    dup2(own, kSocket);
    execl("/proc/self/exe", "ftar-gpu-fault", "--child", role, static_cast<char*>(nullptr));
    _exit(127);
  }
  close(sockets[1]);
  return {.pid = pid, .socket = sockets[0], .ready = {}, .descriptor = -1};
}

void Kill(Child* child) {
  if (child->pid <= 0) return;  // nobody was started; -1 would be everybody
  kill(child->pid, SIGKILL);
  waitpid(child->pid, nullptr, 0);
  close(child->socket);
  if (child->descriptor >= 0) close(child->descriptor);
  *child = {};
}

class Controller {
 public:
  ~Controller() {
    for (Child& child : survivors_) Kill(&child);
    for (Child& child : victims_) Kill(&child);
  }

  // 0, or the reason to stop: kSkipped where there is no device.
  int Start() {
    static constexpr const char* kRoles[kSurvivors] = {"bounded", "resident", "bounded"};
    for (const char* role : kRoles) survivors_.push_back(Spawn(role));
    for (Child& child : survivors_) {
      if (!Receive(child.socket, &child.ready, nullptr, kFirstPatienceMs))
        return Wrong("a survivor says nothing");
      if (child.ready.kind == Kind::kNoDevice) {
        std::printf("SKIPPED: %s\n", child.ready.text);
        return kSkipped;
      }
      if (child.ready.kind != Kind::kReady)
        return Wrong(std::string("a survivor does not come: ") + child.ready.text);
    }
    free_before_ = Measure();
    for (int i = 0; i < kVictimsReady; ++i) victims_.push_back(Spawn("victim"));
    return 0;
  }

  int Round() {
    Child victim = victims_.front();
    victims_.pop_front();
    victims_.push_back(Spawn("victim"));
    if (!Receive(victim.socket, &victim.ready, &victim.descriptor) || victim.descriptor < 0) {
      Kill(&victim);
      return Wrong(std::string("a victim does not come: ") + victim.ready.text);
    }
    const Message work{
        .kind = Kind::kWork, .bytes = victim.ready.bytes, .number = victim.ready.number};
    for (const Child& child : survivors_) Send(child.socket, work, victim.descriptor);
    Message answer;
    Receive(survivors_[random_() % kSurvivors].socket, &answer);
    const bool early = answer.kind != Kind::kBusy;
    std::this_thread::sleep_for(std::chrono::microseconds(random_() % 2000));
    Kill(&victim);
    if (early) return Wrong(std::string("a survivor: ") + answer.text);
    for (const Child& child : survivors_) {
      do {
        if (!Receive(child.socket, &answer)) return Wrong("a survivor hangs");
      } while (answer.kind == Kind::kBusy);
      if (answer.kind != Kind::kDone) return Wrong(std::string("a survivor: ") + answer.text);
    }
    return 0;
  }

  int End() {
    for (Child& child : victims_) Kill(&child);
    victims_.clear();
    // The driver frees what the killed had when they are gone for good.
    double leaked = 0;
    for (int i = 0; i < 50; ++i) {
      leaked = free_before_ - Measure();
      if (leaked <= kLeakBytesMax) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    Bar("device memory leaked", leaked / 1e6, "MB", kLeakBytesMax / 1e6);
    return leaked <= kLeakBytesMax ? 0 : Wrong("device memory is gone");
  }

 private:
  static int Wrong(const std::string& text) {
    Expect(false, text);
    return 1;
  }
  double Measure() {
    Message answer;
    Send(survivors_[0].socket, {.kind = Kind::kMeasure});
    Receive(survivors_[0].socket, &answer);
    return static_cast<double>(answer.number);
  }

  std::vector<Child> survivors_;
  std::deque<Child> victims_;
  double free_before_ = 0;
  std::mt19937_64 random_{std::random_device{}()};
};

}  // namespace

int RunKills(int times) {
  Controller controller;
  const int started = controller.Start();
  if (started != 0) return started;
  for (int i = 0; i < times; ++i) {
    if (controller.Round() != 0) {
      std::printf("  round %d of %d\n", i, times);
      return 1;
    }
  }
  std::printf("  %d of 4 processes killed, one at a time; survivors right\n", times);
  return controller.End();
}

int RunChild(const std::string& role) {
  int devices = 0;
  const cudaError_t counted = cudaGetDeviceCount(&devices);
  if (counted != cudaSuccess || devices == 0) {
    Message none = Failed(cudaGetErrorString(counted != cudaSuccess ? counted : cudaErrorNoDevice));
    none.kind = Kind::kNoDevice;
    Send(kSocket, none);
    return 1;
  }
  auto gpu = OpenThisGpu();
  if (!gpu.ok()) {
    Send(kSocket, Failed(gpu.status().text()));
    return 1;
  }
  if (role == "victim") return PlayVictim(gpu->get());
  return PlaySurvivor(gpu->get(),
                      role == "resident" ? ExecutorKind::kResident : ExecutorKind::kBounded);
}

}  // namespace ftar::device
