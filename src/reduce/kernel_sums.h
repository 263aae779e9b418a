// Sums of floats for AVX2 and AVX-512, by loops that decide nothing while they run.
//
// Included by each kernels_avx*.cc only; the rules of kernel_formats.h hold.
//
// The kernels of kernel_loops.h look at each block's accumulators before they round and store them,
// and that costs as much as the conversions: the way from a comparison to a branch is long. Here
// what is unusual is only remembered, and a run of blocks in which there was any is mended or
// repeated by the kernel of kernel_loops.h, whose bits are what counts.
#ifndef FTAR_REDUCE_KERNEL_SUMS_H_
#define FTAR_REDUCE_KERNEL_SUMS_H_

#include "reduce/kernel_loops.h"

namespace ftar::reduce {
namespace {

constexpr size_t kMaxSummed = 8;

// What one call sums: sources that all are elements of the type.
struct Sum {
  const uint8_t* in[kMaxSummed];
  size_t count;
  float scale;
  uint8_t* out;
};

// False: these sources are the general kernel's.
template <typename Format>
FTAR_INLINE bool MakeSum(const Source* sources, size_t count, const Finish& finish, void* dst,
                         Sum* sum) {
  if (count > kMaxSummed) return false;
  for (size_t s = 0; s < count; ++s) {
    if (sources[s].format != Format::kDtype) return false;
    sum->in[s] = static_cast<const uint8_t*>(sources[s].data);
  }
  sum->count = count;
  sum->scale = static_cast<float>(finish.scale);
  sum->out = static_cast<uint8_t*>(dst);
  return true;
}

// `a + b`. Where elements are converted, the units that add are those that convert, while those
// that multiply idle: 1 b + a is the same number, rounded once. `one` must be nothing that the
// compiler knows.
template <typename Format>
FTAR_INLINE F32s Plus(F32s a, F32s b, F32s one) {
#if FTAR_KERNEL_VECTOR_BYTES == 64
  if constexpr (Format::kBytes == 2) return _mm512_fmadd_ps(b, one, a);
#endif
  static_cast<void>(one);
  return a + b;
}

// Lanes in which no accumulator was NaN so far. Of two masks in turn neither is waited for.
#if FTAR_KERNEL_VECTOR_BYTES == 64
// A comparison under a mask is one instruction, where to join what it gives to what others gave is
// another one, on the units that add.
struct Ordered {
  __mmask16 even = 0xffff, odd = 0xffff;

  [[gnu::always_inline]] void Note(const Block<float>& acc) {
    even = _mm512_mask_cmp_ps_mask(even, acc.v[0], acc.v[1], _CMP_ORD_Q);
    odd = _mm512_mask_cmp_ps_mask(odd, acc.v[2], acc.v[3], _CMP_ORD_Q);
  }
  bool all() const { return (even & odd) == 0xffff; }
};
#else
struct Ordered {
  I32s even{}, odd{};  // the others' lanes

  [[gnu::always_inline]] void Note(const Block<float>& acc) {
    even |= reinterpret_cast<I32s>(_mm256_cmp_ps(acc.v[0], acc.v[1], _CMP_UNORD_Q));
    odd |= reinterpret_cast<I32s>(_mm256_cmp_ps(acc.v[2], acc.v[3], _CMP_UNORD_Q));
  }
  bool all() const { return _mm256_movemask_ps(AsF32(even | odd)) == 0; }
};
#endif

// Sums `blocks` blocks from element `i` on and copies what `out` held there to `kept` unless that
// is null. `fixed` is the number of sources, or 0.
template <typename Format, size_t fixed, bool scaled, size_t blocks>
FTAR_INLINE void SumAt(const Sum& sum, size_t i, F32s one, uint8_t* kept, Ordered* ordered) {
  constexpr size_t kBlockBytes = Block<float>::kElements * Format::kBytes;
  const size_t at = i * Format::kBytes;
  const size_t count = fixed != 0 ? fixed : sum.count;
  Block<float> acc[blocks];
  for (size_t b = 0; b < blocks; ++b) acc[b] = Format::LoadBlock(sum.in[0] + at + b * kBlockBytes);
  for (size_t s = 1; s < count; ++s) {
    for (size_t b = 0; b < blocks; ++b) {
      const Block<float> next = Format::LoadBlock(sum.in[s] + at + b * kBlockBytes);
      for (size_t k = 0; k < kUnroll; ++k) acc[b].v[k] = Plus<Format>(acc[b].v[k], next.v[k], one);
    }
  }
  for (size_t b = 0; b < blocks; ++b) {
    for (size_t k = 0; scaled && k < kUnroll; ++k) acc[b].v[k] = acc[b].v[k] * sum.scale;
    ordered->Note(acc[b]);
  }
  for (size_t k = 0; kept != nullptr && k < blocks * kBlockBytes; k += kVectorBytes) {
    StoreAs(kept + k, LoadAs<I32s>(sum.out + at + k));
  }
  for (size_t b = 0; b < blocks; ++b) Format::StoreBlock(sum.out + at + b * kBlockBytes, acc[b]);
}

// Sums elements [from, to), a whole number of blocks; true if an accumulator was NaN. As many bytes
// of each source are taken at a time as four vectors have, of whatever type: with many sources it
// is how often the loop goes from one to the next that counts. Never inlined, so that what the
// processor notes meanwhile is noted when it returns.
template <typename Format, size_t fixed, bool scaled>
[[gnu::noinline]] bool SumBlocks(const Sum& sum_in, size_t from, size_t to, uint8_t* kept) {
  constexpr size_t kStep = Block<float>::kElements;
  constexpr size_t kBlocks = sizeof(float) / Format::kBytes;
  const Sum sum = sum_in;  // A copy, which no store to `out` can be thought to change.
  F32s one = F32s{} + 1.0f;
  asm("" : "+v"(one));
  const auto kept_at = [&](size_t i) {
    return kept == nullptr ? nullptr : kept + (i - from) * Format::kBytes;
  };
  Ordered ordered;
  size_t i = from;
  for (; i + kBlocks * kStep <= to; i += kBlocks * kStep)
    SumAt<Format, fixed, scaled, kBlocks>(sum, i, one, kept_at(i), &ordered);
  for (; i < to; i += kStep) SumAt<Format, fixed, scaled, 1>(sum, i, one, kept_at(i), &ordered);
  return !ordered.all();
}

template <typename Format>
FTAR_INLINE bool SumRun(const Sum& sum, size_t from, size_t to, uint8_t* kept) {
  if (sum.scale != 1.0f) return SumBlocks<Format, 0, true>(sum, from, to, kept);
  if (sum.count == 2) return SumBlocks<Format, 2, false>(sum, from, to, kept);
  return SumBlocks<Format, 0, false>(sum, from, to, kept);
}

// The kernel of a format that stores any accumulator as it should be stored but for the bits of a
// NaN, which are mended where they lie.
template <typename Format>
void SumAndMend(const Source* sources, size_t source_count, const Finish& finish, void* dst,
                size_t count) {
  constexpr auto kGeneral = Reduce<Format, SumOp, Output::kMultiply>;
  Sum sum;
  if (!MakeSum<Format>(sources, source_count, finish, dst, &sum)) {
    return kGeneral(sources, source_count, finish, dst, count);
  }
  constexpr size_t kRun = (size_t{16} << 10) / Format::kBytes;
  for (size_t from = 0; from < count; from += kRun) {
    const size_t to = count - from < kRun ? count : from + kRun;
    if (!SumRun<Format>(sum, from, to, nullptr)) continue;
    uint8_t* out = sum.out + from * Format::kBytes;
    const Source stored{.data = out, .format = Format::kDtype, .weight = 1.0};
    kGeneral(&stored, 1, Finish{}, out, to - from);
  }
}

template <typename Format>
constexpr void SetSum(KernelTable* table) {
  table->kernel[static_cast<int>(Format::kDtype)][static_cast<int>(Combine::kSum)]
               [static_cast<int>(Output::kMultiply)] = SumAndMend<Format>;
}

constexpr KernelTable MakeSumTable() {
  KernelTable table = MakeTable();
  SetSum<F32Format>(&table);
  SetSum<F16Format>(&table);
  SetSum<BF16Format>(&table);
  return table;
}

}  // namespace
}  // namespace ftar::reduce

#endif  // FTAR_REDUCE_KERNEL_SUMS_H_
