// The kernels in portable code: 16-byte vectors, which the compiler maps to whatever the build's
// baseline has.
#define FTAR_KERNEL_VECTOR_BYTES 16

#include "reduce/kernel_loops.h"

namespace ftar::reduce {

const KernelTable& ScalarKernels() {
  static constexpr KernelTable kTable = MakeTable();
  return kTable;
}

}  // namespace ftar::reduce
