#include "membership/absentees.h"

#include <gtest/gtest.h>

namespace ftar::membership {
namespace {

Reference JobOf(int32_t replicas, int32_t shards) {
  Reference job;
  job.replicas = replicas;
  job.shards = shards;
  return job;
}

TEST(Absentees, NamesThoseInPartAndThoseBeyond) {
  Absentees absentees;
  const Absentees::Shards here = {{0, {0, 1}}, {1, {0, 1}}, {3, {1}}, {8, {0}}};
  EXPECT_EQ(absentees.InWords(0, 10, JobOf(5, 2), here),
            "the first view waits for replicas 0 to 4; here: 0 to 1; in part: 3, of replica 3 "
            "without shards 0; missing: 2, 4; not waited for, as replicas count from 0: 8");
  EXPECT_EQ(absentees.InWords(0, 10, JobOf(2, 1), {}),
            "the first view waits for replicas 0 to 1; here: none; missing: 0 to 1");
}

TEST(Absentees, WhoGaveUpRightBeforeIsNotMissing) {
  Absentees absentees;
  absentees.OnGaveUp(100, 1);
  const Absentees::Shards here = {{0, {0}}};
  EXPECT_EQ(absentees.InWords(110, 10, JobOf(2, 1), here),
            "the first view waits for replicas 0 to 1; here: 0; gave up: 1");
  EXPECT_EQ(absentees.InWords(111, 10, JobOf(2, 1), here),
            "the first view waits for replicas 0 to 1; here: 0; missing: 1");
}

TEST(Absentees, OfManyTheFirst) {
  Absentees absentees;
  Absentees::Shards here;
  for (int32_t replica = 0; replica < 40; replica += 2) here[replica] = {0};
  const std::string text = absentees.InWords(0, 10, JobOf(40, 1), here);
  EXPECT_NE(text.find("here: 0, 2, 4, 6, 8, 10, 12, 14 and others"), std::string::npos) << text;
}

TEST(Absentees, PeopleAreToldOnce) {
  Absentees absentees;
  EXPECT_FALSE(absentees.TakeTimeToTell(100 * kSecond));
  absentees.OnFirst(kSecond);
  EXPECT_FALSE(absentees.TakeTimeToTell(2 * kSecond));
  EXPECT_TRUE(absentees.TakeTimeToTell(6 * kSecond));
  EXPECT_FALSE(absentees.TakeTimeToTell(7 * kSecond));
}

}  // namespace
}  // namespace ftar::membership
