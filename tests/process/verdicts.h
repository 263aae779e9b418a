// What the workers of a test said of their operations, for comparing members with each other.
#ifndef FTAR_TESTS_PROCESS_VERDICTS_H_
#define FTAR_TESTS_PROCESS_VERDICTS_H_

#include <map>
#include <set>
#include <string>

#include "tests/process/harness.h"

namespace process {

// Sequence number to "status participants digest".
using Verdicts = std::map<int, std::string>;

Verdicts VerdictsOf(const Process& member, bool only_ok);

// The replicas named in an "op" line.
std::set<int> ParticipantsOf(const std::string& line);

}  // namespace process

#endif  // FTAR_TESTS_PROCESS_VERDICTS_H_
