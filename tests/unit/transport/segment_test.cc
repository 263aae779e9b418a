// Goal: what a peer passes for its half of a channel makes nobody wait.
#include "transport/shm/segment.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <chrono>
#include <future>

namespace ftar::transport::shm {
namespace {

TEST(Channel, ABellThatIsFullIsRungWithoutWaiting) {
  auto own = *Channel::Create(kRingBytesMin), peer = *Channel::Create(kRingBytesMin);
  auto offer = peer->MakeOffer(0, 0, -1), answer = own->MakeOffer(0, 0, -1);
  ASSERT_TRUE(offer.ok() && answer.ok());
  const int full = ::eventfd(0, EFD_CLOEXEC);  // it blocks
  uint64_t count = UINT64_MAX - 1;
  ASSERT_EQ(::write(full, &count, sizeof count), static_cast<ssize_t>(sizeof count));
  offer->fds[1].Reset(full);
  ASSERT_TRUE(own->Attach(*Channel::ParseOffer(*offer), &*offer, UniqueFd(), nullptr).ok());
  ASSERT_TRUE(peer->Attach(*Channel::ParseOffer(*answer), &*answer, UniqueFd(), nullptr).ok());
  const UniqueFd bell(::dup(full));
  peer->Nap(kWakeOnHead);
  auto rung = std::async(std::launch::async, [&] { own->Ring(kWakeOnHead); });
  EXPECT_EQ(rung.wait_for(std::chrono::seconds(5)), std::future_status::ready);
  EXPECT_EQ(::read(bell.get(), &count, sizeof count), static_cast<ssize_t>(sizeof count));
}

}  // namespace
}  // namespace ftar::transport::shm
