// The loops of the reduction kernels and the table of them.
//
// Included by each kernels_<isa>.cc only, which returns MakeTable(); the rules of kernel_formats.h
// hold.
//
// A kernel walks over blocks of a few vectors whose accumulators stay in registers while it goes
// through the sources, so that any number of sources is read once and nothing but the result is
// written. It knows whole blocks only; reduce.cc pads the rest of a buffer to one.
#ifndef FTAR_REDUCE_KERNEL_LOOPS_H_
#define FTAR_REDUCE_KERNEL_LOOPS_H_

#include <type_traits>

#include "reduce/kernel_formats.h"

namespace ftar::reduce {
namespace {

template <typename Lane>
constexpr bool kIsFloat = std::is_floating_point_v<Lane>;

// --- Operators. Integers wrap, so they are added and multiplied as unsigned ones.

template <typename T, bool is_float = kIsFloat<T>>
struct Modulo {
  using Type = T;
};
template <typename T>
struct Modulo<T, false> {
  using Type = std::make_unsigned_t<T>;
};
template <typename Lane>
using Modular = Native<typename Modulo<Lane>::Type>;

struct SumOp {
  static constexpr bool kWeighted = false;
  template <typename Lane>
  FTAR_INLINE Native<Lane> Apply(Native<Lane> a, Native<Lane> b) {
    return reinterpret_cast<Native<Lane>>(reinterpret_cast<Modular<Lane>>(a) +
                                          reinterpret_cast<Modular<Lane>>(b));
  }
};

struct WeightedSumOp : SumOp {
  static constexpr bool kWeighted = true;
};

struct ProdOp {
  static constexpr bool kWeighted = false;
  template <typename Lane>
  FTAR_INLINE Native<Lane> Apply(Native<Lane> a, Native<Lane> b) {
    return reinterpret_cast<Native<Lane>>(reinterpret_cast<Modular<Lane>>(a) *
                                          reinterpret_cast<Modular<Lane>>(b));
  }
};

struct MinOp {
  static constexpr bool kWeighted = false;
  template <typename Lane>
  FTAR_INLINE Native<Lane> Apply(Native<Lane> a, Native<Lane> b) {
    if constexpr (kIsFloat<Lane>) {
      // Neither is less: both are equal, and OR makes -0 of two different zeros; or one is NaN,
      // which OR keeps one.
      using Mask = decltype(a < b);
      const auto either =
          reinterpret_cast<Native<Lane>>(reinterpret_cast<Mask>(a) | reinterpret_cast<Mask>(b));
      return a < b ? a : (b < a ? b : either);
    } else {
      return a < b ? a : b;
    }
  }
};

struct MaxOp {
  static constexpr bool kWeighted = false;
  template <typename Lane>
  FTAR_INLINE Native<Lane> Apply(Native<Lane> a, Native<Lane> b) {
    if constexpr (kIsFloat<Lane>) {
      // As in MinOp, but AND makes +0 of two different zeros, while a NaN needs OR to stay one.
      using Mask = decltype(a < b);
      const auto both =
          reinterpret_cast<Native<Lane>>(reinterpret_cast<Mask>(a) & reinterpret_cast<Mask>(b));
      const auto either =
          reinterpret_cast<Native<Lane>>(reinterpret_cast<Mask>(a) | reinterpret_cast<Mask>(b));
      return a > b ? a : (b > a ? b : (a == b ? both : either));
    } else {
      return a > b ? a : b;
    }
  }
};

// --- One block.

// The block of a source that begins at element `i`, weighted where the operator is.
template <typename Format, typename Op>
FTAR_INLINE Block<typename Format::Lane> LoadSource(const Source& source, size_t i) {
  using Lane = typename Format::Lane;
  const auto* bytes = static_cast<const uint8_t*>(source.data);
  Block<Lane> block;
  if (Format::kDtype == Format::kAccumulator || source.format == Format::kDtype) {
    block = Format::LoadBlock(bytes + i * Format::kBytes);
  } else {
    block = PartialFormat<Format>::LoadBlock(bytes + i * sizeof(Lane));
  }
  if constexpr (Op::kWeighted) {
    for (size_t k = 0; k < kUnroll; ++k) block.v[k] = block.v[k] * static_cast<Lane>(source.weight);
  }
  return block;
}

// False where no accumulator is NaN, which costs less to find out than to replace what is not
// there.
FTAR_INLINE bool MayHoldNan(const Block<float>& block) {
#if FTAR_KERNEL_VECTOR_BYTES == 64
  return (_mm512_cmp_ps_mask(block.v[0], block.v[1], _CMP_UNORD_Q) |
          _mm512_cmp_ps_mask(block.v[2], block.v[3], _CMP_UNORD_Q)) != 0;
#elif FTAR_KERNEL_VECTOR_BYTES == 32
  return _mm256_movemask_ps(_mm256_or_ps(_mm256_cmp_ps(block.v[0], block.v[1], _CMP_UNORD_Q),
                                         _mm256_cmp_ps(block.v[2], block.v[3], _CMP_UNORD_Q))) != 0;
#else
  static_cast<void>(block);
  return true;
#endif
}
FTAR_INLINE bool MayHoldNan(const Block<double>&) { return true; }

template <typename Format, Output output>
FTAR_INLINE void FinishBlock(const Finish& finish, Block<typename Format::Lane>* block) {
  using Lane = typename Format::Lane;
  const Lane divisor = static_cast<Lane>(finish.divisor);
  if constexpr (kIsFloat<Lane>) {
    const Lane scale = static_cast<Lane>(finish.scale);
    for (size_t k = 0; k < kUnroll; ++k) {
      if (output == Output::kMultiply && scale != 1) block->v[k] = block->v[k] * scale;
      if constexpr (output == Output::kDivide) block->v[k] = block->v[k] / divisor * scale;
    }
    if (!MayHoldNan(*block)) return;
    for (size_t k = 0; k < kUnroll; ++k) block->v[k] = Canonical(block->v[k]);
  } else if constexpr (output == Output::kDivide) {
    if (divisor == 1) return;
    for (size_t k = 0; k < kUnroll; ++k) {
      for (size_t lane = 0; lane < kLanes<Lane>; ++lane) {
        block->v[k][lane] = Format::Divide(block->v[k][lane], divisor);
      }
    }
  }
}

// --- Kernels.

// The loop over the sources is not unrolled for small numbers of them: it costs nothing beside the
// loads, measured with 2, 4 and 8 sources in the first level cache.
template <typename Format, typename Op, Output output>
void Reduce(const Source* sources, size_t source_count, const Finish& finish_in, void* dst,
            size_t count) {
  using Lane = typename Format::Lane;
  using Stored = std::conditional_t<output == Output::kPartial, PartialFormat<Format>, Format>;
  const Finish finish = finish_in;  // A copy, which no store to `dst` can be thought to change.
  for (size_t i = 0; i < count; i += Block<Lane>::kElements) {
    Block<Lane> acc = LoadSource<Format, Op>(sources[0], i);
    for (size_t s = 1; s < source_count; ++s) {
      const Block<Lane> next = LoadSource<Format, Op>(sources[s], i);
      for (size_t k = 0; k < kUnroll; ++k) acc.v[k] = Op::template Apply<Lane>(acc.v[k], next.v[k]);
    }
    FinishBlock<Format, output>(finish, &acc);
    Stored::StoreBlock(static_cast<uint8_t*>(dst) + i * Stored::kBytes, acc);
  }
}

template <typename Format, typename Op>
constexpr void SetFloat(Combine combine, KernelTable* table) {
  auto& kernels = table->kernel[static_cast<int>(Format::kDtype)][static_cast<int>(combine)];
  kernels[static_cast<int>(Output::kPartial)] = Reduce<Format, Op, Output::kPartial>;
  kernels[static_cast<int>(Output::kMultiply)] = Reduce<Format, Op, Output::kMultiply>;
  if constexpr (std::is_base_of_v<SumOp, Op>) {
    kernels[static_cast<int>(Output::kDivide)] = Reduce<Format, Op, Output::kDivide>;
  }
}

template <typename Format>
constexpr void SetFloatFormat(KernelTable* table) {
  SetFloat<Format, SumOp>(Combine::kSum, table);
  SetFloat<Format, ProdOp>(Combine::kProd, table);
  SetFloat<Format, MinOp>(Combine::kMin, table);
  SetFloat<Format, MaxOp>(Combine::kMax, table);
  SetFloat<Format, WeightedSumOp>(Combine::kAccumulate, table);
}

template <typename Format, typename Op, Output output>
constexpr void SetInt(Combine combine, KernelTable* table) {
  table->kernel[static_cast<int>(Format::kDtype)][static_cast<int>(combine)]
               [static_cast<int>(output)] = Reduce<Format, Op, output>;
}

template <typename T, Dtype dtype>
constexpr void SetIntFormat(KernelTable* table) {
  using Own = OwnFormat<T, dtype>;
  SetInt<Own, SumOp, Output::kPartial>(Combine::kSum, table);
  SetInt<Own, ProdOp, Output::kPartial>(Combine::kProd, table);
  SetInt<Own, MinOp, Output::kPartial>(Combine::kMin, table);
  SetInt<Own, MaxOp, Output::kPartial>(Combine::kMax, table);
  constexpr bool kSigned = std::is_signed_v<T>;
  using Sum64 = WideIntFormat<T, std::conditional_t<kSigned, int64_t, uint64_t>, dtype,
                              kSigned ? Dtype::kI64 : Dtype::kU64>;
  SetInt<Sum64, SumOp, Output::kPartial>(Combine::kAccumulate, table);
  SetInt<Sum64, SumOp, Output::kDivide>(Combine::kAccumulate, table);
}

constexpr KernelTable MakeTable() {
  KernelTable table;
  table.block_bytes = kUnroll * kVectorBytes;
  SetFloatFormat<F32Format>(&table);
  SetFloatFormat<F64Format>(&table);
  SetFloatFormat<F16Format>(&table);
  SetFloatFormat<BF16Format>(&table);
  SetFloatFormat<F8E4M3Format>(&table);
  SetFloatFormat<F8E5M2Format>(&table);
  SetIntFormat<int8_t, Dtype::kI8>(&table);
  SetIntFormat<uint8_t, Dtype::kU8>(&table);
  SetIntFormat<int32_t, Dtype::kI32>(&table);
  SetIntFormat<uint32_t, Dtype::kU32>(&table);
  SetIntFormat<int64_t, Dtype::kI64>(&table);
  SetIntFormat<uint64_t, Dtype::kU64>(&table);
  return table;
}

}  // namespace
}  // namespace ftar::reduce

#endif  // FTAR_REDUCE_KERNEL_LOOPS_H_
