// Between real processes: frames cross, and a death is proven at once, whatever the victim's size
// and children.
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "tests/conform/harness.h"

namespace ftar::conform {
namespace {

using Kind = Completion::Kind;

std::vector<Variant> ProcessVariants() {
  return {{"tcp1", "tcp", 1, "127.0.0.1"}, {"tcp2v6", "tcp", 2, "::1"}, {"shm", "shm", 1, ""}};
}

class ProcessTest : public ConformTest {};
INSTANTIATE_TEST_SUITE_P(All, ProcessTest, testing::ValuesIn(ProcessVariants()), VariantName);

struct Victim {
  size_t resident_bytes = 0;
  bool forks_child = false;  // which lives on and holds copies of all descriptors
  bool closes = false;       // leaves in order after the first frame
};

// The child's life: waits for the parent's address, dials, echoes every frame until it is killed.
[[noreturn]] void LiveAsPeer(const Variant& variant, const Victim& victim, int addresses_fd) {
  ::alarm(30);  // never outlives a failed test by much
  char addresses[512] = {};
  if (::read(addresses_fd, addresses, sizeof addresses - 1) <= 0) ::_exit(1);
  if (victim.resident_bytes > 0) {
    void* memory = ::mmap(nullptr, victim.resident_bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    std::memset(memory, 1, victim.resident_bytes);
  }
  Node node(variant, 2);
  wire::MemberCard parent;
  parent.id = Member(1);
  parent.host_key = node.config.host_key;
  parent.addresses = addresses;
  node.device->Connect(parent, Now());
  int echoed = 0;
  node.filter = [&](Completion& c) {
    if (c.kind == Kind::kReceived) {
      c.link->Send(c.header, c.ext, c.payload, true, 0);
      c.link->Release(c.token);
      ++echoed;
    }
    return c.kind == Kind::kUp;
  };
  PumpUntil({&node}, [&] { return node.Up(); });
  if (victim.forks_child && ::fork() == 0) {
    ::alarm(30);
    ::pause();
    ::_exit(0);
  }
  PumpUntil(
      {&node}, [&] { return victim.closes && echoed > 0 && !node.device->Find(parent.id)->busy(); },
      60 * kSecond);
  node.device->Close();
  ::_exit(0);
}

// A parent's node and a forked peer, joined.
class Pair {
 public:
  Pair(const Variant& variant, const Victim& victim) {
    int pipe_fds[2];
    if (::pipe(pipe_fds) != 0) return;
    // Before any device, so that the fork is of a process with one thread.
    pid_ = ::fork();
    if (pid_ == 0) {
      ::setpgid(0, 0);
      ::close(pipe_fds[1]);
      LiveAsPeer(variant, victim, pipe_fds[0]);
    }
    ::close(pipe_fds[0]);
    node = std::make_unique<Node>(variant, 1);
    const std::string addresses = node->card.addresses;
    EXPECT_EQ(::write(pipe_fds[1], addresses.data(), addresses.size()),
              static_cast<ssize_t>(addresses.size()));
    ::close(pipe_fds[1]);
    EXPECT_TRUE(PumpUntil({node.get()}, [&] { return node->Up(); }));
    // One frame there and back, and a moment for the watch to be exchanged in the background.
    const TestFrame frame = MakeFrame(1, 100'000, 10);
    Link* link = node->device->Find(Member(2));
    if (link == nullptr) return;
    link->Send(frame.header, frame.ext, frame.payload, true, 0);
    EXPECT_TRUE(
        PumpUntil({node.get()}, [&] { return node->Count(Kind::kReceived) == 1 || node->Down(); }));
    if (node->Count(Kind::kReceived) == 0) ADD_FAILURE() << link->Describe();
    if (node->Count(Kind::kReceived) != 1) return;
    EXPECT_EQ(Difference(node->Received()[0], 1, 100'000, 10), "");
    if (!victim.closes) PumpFor({node.get()}, 50 * kMillisecond);
  }
  ~Pair() {
    if (pid_ <= 0) return;
    Kill();
    ::kill(-pid_, SIGKILL);  // its children
    ::waitpid(pid_, nullptr, 0);
  }
  void Kill() {
    if (pid_ > 0) ::kill(pid_, SIGKILL);  // nobody was started: -1 is everybody
  }

  std::unique_ptr<Node> node;

 private:
  pid_t pid_ = -1;
};

void ExpectQuickProof(const Variant& variant, const Victim& victim) {
  Pair pair(variant, victim);
  ASSERT_FALSE(testing::Test::HasFailure());
  const TimeNs begin = Now();
  pair.Kill();
  ASSERT_TRUE(PumpUntil({pair.node.get()}, [&] { return pair.node->Count(Kind::kExited) == 1; }));
  const double ms = static_cast<double>(Now() - begin) / kMillisecond;
  testing::Test::RecordProperty("detect_us", static_cast<int>(ms * 1000));
  std::printf("  exit proven after %.3f ms\n", ms);
  // Generous, since test machines are busy; a connection's end takes far longer or never comes.
  EXPECT_LT(ms, 100.0);
  EXPECT_TRUE(PumpUntil({pair.node.get()}, [&] { return pair.node->Down(); }));
}

TEST_P(ProcessTest, ProvesADeath) { ExpectQuickProof(GetParam(), {}); }

TEST_P(ProcessTest, ProvesTheDeathOfALargeProcess) {
  ExpectQuickProof(GetParam(), {size_t{512} << 20, false, false});
}

TEST_P(ProcessTest, ProvesADeathWhileAForkedChildLives) {
  ExpectQuickProof(GetParam(), {0, true, false});
}

TEST_P(ProcessTest, AnOrderlyEndIsNoDeath) {
  Pair pair(GetParam(), {0, false, true});
  ASSERT_TRUE(PumpUntil({pair.node.get()}, [&] { return pair.node->Down(); }));
}

}  // namespace
}  // namespace ftar::conform
