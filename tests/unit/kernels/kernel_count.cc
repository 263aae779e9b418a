// How many kernels there are for each architecture, for resources.py.
#include <cstdio>

#include "kernels/host_grid.h"

int main() {
  // And the resident one.
  std::printf("%zu\n", ftar::kernels::AllIds().size() + 1);
  return 0;
}
