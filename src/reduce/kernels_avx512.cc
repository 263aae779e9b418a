// The kernels for AVX-512 F, BW, DQ and VL with F16C, compiled with those flags.
#define FTAR_KERNEL_VECTOR_BYTES 64
#define FTAR_KERNEL_F16C

#include "reduce/kernel_sums.h"

namespace ftar::reduce {
namespace {

template <typename Format>
constexpr void SetSum(KernelTable* table) {
  table->kernel[static_cast<int>(Format::kDtype)][static_cast<int>(Combine::kSum)]
               [static_cast<int>(Output::kMultiply)] = SumAndMend<Format>;
}

constexpr KernelTable MakeAvx512Table() {
  KernelTable table = MakeTable();
  SetSum<F32Format>(&table);
  SetSum<F16Format>(&table);
  SetSum<BF16Format>(&table);
  return table;
}

}  // namespace

const KernelTable& Avx512Kernels() {
  static constexpr KernelTable kTable = MakeAvx512Table();
  return kTable;
}

}  // namespace ftar::reduce
