// Which kernels exist: one list, from which the device's files and the host grid are both made.
//
// A variant is a tile with its operator and unrolling; an Id names it at run time. Constant data.
// The unrolling of each variant is what keeps its registers within the launch shape's budget
// (docs/gpu.md has the table); the other unrollings of f32, bf16 and the copy are for measuring.
#ifndef FTAR_KERNELS_VARIANTS_H_
#define FTAR_KERNELS_VARIANTS_H_

#include <cstdint>
#include <vector>

#include "kernels/block_job.h"
#include "reduce/kernels.h"

namespace ftar::kernels {

// The launch shape that registers are budgeted for: two blocks of 512 threads on a multiprocessor
// of 65,536 registers. What is unrolled for measuring alone, and elements of one byte, of which a
// pack becomes 16 lanes, may fill it with one.
inline constexpr int kMaxThreads = 512;
inline constexpr int kRegisterBudget = 64;
inline constexpr int kLargeBudget = 128;

// kTwo: two sources of the type itself, nothing to finish. kMany: 1 to 16 of them. kMixed: any of
// them, and the result, may be partial results. kWide: f32 summed in f64.
enum class Variant : int32_t { kTwo, kMany, kMixed, kWide, kCopy };

struct Id {
  reduce::Dtype dtype = reduce::Dtype::kU8;  // kU8 for copies.
  reduce::Combine op = reduce::Combine::kSum;
  Variant variant = Variant::kCopy;
  int32_t unroll = 0;
};
inline bool operator==(const Id& a, const Id& b) {
  return a.dtype == b.dtype && a.op == b.op && a.variant == b.variant && a.unroll == b.unroll;
}

// A tile with its unrolling; what a kernel is an instance of.
template <typename TileType, int unroll, int budget>
struct Work {
  using Tile = TileType;
  static constexpr int kUnroll = unroll;
  static constexpr int kBlocksPerMultiprocessor = budget == kRegisterBudget ? 2 : 1;
};

// A kernel as it is called, with the Id it goes by. Function is the device's or the host's.
template <typename Function>
struct Entry {
  Id id;
  Function function = nullptr;
};
template <typename Function>
using Entries = std::vector<Entry<Function>>;

// Packs at a time, by the bytes of an element. A narrow element becomes more lanes.
constexpr int UnrollOf(Variant variant, size_t element_bytes) {
  switch (variant) {
    case Variant::kTwo: return element_bytes == 1 ? 2 : 4;
    case Variant::kMany: return element_bytes == 1 ? 1 : 2;
    case Variant::kMixed: return element_bytes == 2 ? 2 : 1;
    case Variant::kWide: return 2;
    case Variant::kCopy: break;
  }
  return 4;
}

constexpr int BudgetOf(Variant variant, size_t element_bytes) {
  const bool large = element_bytes == 1 && (variant == Variant::kTwo || variant == Variant::kMixed);
  return large ? kLargeBudget : kRegisterBudget;
}

// Maker::Of<Work>() gives the function.
template <typename Maker, typename Function>
class Lister {
 public:
  explicit Lister(Entries<Function>* list) : list_(list) {}

  template <typename F, typename Op>
  void AddOp(reduce::Combine op) {
    Put<Variant::kTwo, TwoTile<F, Op>, F>(op);
    Put<Variant::kMany, ManyTile<F, Op>, F>(op);
    if constexpr (!F::kOwnAccumulator) Put<Variant::kMixed, MixedTile<F, Op>, F>(op);
  }

  template <typename F>
  void AddType() {
    AddOp<F, SumOp>(reduce::Combine::kSum);
    AddOp<F, ProdOp>(reduce::Combine::kProd);
    AddOp<F, MinOp>(reduce::Combine::kMin);
    AddOp<F, MaxOp>(reduce::Combine::kMax);
  }

  // The sums in 64 bits of an integer AVG.
  template <typename F>
  void AddAverage() {
    Put<Variant::kMixed, MixedTile<F, SumOp>, F>(reduce::Combine::kAccumulate);
  }

  void AddWide() { Put<Variant::kWide, ManyTile<WideF32, SumOp>, WideF32>(reduce::Combine::kSum); }

  void AddCopies() {
    Put<Variant::kCopy, CopyTile, Bytes>(reduce::Combine::kSum);
    PutMeasuring<Variant::kCopy, CopyTile, 1, 2, 8>(Bytes::kDtype);
  }

  template <typename F>
  void AddMeasuring() {
    PutMeasuring<Variant::kTwo, TwoTile<F, SumOp>, 1, 2, 8>(F::kDtype);
    PutMeasuring<Variant::kMany, ManyTile<F, SumOp>, 1, 4>(F::kDtype);
  }

 private:
  template <Variant variant, typename Tile, typename F>
  void Put(reduce::Combine op) {
    constexpr size_t kBytes = sizeof(typename F::Storage);
    constexpr int kUnroll = UnrollOf(variant, kBytes);
    using Kind = Work<Tile, kUnroll, BudgetOf(variant, kBytes)>;
    list_->push_back({{F::kDtype, op, variant, kUnroll}, Maker::template Of<Kind>()});
  }
  template <Variant variant, typename Tile, int... unroll>
  void PutMeasuring(Dtype dtype) {
    constexpr auto kSum = reduce::Combine::kSum;
    (list_->push_back(
         {{dtype, kSum, variant, unroll}, Maker::template Of<Work<Tile, unroll, kLargeBudget>>()}),
     ...);
  }

  Entries<Function>* list_;
};

}  // namespace ftar::kernels

#endif  // FTAR_KERNELS_VARIANTS_H_
