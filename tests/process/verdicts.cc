#include "tests/process/verdicts.h"

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

}  // namespace process
