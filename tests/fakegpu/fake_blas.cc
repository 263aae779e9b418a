// The part of cuBLAS that ftar-perf --matmul needs, over the fake GPU: one kind of product, put
// onto a stream. Names and numbers are cuBLAS's.
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "fake_memory.h"
#include "fake_stream.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

using ftar::fakegpu::DriverLock;
using ftar::fakegpu::FakeMemory;
using ftar::fakegpu::Stream;

namespace {

constexpr int kBlasSuccess = 0, kBlasNotInitialized = 1, kBlasInvalidValue = 7;
constexpr int kBlasExecutionFailed = 13, kBlasNotSupported = 15;
constexpr int kNotTransposed = 0, kBf16 = 14, kSumsOfF32 = 68;

struct Handle {
  Stream* stream = nullptr;
};

float Widen(uint16_t bf16) { return std::bit_cast<float>(static_cast<uint32_t>(bf16) << 16); }
uint16_t Narrow(float value) {
  return static_cast<uint16_t>((std::bit_cast<uint32_t>(value) + 0x8000) >> 16);
}

// Column after column, as Fortran has them.
void Multiply(int n, const uint16_t* a, const uint16_t* b, uint16_t* c) {
  std::vector<float> sums(static_cast<size_t>(n));
  for (int column = 0; column < n; ++column) {
    sums.assign(static_cast<size_t>(n), 0);
    for (int k = 0; k < n; ++k) {
      const float factor = Widen(b[column * n + k]);
      for (int row = 0; row < n; ++row) sums[row] += Widen(a[k * n + row]) * factor;
    }
    for (int row = 0; row < n; ++row) c[column * n + row] = Narrow(sums[row]);
  }
}

uint16_t* Reach(const void* matrix) {
  return static_cast<uint16_t*>(FakeMemory::Get().Reach(matrix));
}

}  // namespace

// FAKEGPU_BLAS=off: as on a machine whose cuBLAS does not go with its driver.
EXPORT int cublasCreate_v2(void** out) {
  if (std::getenv("FAKEGPU_BLAS") != nullptr) return kBlasNotInitialized;
  return *out = new Handle, kBlasSuccess;
}
EXPORT int cublasDestroy_v2(void* handle) {
  return delete static_cast<Handle*>(handle), kBlasSuccess;
}
EXPORT int cublasSetStream_v2(void* handle, void* stream) {
  return static_cast<Handle*>(handle)->stream = static_cast<Stream*>(stream), kBlasSuccess;
}

// Squares, one times a times b, and nothing added.
EXPORT int cublasGemmEx(void* handle, int a_op, int b_op, int m, int n, int k, const void* alpha,
                        const void* a, int a_type, int a_lead, const void* b, int b_type,
                        int b_lead, const void* beta, void* c, int c_type, int c_lead, int sums,
                        int /*algorithm*/) {
  Stream* const stream = static_cast<Handle*>(handle)->stream;
  if (stream == nullptr) return kBlasNotInitialized;
  const bool squares = m == n && n == k && n > 0 && a_lead == n && b_lead == n && c_lead == n;
  const bool plain = a_op == kNotTransposed && b_op == kNotTransposed &&
                     *static_cast<const float*>(alpha) == 1 &&
                     *static_cast<const float*>(beta) == 0;
  const bool types = a_type == kBf16 && b_type == kBf16 && c_type == kBf16 && sums == kSumsOfF32;
  if (!squares || !plain || !types) return kBlasNotSupported;
  if (Reach(a) == nullptr || Reach(b) == nullptr || Reach(c) == nullptr) return kBlasInvalidValue;
  // A launch, like any other.
  const std::lock_guard<std::mutex> lock(DriverLock());
  const bool put = stream->Put([=] { Multiply(n, Reach(a), Reach(b), Reach(c)); });
  return put ? kBlasSuccess : kBlasExecutionFailed;
}
