// The kernels for AVX-512 F, BW, DQ and VL with F16C, compiled with those flags.
#define FTAR_KERNEL_VECTOR_BYTES 64
#define FTAR_KERNEL_F16C

#include "reduce/kernel_sums.h"

namespace ftar::reduce {

const KernelTable& Avx512Kernels() {
  static constexpr KernelTable kTable = MakeSumTable();
  return kTable;
}

}  // namespace ftar::reduce
