// Bad input and bad weather inside one process, each named by `scenario=`.
#include <cstdlib>

#include "tests/process/worker.h"

namespace worker {

int RunScenario(const std::string& name, const Arguments&) {
  Say("end status=unknown scenario " + name);
  return 2;
}

}  // namespace worker
