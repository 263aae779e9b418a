// The kernels for AVX-512 with BF16: those of AVX-512, but for sums of bf16, which are rounded by
// the instruction for it.
//
// That instruction takes subnormal accumulators for zero and passes on the bits of a NaN. So a run
// of elements in which there was one of either is summed again by the kernel of AVX-512, from the
// sources as they were.
#define FTAR_KERNEL_VECTOR_BYTES 64
#define FTAR_KERNEL_F16C

#include "reduce/kernel_sums.h"

namespace ftar::reduce {
namespace {

constexpr int kBF16 = static_cast<int>(Dtype::kBF16);
constexpr int kSum = static_cast<int>(Combine::kSum);
constexpr int kFinal = static_cast<int>(Output::kMultiply);

// Word 2 j of the result is word j of the even elements, word 2 j + 1 that of the odd ones.
alignas(64) constexpr uint16_t kInterleave[32] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                                  21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                                  11, 27, 12, 28, 13, 29, 14, 30, 15, 31};

struct RoundedFormat : BF16Format {
  FTAR_INLINE void StoreBlock(uint8_t* to, const Block<float>& block) {
    const __m512i interleave = _mm512_load_si512(kInterleave);
    for (size_t k = 0; k < kUnroll; k += 2) {
      const auto planes =
          reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(block.v[k + 1], block.v[k]));
      StoreAs(to + k * kF32Lanes * kBytes, _mm512_permutexvar_epi16(interleave, planes));
    }
  }
};

// The processor's note that a subnormal number was an operand, which every accumulator is of the
// comparison at least: it costs nothing to take. What was noted before comes back in the end.
class SubnormalSeen {
 public:
  SubnormalSeen() : before_(Take()) {}
  ~SubnormalSeen() {
    if (before_) _mm_setcsr(_mm_getcsr() | kDenormal);
  }
  SubnormalSeen(const SubnormalSeen&) = delete;
  SubnormalSeen& operator=(const SubnormalSeen&) = delete;
  // Answers whether there was one since it was asked last.
  bool Take() {
    const unsigned noted = _mm_getcsr();
    if ((noted & kDenormal) == 0) return false;
    _mm_setcsr(noted & ~kDenormal);
    return true;
  }

 private:
  static constexpr unsigned kDenormal = 2;
  const bool before_;
};

// Elements summed at once. What they overwrite is kept, and takes of the first level cache what
// sources that lie alike compete for.
constexpr size_t kRun = 2048;
constexpr size_t kKeptBytes = kRun * RoundedFormat::kBytes;
constexpr size_t kPage = 4096;
// Where there was something unusual is more of it: so many runs are left to the other kernel then.
constexpr size_t kRunsLeft = 7;

// Where in `room` to keep what a run at `out` overwrites. A processor takes a load for one of what
// was just stored if both lie alike in their pages, and waits; so this lies a little before what is
// loaded.
uint8_t* KeptIn(uint8_t* room, const uint8_t* out) {
  constexpr size_t kBefore = 512;
  const size_t wanted = reinterpret_cast<uintptr_t>(out) - kBefore;
  return room + (wanted - reinterpret_cast<uintptr_t>(room)) % kPage;
}

// Sums [from, to) as Avx512Kernels do; `kept` is what `out` held there, or null if it still does.
void Repeat(const Sum& sum, size_t from, size_t to, const uint8_t* kept) {
  Source sources[kMaxSummed];
  uint8_t* out = sum.out + from * RoundedFormat::kBytes;
  for (size_t s = 0; s < sum.count; ++s) {
    const uint8_t* data = sum.in[s] + from * RoundedFormat::kBytes;
    sources[s] = {.data = kept != nullptr && data == out ? kept : data,
                  .format = Dtype::kBF16,
                  .weight = 1.0};
  }
  const Finish finish{.divisor = 1.0, .scale = sum.scale};
  Avx512Kernels().kernel[kBF16][kSum][kFinal](sources, sum.count, finish, out, to - from);
}

void SumOrRepeat(const Source* sources, size_t source_count, const Finish& finish, void* dst,
                 size_t count) {
  Sum sum;
  if (!MakeSum<RoundedFormat>(sources, source_count, finish, dst, &sum)) {
    Avx512Kernels().kernel[kBF16][kSum][kFinal](sources, source_count, finish, dst, count);
    return;
  }
  uint8_t room[kKeptBytes + kPage];
  uint8_t* kept = nullptr;
  for (size_t s = 0; s < source_count; ++s) {
    if (sum.in[s] == sum.out) kept = KeptIn(room, sum.out);
  }
  SubnormalSeen subnormal;
  size_t left = 0;
  for (size_t from = 0; from < count; from += kRun) {
    const size_t to = count - from < kRun ? count : from + kRun;
    if (left > 0) {
      --left;
      Repeat(sum, from, to, nullptr);
      continue;
    }
    const bool nan = SumRun<RoundedFormat>(sum, from, to, kept);
    if (!subnormal.Take() && !nan) continue;
    Repeat(sum, from, to, kept);
    left = kRunsLeft;
  }
}

KernelTable MakeRoundedTable() {
  KernelTable table = Avx512Kernels();
  table.kernel[kBF16][kSum][kFinal] = SumOrRepeat;
  return table;
}

}  // namespace

const KernelTable& Avx512Bf16Kernels() {
  static const KernelTable kTable = MakeRoundedTable();
  return kTable;
}

}  // namespace ftar::reduce
