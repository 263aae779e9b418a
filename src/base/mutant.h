// Planted mistakes. Each breaks one rule of the protocol in a way that a good engineer could; the
// simulator switches them on one by one and must find every one of them (ftar-sim --mutants). A
// mistake that nobody finds shows a hole in the simulator's checkers.
//
// FTAR_MUTANT(kName) stands at the place that enforces the rule. It is the constant false wherever
// FTAR_MUTANTS is not defined, which is everywhere but in the simulators' own builds and in builds
// with a sanitizer: the library that is shipped contains none of this.
#ifndef FTAR_BASE_MUTANT_H_
#define FTAR_BASE_MUTANT_H_

#ifdef FTAR_MUTANTS

#include "base/mutant_list.h"

namespace ftar {

enum class Mutant : int {
  kNone,
#define FTAR_MUTANT_NAME(name, rule, mistake) name,
  FTAR_MUTANT_LIST(FTAR_MUTANT_NAME) FTAR_DEVICE_MUTANT_LIST(FTAR_MUTANT_NAME)
#undef FTAR_MUTANT_NAME
};

// The one that is on. One at a time: two mistakes may hide each other.
inline Mutant mutant_in_force = Mutant::kNone;

}  // namespace ftar

#define FTAR_MUTANT(name) (::ftar::mutant_in_force == ::ftar::Mutant::name)
#else
#define FTAR_MUTANT(name) false
#endif

#endif  // FTAR_BASE_MUTANT_H_
