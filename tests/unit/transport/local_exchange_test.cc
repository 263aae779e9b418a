// Goal: who cannot be talked to over a local socket is known at once, and why.
#include "transport/local_exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

namespace ftar::transport {
namespace {

using testing::HasSubstr;

constexpr uid_t kAnother = 65534;  // nobody

std::unique_ptr<LocalExchange> OpenAs(uid_t user, MemberId self, const std::string& token) {
  DeviceConfig config;
  config.self = self;
  config.token = token;
  EXPECT_EQ(seteuid(user), 0);
  auto exchange = LocalExchange::Open(config, AuthPurpose::kSegment);
  EXPECT_EQ(seteuid(getuid()), 0);
  EXPECT_TRUE(exchange.ok()) << exchange.status().text();
  return exchange.ok() ? std::move(*exchange) : nullptr;
}

// What comes of dialling; nothing while time stands still may take any.
LocalExchange::Result DialBetween(LocalExchange* from, LocalExchange* to) {
  const auto answer = [](MemberId, LocalExchange::Message) { return LocalExchange::Message{}; };
  const uint64_t ticket = from->Dial(MemberId{2, 2}, to->name(), {}, 0);
  std::vector<LocalExchange::Result> results;
  for (int i = 0; i < 1000; ++i) {
    for (LocalExchange* each : {to, from}) each->Poll(0, answer, &results);
    for (LocalExchange::Result& result : results) {
      if (result.ticket == ticket) return std::move(result);
    }
    poll(nullptr, 0, 1);
  }
  ADD_FAILURE() << "no result";
  return {};
}

// Dialling again, which a link does for half a timeout, cannot help.
TEST(LocalExchange, AnotherUsersProcessIsNotDialledAgainWithoutAToken) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be two users";
  for (const char* token : {"", "secret"}) {
    const auto from = OpenAs(0, MemberId{1, 1}, token),
               to = OpenAs(kAnother, MemberId{2, 2}, token);
    ASSERT_TRUE(from && to);
    const LocalExchange::Result result = DialBetween(from.get(), to.get());
    if (*token != '\0') {
      EXPECT_TRUE(result.status.ok()) << result.status.text();
      continue;
    }
    EXPECT_TRUE(result.final_failure) << result.status.text();
    EXPECT_EQ(result.status.code(), Code::kAuth);
    EXPECT_THAT(result.status.text(), HasSubstr("another user's process"));
    EXPECT_THAT(result.status.text(), HasSubstr("FTAR_TOKEN"));
  }
}

TEST(LocalExchange, TheSameUsersNeedNoToken) {
  const auto from = OpenAs(geteuid(), MemberId{1, 1}, ""),
             to = OpenAs(geteuid(), MemberId{2, 2}, "");
  ASSERT_TRUE(from && to);
  EXPECT_TRUE(DialBetween(from.get(), to.get()).status.ok());
}

}  // namespace
}  // namespace ftar::transport
