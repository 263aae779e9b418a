// The kernels for AVX2 with F16C, compiled with -mavx2 -mf16c.
#define FTAR_KERNEL_VECTOR_BYTES 32
#define FTAR_KERNEL_F16C

#include "reduce/kernel_sums.h"

namespace ftar::reduce {

const KernelTable& Avx2Kernels() {
  static constexpr KernelTable kTable = MakeSumTable();
  return kTable;
}

}  // namespace ftar::reduce
