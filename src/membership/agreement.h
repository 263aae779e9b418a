// On what all members of a job must agree, found out at the first Hello and named (design 11): the
// same for the coordinator and for a relay. Pure functions; any thread.
#ifndef FTAR_MEMBERSHIP_AGREEMENT_H_
#define FTAR_MEMBERSHIP_AGREEMENT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/knobs.h"
#include "wire/messages.h"

namespace ftar::membership {

struct Reference {  // what the first member said; all others must agree
  std::string job, who;
  int32_t replicas = 0, shards = 0, min_replicas = 0;
  std::vector<std::string> agreed_config;
  bool relays = false;  // all stand behind relays, or nobody does
};
Reference ReferenceOf(const wire::Hello& hello);

// Code::kOk, or why this Hello is refused: the knob, both values, both members. `own_job`: the one
// that is expected while there is no reference; empty: any.
wire::Rejected CheckHello(const wire::Hello& hello, const std::string& own_job,
                          const std::optional<Reference>& reference);
// A knob on which all agree.
int64_t AgreedNumber(const Reference& reference, KnobId id, int64_t otherwise);

// "replica 2, shard 1 on host-a (1f2e3d4c)" - or without the shard in a job of one.
std::string Describe(const wire::MemberCard& card);

}  // namespace ftar::membership

#endif  // FTAR_MEMBERSHIP_AGREEMENT_H_
