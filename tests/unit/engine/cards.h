// Members by number, from 1 on.
#ifndef FTAR_TESTS_UNIT_ENGINE_CARDS_H_
#define FTAR_TESTS_UNIT_ENGINE_CARDS_H_

#include "engine/engine.h"

namespace ftar::engine {

inline wire::MemberCard CardOf(uint64_t number) {
  wire::MemberCard card;
  card.id = {1, number};
  card.replica = static_cast<int32_t>(number) - 1;
  return card;
}

// Of the first.
inline Config ConfigOf(const char* job, int32_t replicas) {
  Config config;
  config.job = job;
  config.self = CardOf(1);
  config.replicas = replicas;
  return config;
}

}  // namespace ftar::engine

#endif  // FTAR_TESTS_UNIT_ENGINE_CARDS_H_
