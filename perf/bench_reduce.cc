// How fast the host reduction is, beside loops written by hand for this processor.
//
// Every line's bytes_per_second counts one vector (count x element size), as if all sources were
// one; the first source is the destination, as in the engine. Names read
// Reduce/<isa>/<type>/<operator>/<sources>/<bytes>; the reference lines are
// Hand/<isa>/<type>/sum/<sources>/<bytes>, of f32 and f16. Sizes: 16 KiB (level 1), 256 KiB (level
// 2), 4 MiB (level 3), 64 MiB (memory).
#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "base/copy.h"
#include "base/crc32c.h"
#include "reduce/isa.h"
#include "reduce/reduce.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace {

using ftar::reduce::Dtype;
using ftar::reduce::Redop;
using ftar::reduce::Source;

constexpr size_t kAlignment = 4096;

struct Free {
  void operator()(void* p) const { std::free(p); }
};
using Buffer = std::unique_ptr<void, Free>;

// Zeros: no value is slower than another, and repeated sums in place stay what they are.
Buffer MakeBuffer(size_t bytes) {
  void* p = std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
  if (p == nullptr) std::abort();
  std::memset(p, 0, bytes);
  return Buffer(p);
}

constexpr size_t kSizes[] = {16 << 10, 256 << 10, 4 << 20, 64 << 20};
constexpr size_t kMostSources = 8;

constexpr size_t kLargest = kSizes[std::size(kSizes) - 1];

// Buffer number `i` of the largest size. All reductions take turns in it, as to take that much anew
// lasts longer than what is measured.
void* SharedBuffer(size_t i) {
  static Buffer buffers[kMostSources];
  if (buffers[i] == nullptr) buffers[i] = MakeBuffer(kLargest);
  return buffers[i].get();
}

struct Inputs {
  Inputs(Dtype dtype, size_t source_count, size_t bytes) {
    for (size_t s = 0; s < source_count; ++s) {
      if (bytes < kLargest) own.push_back(MakeBuffer(bytes));
      void* data = bytes < kLargest ? own.back().get() : SharedBuffer(s);
      if (s == 0) dst = data;
      sources.push_back({.data = data, .format = dtype, .weight = 1.0});
    }
  }
  void* dst = nullptr;
  std::vector<Buffer> own;
  std::vector<Source> sources;
};

void Account(benchmark::State& state, size_t bytes) {
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * static_cast<int64_t>(bytes));
}

void BenchReduce(benchmark::State& state, std::string isa, Dtype dtype, Redop redop,
                 size_t source_count, size_t bytes) {
  if (!ftar::reduce::SetIsa(isa).ok()) return state.SkipWithError("no such instruction set here");
  const Inputs inputs(dtype, source_count, bytes);
  const size_t count = bytes / ftar::reduce::ElementBytes(dtype);
  const double divisor = static_cast<double>(source_count);
  for (auto _ : state) {
    ftar::reduce::ReduceToFinal(dtype, redop, inputs.sources, divisor, 1.0, inputs.dst, count);
    benchmark::ClobberMemory();
  }
  Account(state, bytes);
}

#if defined(__x86_64__)
// The reference: a sum of f32 with the number of sources fixed, aligned, unrolled four times,
// nothing else.
template <int sources>
[[gnu::target("avx512f"), gnu::noinline]] void HandAvx512(float* dst, const float* const* in,
                                                          size_t count) {
  for (size_t i = 0; i < count; i += 64) {
    __m512 acc[4];
#pragma GCC unroll 4
    for (size_t k = 0; k < 4; ++k) acc[k] = _mm512_load_ps(in[0] + i + 16 * k);
#pragma GCC unroll 4
    for (int s = 1; s < sources; ++s) {
#pragma GCC unroll 4
      for (size_t k = 0; k < 4; ++k)
        acc[k] = _mm512_add_ps(acc[k], _mm512_load_ps(in[s] + i + 16 * k));
    }
#pragma GCC unroll 4
    for (size_t k = 0; k < 4; ++k) _mm512_store_ps(dst + i + 16 * k, acc[k]);
  }
}

template <int sources>
[[gnu::target("avx2"), gnu::noinline]] void HandAvx2(float* dst, const float* const* in,
                                                     size_t count) {
  for (size_t i = 0; i < count; i += 32) {
    __m256 acc[4];
#pragma GCC unroll 4
    for (size_t k = 0; k < 4; ++k) acc[k] = _mm256_load_ps(in[0] + i + 8 * k);
#pragma GCC unroll 4
    for (int s = 1; s < sources; ++s) {
#pragma GCC unroll 4
      for (size_t k = 0; k < 4; ++k)
        acc[k] = _mm256_add_ps(acc[k], _mm256_load_ps(in[s] + i + 8 * k));
    }
#pragma GCC unroll 4
    for (size_t k = 0; k < 4; ++k) _mm256_store_ps(dst + i + 8 * k, acc[k]);
  }
}

#define FTAR_LOAD_F16(from) \
  _mm512_maskz_cvtph_ps(0xffff, _mm256_load_si256(reinterpret_cast<const __m256i*>(from)))

// What the conversions of F16C allow: a sum of f16 that leaves NaNs as they come, in buffers of
// `count` times the size of an f32. It adds by the units that multiply, which do not convert.
template <int sources>
[[gnu::target("avx512f"), gnu::noinline]] void HandF16Avx512(float* dst, const float* const* in,
                                                             size_t count) {
  __m512 one = _mm512_set1_ps(1.0f);
  asm("" : "+v"(one));
  for (size_t i = 0; i < count; i += 64) {
    __m512 acc[8];
#pragma GCC unroll 8
    for (size_t k = 0; k < 8; ++k) acc[k] = FTAR_LOAD_F16(in[0] + i + 8 * k);
#pragma GCC unroll 4
    for (int s = 1; s < sources; ++s) {
#pragma GCC unroll 8
      for (size_t k = 0; k < 8; ++k)
        acc[k] = _mm512_fmadd_ps(FTAR_LOAD_F16(in[s] + i + 8 * k), one, acc[k]);
    }
#pragma GCC unroll 8
    for (size_t k = 0; k < 8; ++k) {
      _mm256_store_si256(reinterpret_cast<__m256i*>(dst + i + 8 * k),
                         _mm512_maskz_cvtps_ph(0xffff, acc[k], _MM_FROUND_TO_NEAREST_INT));
    }
  }
}
#undef FTAR_LOAD_F16

using HandLoop = void (*)(float* dst, const float* const* in, size_t count);

void BenchHand(benchmark::State& state, HandLoop loop, size_t source_count, size_t bytes) {
  const Inputs inputs(Dtype::kF32, source_count, bytes);
  std::vector<const float*> in;
  for (const Source& source : inputs.sources) in.push_back(static_cast<const float*>(source.data));
  for (auto _ : state) {
    loop(static_cast<float*>(inputs.dst), in.data(), bytes / sizeof(float));
    benchmark::ClobberMemory();
  }
  Account(state, bytes);
}

void RegisterHand(const std::string& isa, size_t bytes) {
  const struct {
    const char* isa;
    const char* type;
    size_t sources;
    HandLoop loop;
  } loops[] = {{"avx512", "f32", 2, HandAvx512<2>},    {"avx512", "f32", 4, HandAvx512<4>},
               {"avx512", "f32", 8, HandAvx512<8>},    {"avx512", "f16", 2, HandF16Avx512<2>},
               {"avx512", "f16", 4, HandF16Avx512<4>}, {"avx512", "f16", 8, HandF16Avx512<8>},
               {"avx2", "f32", 2, HandAvx2<2>},        {"avx2", "f32", 4, HandAvx2<4>},
               {"avx2", "f32", 8, HandAvx2<8>}};
  for (const auto& entry : loops) {
    if (isa.substr(0, isa.find("bf16")) != entry.isa) continue;  // Sums of f32 know no bf16.
    const std::string name = "Hand/" + isa + "/" + entry.type + "/sum/" +
                             std::to_string(entry.sources) + "/" + std::to_string(bytes);
    benchmark::RegisterBenchmark(name.c_str(), BenchHand, entry.loop, entry.sources, bytes);
  }
}
#else
void RegisterHand(const std::string&, size_t) {}
#endif

void BenchCopy(benchmark::State& state, ftar::CopyMode mode, size_t bytes) {
  const Buffer from = MakeBuffer(bytes);
  const Buffer to = MakeBuffer(bytes);
  for (auto _ : state) {
    ftar::Copy(to.get(), from.get(), bytes, mode);
    benchmark::ClobberMemory();
  }
  Account(state, bytes);
}

void BenchCrc32c(benchmark::State& state, size_t bytes) {
  const Buffer from = MakeBuffer(bytes);
  for (auto _ : state) benchmark::DoNotOptimize(ftar::Crc32c(0, from.get(), bytes));
  Account(state, bytes);
}

struct NamedType {
  const char* name;
  Dtype dtype;
};
struct NamedOp {
  const char* name;
  Redop redop;
};

void RegisterReduce(const std::string& isa, const NamedType& type, const NamedOp& op,
                    size_t sources, size_t bytes) {
  const std::string name = "Reduce/" + isa + "/" + type.name + "/" + op.name + "/" +
                           std::to_string(sources) + "/" + std::to_string(bytes);
  benchmark::RegisterBenchmark(name.c_str(), BenchReduce, isa, type.dtype, op.redop, sources,
                               bytes);
}

void RegisterAll() {
  const NamedType types[] = {{"f32", Dtype::kF32},
                             {"bf16", Dtype::kBF16},
                             {"f16", Dtype::kF16},
                             {"i32", Dtype::kI32},
                             {"e4m3", Dtype::kF8E4M3}};
  for (std::string_view isa_view : ftar::reduce::AvailableIsas()) {
    const std::string isa(isa_view);
    for (size_t bytes : kSizes) {
      for (size_t sources : {size_t{2}, size_t{4}, kMostSources}) {
        for (const NamedType& type : types)
          RegisterReduce(isa, type, {"sum", Redop::kSum}, sources, bytes);
      }
      RegisterHand(isa, bytes);
    }
    for (const NamedOp& op : {NamedOp{"min", Redop::kMin}, NamedOp{"avg", Redop::kAvg},
                              NamedOp{"wavg", Redop::kWavg}}) {
      RegisterReduce(isa, types[0], op, 3, kSizes[1]);
      RegisterReduce(isa, types[1], op, 3, kSizes[1]);
    }
    RegisterReduce(isa, {"i32", Dtype::kI32}, {"avg", Redop::kAvg}, 3, kSizes[1]);
  }
  for (size_t bytes : kSizes) {
    const std::string size = std::to_string(bytes);
    benchmark::RegisterBenchmark(("Copy/cached/" + size).c_str(), BenchCopy,
                                 ftar::CopyMode::kCached, bytes);
    benchmark::RegisterBenchmark(("Copy/stream/" + size).c_str(), BenchCopy,
                                 ftar::CopyMode::kStream, bytes);
    benchmark::RegisterBenchmark(("Crc32c/" + size).c_str(), BenchCrc32c, bytes);
  }
}

}  // namespace

int main(int argc, char** argv) {
  RegisterAll();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
