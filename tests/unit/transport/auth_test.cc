#include "transport/auth.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace ftar::transport {
namespace {

using Role = Authenticator::Role;
using State = Authenticator::State;

const MemberId kDialler{1, 2}, kAcceptor{3, 4};

// Carries bytes between two machines, `step` at a time, until nobody says anything more. Returns
// all the dialler was told.
std::vector<std::byte> Exchange(Authenticator* a, Authenticator* b, size_t step = 1000) {
  std::vector<std::byte> told;
  const auto carry = [step](std::vector<std::byte> bytes, Authenticator* to) {
    for (size_t at = 0; at < bytes.size(); at += step) {
      const size_t part = std::min(step, bytes.size() - at);
      if (to->state() == State::kRunning) to->Feed({bytes.data() + at, part});
    }
    return bytes;
  };
  for (int round = 0; round < 10; ++round) {
    carry(a->TakeOutput(), b);
    const auto back = carry(b->TakeOutput(), a);
    told.insert(told.end(), back.begin(), back.end());
  }
  return told;
}

TEST(Authenticator, ProvesBothWaysWhateverTheCuts) {
  for (const size_t step : {1u, 7u, 32u, 1000u}) {
    Authenticator a(Role::kDialler, AuthPurpose::kLink, "t", {"job", kDialler}, 1);
    Authenticator b(Role::kAcceptor, AuthPurpose::kLink, "t", {"job", kAcceptor}, 1);
    Exchange(&a, &b, step);
    ASSERT_EQ(a.state(), State::kDone) << a.status().ToString();
    ASSERT_EQ(b.state(), State::kDone) << b.status().ToString();
    EXPECT_EQ(a.peer().member, kAcceptor);
    EXPECT_EQ(b.peer().member, kDialler);
    EXPECT_EQ(b.peer().job, "job");
  }
}

TEST(Authenticator, LeavesWhatFollows) {
  Authenticator a(Role::kDialler, AuthPurpose::kLink, "t", {"job", kDialler}, 1);
  Authenticator b(Role::kAcceptor, AuthPurpose::kLink, "t", {"job", kAcceptor}, 1);
  b.Feed(a.TakeOutput());
  a.Feed(b.TakeOutput());
  b.Feed(a.TakeOutput());
  a.Feed(b.TakeOutput());
  std::vector<std::byte> last = a.TakeOutput();
  const size_t own = last.size();
  last.resize(own + 5);
  EXPECT_EQ(b.Feed(last), own);
  EXPECT_EQ(b.state(), State::kDone);
  EXPECT_EQ(b.Feed(last), 0u);
}

TEST(Authenticator, TellsAStrangerItsGreetingOnly) {
  Authenticator a(Role::kDialler, AuthPurpose::kLink, "wrong", {"job", kDialler}, 1);
  Authenticator b(Role::kAcceptor, AuthPurpose::kLink, "right", {"job", kAcceptor}, 1);
  EXPECT_EQ(Exchange(&a, &b).size(), 40u);
  EXPECT_EQ(b.state(), State::kFailed);
  EXPECT_EQ(b.status().code(), Code::kAuth);
  EXPECT_EQ(a.state(), State::kRunning);
  EXPECT_TRUE(a.proof_sent());
}

TEST(Authenticator, WhoHasNoTokenSaysThatItLacksOne) {
  Authenticator a(Role::kDialler, AuthPurpose::kControl, "t", {"job", kDialler}, 1);
  Authenticator b(Role::kAcceptor, AuthPurpose::kControl, "", {"job", kAcceptor}, 1);
  Exchange(&a, &b);
  EXPECT_EQ(b.status().code(), Code::kAuth);
  EXPECT_NE(b.status().text().find("this process has none: set FTAR_TOKEN"), std::string::npos);
}

TEST(Authenticator, BothSidesLearnOfAnotherVersion) {
  Authenticator a(Role::kDialler, AuthPurpose::kLink, "t", {"job", kDialler}, 1);
  Authenticator b(Role::kAcceptor, AuthPurpose::kLink, "t", {"job", kAcceptor}, 2);
  Exchange(&a, &b);
  EXPECT_EQ(a.status().code(), Code::kVersion);
  EXPECT_EQ(b.status().code(), Code::kVersion);
  EXPECT_NE(a.status().text().find("need the same release"), std::string::npos);
}

TEST(Authenticator, BothSidesLearnOfAnotherJob) {
  Authenticator a(Role::kDialler, AuthPurpose::kLink, "t", {"job a", kDialler}, 1);
  Authenticator b(Role::kAcceptor, AuthPurpose::kLink, "t", {"job b", kAcceptor}, 1);
  Exchange(&a, &b);
  EXPECT_EQ(a.status().code(), Code::kAuth);
  EXPECT_EQ(b.status().code(), Code::kAuth);
  EXPECT_NE(b.status().text().find("job a"), std::string::npos);
}

TEST(Authenticator, PurposesDoNotMix) {
  Authenticator a(Role::kDialler, AuthPurpose::kLink, "t", {"job", kDialler}, 1);
  Authenticator b(Role::kAcceptor, AuthPurpose::kControl, "t", {"job", kAcceptor}, 1);
  Exchange(&a, &b);
  EXPECT_EQ(b.state(), State::kFailed);
}

TEST(Authenticator, ReflectedAndReplayedProofsFail) {
  // A peer that sends everything back as it came.
  Authenticator a(Role::kDialler, AuthPurpose::kLink, "t", {"job", kDialler}, 1);
  for (int i = 0; i < 4 && a.state() == State::kRunning; ++i) a.Feed(a.TakeOutput());
  EXPECT_EQ(a.state(), State::kFailed);
  // What an honest dialler said once does not open a second connection.
  Authenticator honest(Role::kDialler, AuthPurpose::kLink, "t", {"job", kDialler}, 1);
  Authenticator first(Role::kAcceptor, AuthPurpose::kLink, "t", {"job", kAcceptor}, 1);
  const auto greeting = honest.TakeOutput();
  first.Feed(greeting);
  honest.Feed(first.TakeOutput());
  const auto proof = honest.TakeOutput();
  Authenticator second(Role::kAcceptor, AuthPurpose::kLink, "t", {"job", kAcceptor}, 1);
  second.Feed(greeting);
  second.Feed(proof);
  EXPECT_EQ(second.status().code(), Code::kAuth);
}

TEST(Authenticator, AnyDamageFails) {
  // Flip each bit-carrying byte of each message in turn; no damage may end in success on both
  // sides.
  for (size_t message = 0; message < 3; ++message) {
    for (size_t at = 0; at < 60; at += 3) {
      Authenticator a(Role::kDialler, AuthPurpose::kLink, "t", {"job", kDialler}, 1);
      Authenticator b(Role::kAcceptor, AuthPurpose::kLink, "t", {"job", kAcceptor}, 1);
      bool damaged = false;
      for (size_t round = 0; round < 3; ++round) {
        auto bytes = a.TakeOutput();
        if (round == message && at < bytes.size()) {
          bytes[at] ^= std::byte{0x41};
          damaged = true;
        }
        if (b.state() == State::kRunning) b.Feed(bytes);
        if (a.state() == State::kRunning) a.Feed(b.TakeOutput());
      }
      EXPECT_FALSE(damaged && a.state() == State::kDone && b.state() == State::kDone)
          << message << ":" << at;
    }
  }
}

}  // namespace
}  // namespace ftar::transport
