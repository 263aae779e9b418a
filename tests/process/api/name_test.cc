// A coordinator's name that is known only a while after a member has asked for it, as those of pods
// are: this program answers for the resolver.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <netdb.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <string>

#include "ftar/ftar.h"
#include "tests/process/api/jobs.h"
#include "tests/process/harness.h"

namespace {

constexpr char kName[] = "coordinator.invalid";
std::atomic<int> unknown_for{0}, asked{0};

}  // namespace

// The shared library finds this one before the C library's.
extern "C" [[gnu::visibility("default")]] int getaddrinfo(const char* node, const char* service,
                                                          const addrinfo* hints, addrinfo** list) {
  using Function = int(const char*, const char*, const addrinfo*, addrinfo**);
  static auto* const next = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, "getaddrinfo"));
  if (node == nullptr || std::strcmp(node, kName) != 0) return next(node, service, hints, list);
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
