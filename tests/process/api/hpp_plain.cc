// The part of hpp_mixed_test that is compiled without exceptions; linked first, so that what the
// linker keeps of both parts' inline functions is this one's.
#include "tests/process/api/hpp_plain.h"

#include <ftar/ftar.hpp>

namespace process {

// Calls all that would end this program if there were nothing to be had.
bool AsksWithoutExceptions() {
  ftar::Job job = ftar::Job::Join().value();
  auto group = job.OpenGroup();
  return group.value().Barrier().Finish().OrThrow().ok();
}

}  // namespace process
