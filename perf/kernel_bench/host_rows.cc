#include <algorithm>
#include <chrono>
#include <cstring>
#include <random>

#include "base/copy.h"
#include "perf/kernel_bench/bench.h"
#include "reduce/isa.h"
#include "reduce/reduce.h"

namespace ftar::kernel_bench {
namespace {

using Clock = std::chrono::steady_clock;
using reduce::Dtype;
using reduce::Redop;

struct HostType {
  const char* name;
  Dtype dtype;
};
constexpr HostType kHostTypes[] = {{"f32", Dtype::kF32},       {"f64", Dtype::kF64},
                                   {"bf16", Dtype::kBF16},     {"f16", Dtype::kF16},
                                   {"f8e4m3", Dtype::kF8E4M3}, {"i32", Dtype::kI32}};

// Microseconds of each of the repeats of `run`, which is called often enough to last.
std::vector<double> Time(const Plan& plan, const std::function<void()>& run) {
  run();
  std::vector<double> us;
  for (int repeat = 0; repeat < (plan.quick ? 3 : 9); ++repeat) {
    const auto start = Clock::now();
    int times = 0;
    double spent = 0;
    do {
      run();
      ++times;
      spent = std::chrono::duration<double, std::micro>(Clock::now() - start).count();
    } while (spent < (plan.quick ? 2000 : 10000));
    us.push_back(spent / times);
  }
  return us;
}

// Numbers near 1: sums of them stay finite, and no value is slower than another.
std::vector<std::vector<unsigned char>> RandomVectors(Dtype dtype, size_t vectors, size_t bytes) {
  std::mt19937_64 random(1);
  const float one = 1.0f;
  const reduce::Source source{.data = &one, .format = Dtype::kF32, .weight = 1.0};
  std::vector<std::vector<unsigned char>> all(vectors, std::vector<unsigned char>(bytes));
  std::vector<unsigned char> pattern(8, 0);
  if (dtype < Dtype::kI8 && dtype != Dtype::kF64) {
    reduce::ReduceToFinal(dtype, Redop::kSum, {&source, 1}, 1, 1, pattern.data(), 1);
  }
  const size_t element = reduce::ElementBytes(dtype);
  for (auto& vector : all) {
    for (size_t i = 0; i + element <= bytes; i += element) {
      std::memcpy(&vector[i], pattern.data(), element);
      vector[i] = static_cast<unsigned char>(random());
    }
  }
  return all;
}

}  // namespace

void SetTimes(std::vector<double> us, Row* row) {
  std::sort(us.begin(), us.end());
  if (us.empty()) return;
  row->us = us[us.size() / 2];
  row->us_low = us.front();
  row->us_high = us.back();
}

void SetRates(uint64_t touched_bytes, Row* row) {
  if (row->us <= 0) return;
  row->touched_gbs = static_cast<double>(touched_bytes) / row->us / 1e3;
  row->result_gbs = static_cast<double>(row->bytes) / row->us / 1e3;
}

void HostRows(const Plan& plan, const Report& report) {
  const auto end = Clock::now() + std::chrono::duration<double>(plan.seconds);
  const std::string isa(reduce::IsaName());
  for (const auto& [cache, bytes] : {std::pair<const char*, size_t>{"in", 256 << 10},
                                     std::pair<const char*, size_t>{"out", 64 << 20}}) {
    if (plan.quick && bytes > (1 << 20)) continue;
    Row copy{.where = "host " + isa,
             .kernel = "copy",
             .type = "bytes",
             .sources = 1,
             .destinations = 1,
             .cache = cache,
             .bytes = bytes};
    auto buffers = RandomVectors(Dtype::kU8, 2, bytes);
    SetTimes(Time(plan,
                  [&] {
                    ftar::Copy(buffers[1].data(), buffers[0].data(), bytes,
                               ftar::CopyMode::kCached);
                  }),
             &copy);
    SetRates(2 * bytes, &copy);
    copy.of_copy = 1;
    report(copy);
    for (const HostType& type : kHostTypes) {
      for (int sources : {2, 4, 8, 16}) {
        if (Clock::now() > end) return;
        auto in = RandomVectors(type.dtype, static_cast<size_t>(sources) + 1, bytes);
        std::vector<reduce::Source> list;
        for (int s = 0; s < sources; ++s) {
          list.push_back(
              {.data = in[static_cast<size_t>(s)].data(), .format = type.dtype, .weight = 1.0});
        }
        Row row{.where = copy.where,
                .kernel = "sum",
                .type = type.name,
                .sources = sources,
                .destinations = 1,
                .cache = cache,
                .bytes = bytes};
        SetTimes(Time(plan,
                      [&] {
                        reduce::ReduceToFinal(type.dtype, Redop::kSum, list, 1, 1, in.back().data(),
                                              bytes / reduce::ElementBytes(type.dtype));
                      }),
                 &row);
        SetRates(static_cast<uint64_t>(sources + 1) * bytes, &row);
        row.of_copy = row.touched_gbs / copy.touched_gbs;
        report(row);
      }
    }
  }
}

}  // namespace ftar::kernel_bench
