// What the workers of a test said of their operations, for comparing members with each other.
#ifndef FTAR_TESTS_PROCESS_VERDICTS_H_
#define FTAR_TESTS_PROCESS_VERDICTS_H_

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <string>

#include "tests/process/harness.h"

namespace process {

// Sequence number to "status participants digest".
using Verdicts = std::map<int, std::string>;

Verdicts VerdictsOf(const Process& member, bool only_ok);

// The replicas named in an "op" line.
std::set<int> ParticipantsOf(const std::string& line);

// A team and its coordinator, whose stories are told when a test fails.
class TeamTest : public testing::Test {
 protected:
  void TearDown() override;
  // What a victim that lives on has delivered, the survivors have delivered too, with the same
  // bits.
  void ExpectAgrees(const Process& victim);

  std::unique_ptr<Coordinator> coordinator_;  // null where a member coordinates
  std::unique_ptr<Team> team_;
  Verdicts agreed_;  // the survivors'
};

}  // namespace process

#endif  // FTAR_TESTS_PROCESS_VERDICTS_H_
