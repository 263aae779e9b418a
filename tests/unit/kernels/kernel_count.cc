// How many kernels there are for each architecture, for resources.py.
#include <cstdio>

#include "kernels/host_grid.h"

int main() {
  std::printf("%zu\n", ftar::kernels::AllIds().size());
  return 0;
}
