// Host reduction: N inputs become one result, element by element.
//
// Pure functions of their arguments; any thread, nothing is owned or kept. The only state is which
// instruction set the kernels use (isa.h), and it never shows in the result: every instruction set
// gives the same bits, wherever a buffer lies and wherever it is split, because each element is
// computed alone, its sources are combined in the order given, products and sums are rounded
// separately (no fused multiply-add), and the rounding mode and the treatment of subnormals are set
// here and restored for the caller.
//
// Arithmetic
// - f16, bf16 and the 8-bit floats are combined in f32, f32, f64 and integers in their own type,
//   AVG of integers in 64 bits of the same signedness. Integer SUM and PROD, and the 64-bit sums of
//   an AVG, wrap.
// - AVG and WAVG divide the accumulated value once, in the accumulator's type; integers truncate
//   toward zero. WAVG is sum(w x) / sum(w), each weight rounded to the accumulator's type first.
// - `scale` multiplies the divided value in the accumulator's type. For integers the result in
//   their own type is multiplied as a double, truncated toward zero and clamped to the type's
//   range; scale 1 leaves all bits alone.
// - Then one rounding to the nearest value of the type, ties to even.
// - NaN in any source gives NaN, for MIN and MAX too. A NaN result is always the positive quiet one
//   without payload: f32 7fc00000, f64 7ff8000000000000, f16 7e00, bf16 7fc0, e5m2 7e, e4m3 7f.
// - MIN and MAX take -0 to be less than +0.
// - Overflow: f32, f64, f16 and bf16 become infinite. The 8-bit floats saturate at the largest
//   finite value of their sign (448 and 57344) as CUDA's __nv_fp8 types do by default, so that one
//   outlier does not turn a gradient into NaN. Unlike there, an infinite sum stays infinite in
//   e5m2: the reduction of one input must be that input, and loss scaling looks for the infinity.
//   e4m3 has no infinity; one that arose in f32 becomes 448.
#ifndef FTAR_REDUCE_REDUCE_H_
#define FTAR_REDUCE_REDUCE_H_

#include <span>

#include "reduce/types.h"

namespace ftar::reduce {

// Bytes of one element; 0 for a value that is no Dtype.
size_t ElementBytes(Dtype dtype);

// The type of partial results.
Dtype AccumulatorOf(Dtype dtype, Redop redop);

// False for WAVG on integers and for values that are no Dtype or Redop; true for everything else.
bool Supports(Dtype dtype, Redop redop);

// Whether a result can be multiplied by `scale`, which is finite and not 0: it is so in the
// accumulator's type as well. Integers are scaled as doubles.
bool TakesScale(Dtype dtype, double scale);

// Whether an input may count for `weight`, which is finite and not below 0. WAVG computes with it:
// it is 0, or a number of the accumulator's type that keeps its digits there, as does the sum of
// 65,536 such. Else the average would be NaN, or none of what was asked for.
bool TakesWeight(Dtype dtype, Redop redop, double weight);

// Combines `sources` in their order and writes `count` final elements to `dst`. `divisor` is the
// number of inputs for AVG and the sum of the weights for WAVG, which covers what partial results
// stand for; other operators ignore it. `dst` may be exactly the data of sources of the type
// `dtype`, else it overlaps none. Requires Supports(dtype, redop) and a divisor above 0 (1 or more
// for integers); without a source, or where that does not hold, nothing is written.
void ReduceToFinal(Dtype dtype, Redop redop, std::span<const Source> sources, double divisor,
                   double scale, void* dst, size_t count);

// A sum of few elements, as of a loss or a norm, without what a longer one needs; its bits are
// those of ReduceToFinal.
using FewSum = void (*)(std::span<const Source> sources, void* dst, size_t count);

// Null: it is no such sum, or the thread's floating-point environment is not the usual one. To be
// used before the thread can have changed that.
FewSum FewSumOf(Dtype dtype, Redop redop, double scale, size_t count);

// Combines as ReduceToFinal does, but writes the accumulated values, undivided, in
// AccumulatorOf(dtype, redop). `dst` may be exactly the data of sources that are partial results.
// Splitting a reduction in two this way changes no bit as long as the order of addition stays:
// reduce(reduce(a, b), c) is reduce(a, b, c).
void ReduceToPartial(Dtype dtype, Redop redop, std::span<const Source> sources, void* dst,
                     size_t count);

// Divides, scales and rounds `count` accumulated values at `partial`. `dst` may equal `partial`
// only where `dtype` is its own accumulator.
void FinishPartial(Dtype dtype, Redop redop, const void* partial, double divisor, double scale,
                   void* dst, size_t count);

}  // namespace ftar::reduce

#endif  // FTAR_REDUCE_REDUCE_H_
