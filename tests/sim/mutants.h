// Looks for the planted mistakes of src/base/mutant_list.h: every one must make some seed fail.
#ifndef FTAR_TESTS_SIM_MUTANTS_H_
#define FTAR_TESTS_SIM_MUTANTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/mutant.h"

namespace ftar::sim {

struct PlantedMistake {
  Mutant mutant = Mutant::kNone;
  const char* name = "";  // as written in the list
  const char* rule = "";
  const char* mistake = "";
};
const std::vector<PlantedMistake>& PlantedMistakes();
// Null if there is none of that name.
const PlantedMistake* FindMistake(const std::string& name);

struct MutantSearch {
  std::string only;     // the name of one; empty: all
  std::string stories;  // a directory of them; empty: none
  // docs/mutants.md, or empty. The seed that found a mistake then is tried first, and who is found
  // by it is looked for by nothing else; who was found by a story alone is looked for by stories
  // alone.
  std::string record;
  uint64_t from = 1, seeds = 20'000;
  int jobs = 0;           // processes side by side; 0: one a core
  bool by_story = false;  // print docs/stories.md
  bool markdown = false;  // print docs/mutants.md instead of the table for the terminal
};
// Looks by seeds, and by every story. Prints what found each. 0 if none is left, else 1.
int HuntMutants(const MutantSearch& search);

}  // namespace ftar::sim

#endif  // FTAR_TESTS_SIM_MUTANTS_H_
