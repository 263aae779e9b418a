// A coordinator's name that is known only a while after a member has asked for it, as those of pods
// are: this program answers for the resolver.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <netdb.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "ftar/ftar.h"
#include "tests/process/api/jobs.h"
#include "tests/process/harness.h"

namespace {

constexpr char kName[] = "coordinator.invalid";
std::atomic<int> unknown_for{0}, asked{0};
std::atomic<bool> slow{false};

}  // namespace

// The shared library finds this one before the C library's.
extern "C" [[gnu::visibility("default")]] int getaddrinfo(const char* node, const char* service,
                                                          const addrinfo* hints, addrinfo** list) {
  using Function = int(const char*, const char*, const addrinfo*, addrinfo**);
  static auto* const next = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, "getaddrinfo"));
  if (node == nullptr || std::strcmp(node, kName) != 0) return next(node, service, hints, list);
  while (slow) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  if (asked.fetch_add(1) < unknown_for) return EAI_NONAME;
  return next("127.0.0.1", service, hints, list);
}

namespace process {
namespace {

ftarJobConfig Alone(const std::string& coordinator) {
  ftarJobConfig config = FTAR_JOB_CONFIG_INIT;
  config.replica = 0;
  config.replicas = 1;
  config.coordinator = coordinator.c_str();
  return config;
}

TEST(Name, IsAskedForUntilItIsKnown) {
  Coordinator coordinator(Variables{{"FTAR_TOKEN", "secret"}});
  const std::string named = kName + coordinator.address().substr(coordinator.address().rfind(':'));
  unknown_for = 3;
  asked = 0;
  ftarJob_t job = nullptr;
  ASSERT_EQ(Join(Alone(named), {{"token", "secret"}, {"join_timeout", "20s"}}, &job), FTAR_OK)
      << LastError().text;
  EXPECT_GT(asked, 3);
  EXPECT_EQ(ftarJobLeave(job, kLongNs), FTAR_OK);
  EXPECT_EQ(ftarJobDestroy(job), FTAR_OK);
}

TEST(Name, ThatNeverIsKnownEndsTheJoinAfterItsTime) {
  const std::string named = std::string(kName) + ":1";
  unknown_for = 1'000'000;
  const auto began = std::chrono::steady_clock::now();
  ftarJob_t job = nullptr;
  EXPECT_EQ(Join(Alone(named), {{"token", "secret"}, {"join_timeout", "300ms"}}, &job),
            FTAR_ERR_COORDINATOR);
  EXPECT_GE(std::chrono::steady_clock::now() - began, std::chrono::milliseconds(300));
  EXPECT_NE(std::string(LastError().text).find(kName), std::string::npos) << LastError().text;
  EXPECT_EQ(job, nullptr);
}

// A name server that takes its time holds up the search for the coordinator and nothing else.
TEST(Name, ThatIsLookedUpForLongHoldsUpNothing) {
  std::optional<Coordinator> coordinator(Variables{{"FTAR_TOKEN", "secret"}});
  const std::string at = coordinator->address();
  const std::string named = kName + at.substr(at.rfind(':'));
  unknown_for = 0;
  std::array<ftarJob_t, 2> jobs{};
  std::array<ftarGroup_t, 2> groups{};
  std::vector<std::thread> joining;
  for (int32_t i = 0; i < 2; ++i) {
    joining.emplace_back([&, i] {
      ftarJobConfig config = Alone(named);
      config.replica = i;
      config.replicas = 2;
      EXPECT_EQ(Join(config, {{"token", "secret"}}, &jobs[i]), FTAR_OK) << LastError().text;
      EXPECT_EQ(ftarGroupOpen(jobs[i], nullptr, &groups[i]), FTAR_OK);
    });
  }
  for (std::thread& thread : joining) thread.join();
  slow = true;
  coordinator.reset();
  asked = 0;
  std::atomic<int> done{0};
  std::array<std::vector<float>, 2> data = {std::vector<float>(1000, 1),
                                            std::vector<float>(1000, 2)};
  for (int i = 0; i < 20; ++i) {
    for (int member = 0; member < 2; ++member) {
      ftarOpDesc desc = FTAR_OP_DESC_INIT;
      desc.kind = FTAR_ALLREDUCE;
      desc.dtype = FTAR_F32;
      desc.redop = FTAR_MAX;
      desc.send = desc.recv = data[member].data();
      desc.count = data[member].size();
      desc.on_done = [](const ftarOutcome* outcome, void* user) {
        if (outcome->status == FTAR_OK) ++*static_cast<std::atomic<int>*>(user);
      };
      desc.user = &done;
      EXPECT_EQ(ftarOpStart(groups[member], &desc, nullptr), FTAR_OK) << LastError().text;
    }
    // Nobody waits in the library: its own threads have to see to it, whoever looks up a name.
    for (int ms = 0; done < 2 * (i + 1) && ms < 20'000; ++ms)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ASSERT_EQ(done, 2 * (i + 1));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  for (const ftarJob_t job : jobs) EXPECT_EQ(ftarJobDestroy(job), FTAR_OK);
  EXPECT_EQ(asked, 0);  // it is still being looked up
  slow = false;
}

// Who does not wait hears it at once.
TEST(Name, ThatIsNotKnownIsAnErrorForWhoDoesNotWait) {
  const std::string named = std::string(kName) + ":1";
  unknown_for = 1'000'000;
  ftarJobConfig config = Alone(named);
  config.flags = FTAR_JOB_NONBLOCKING;
  ftarJob_t job = nullptr;
  EXPECT_EQ(Join(config, {{"token", "secret"}}, &job), FTAR_ERR_CONFIG);
  EXPECT_NE(std::string(LastError().text).find(kName), std::string::npos) << LastError().text;
}

}  // namespace
}  // namespace process
