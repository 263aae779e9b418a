// The environment of the coordinator's transcripts: one CoordinatorMachine and puppet members.
//
// Members are called r<replica>[s<shard>][letter]: r1 is replica 1, r2s1 its shard 1 of replica 2,
// r1b another incarnation of r1. Puppets answer by themselves like good members unless told not to
// (`mute`); time moves only by `advance`.
#ifndef FTAR_TESTS_SCRIPT_COORDINATOR_ENVIRONMENT_H_
#define FTAR_TESTS_SCRIPT_COORDINATOR_ENVIRONMENT_H_

#include <memory>

#include "tests/script/script.h"

namespace ftar::script {

std::unique_ptr<Environment> MakeCoordinatorEnvironment();

}  // namespace ftar::script

#endif  // FTAR_TESTS_SCRIPT_COORDINATOR_ENVIRONMENT_H_
