#include "tests/process/verdicts.h"

#include <cstdio>

namespace process {

Verdicts VerdictsOf(const Process& member, bool only_ok) {
  Verdicts out;
  for (const std::string& line : member.LinesWith("op ")) {
    if (only_ok && Field(line, "status") != "FTAR_OK") continue;
    out[std::stoi(Field(line, "seq"))] =
        Field(line, "status") + " " + Field(line, "participants") + " " + Field(line, "digest");
  }
  return out;
}

std::set<int> ParticipantsOf(const std::string& line) {
  std::set<int> out;
  const std::string text = Field(line, "participants");
  for (size_t at = 0; at < text.size();) {
    out.insert(std::stoi(text.substr(at)));
    const size_t comma = text.find(',', at);
    at = comma == std::string::npos ? text.size() : comma + 1;
  }
  return out;
}

void TeamTest::TearDown() {
  if (!HasFailure() || !team_) return;
  fprintf(stderr, "%s", team_->Story().c_str());
  if (coordinator_) fprintf(stderr, "coordinator:\n%s", coordinator_->process().Output().c_str());
}

void TeamTest::ExpectAgrees(const Process& victim) {
  for (const auto& [seq, verdict] : VerdictsOf(victim, true)) EXPECT_EQ(verdict, agreed_[seq]);
}

}  // namespace process
