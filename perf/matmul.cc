#include "perf/matmul.h"

#include <dlfcn.h>

#include <cmath>
#include <cstring>
#include <mutex>

#include "fmt/format.h"
#include "perf/clock.h"
#include "perf/library.h"

namespace ftar::perf {
namespace {

// Of cuBLAS's and CUDA's headers.
constexpr int kNotTransposed = 0;        // CUBLAS_OP_N
constexpr int kBf16 = 14;                // CUDA_R_16BF
constexpr int kSumsOfF32 = 68;           // CUBLAS_COMPUTE_32F
constexpr int kDefaultAlgorithm = -1;    // CUBLAS_GEMM_DEFAULT
constexpr size_t kUnderWay = 4;          // enough that the GPU never waits for this thread
constexpr uint64_t kProductsLeast = 20;  // of what is measured alone
constexpr int64_t kTimeLeastNs = 100'000'000, kTimeMostNs = 5'000'000'000;

// Every byte of the factors; an element is then 0.746.
constexpr int kByte = 0x3f;
constexpr size_t kElementBytes = 2;

float Widen(uint16_t bf16) {
  const uint32_t bits = static_cast<uint32_t>(bf16) << 16;
  float value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

}  // namespace

// Results are cublasStatus_t, 0 is success.
struct Matmul::Calls {
  int (*create)(void**) = nullptr;
  int (*destroy)(void*) = nullptr;
  int (*set_stream)(void*, void*) = nullptr;
  int (*gemm)(void*, int, int, int, int, int, const void*, const void*, int, int, const void*, int,
              int, const void*, void*, int, int, int, int) = nullptr;
};

const Matmul::Calls* Matmul::Load(const std::string& library, std::string* why) {
  static std::mutex mutex;  // ranks may be threads
  static Calls calls;
  static bool loaded = false;  // one library a process
  const std::lock_guard<std::mutex> lock(mutex);
  if (loaded) return &calls;
  void* const handle = OpenLibrary(library, "libcublas.so", {"13", "12", "11"}, "--cublas", why);
  if (handle == nullptr) return nullptr;
  const auto find = [&](auto* call, const char* name) {
    *reinterpret_cast<void**>(call) = dlsym(handle, name);
    if (*call == nullptr) *why = fmt::format("libcublas.so has no {}", name);
    return *call != nullptr;
  };
  loaded = find(&calls.create, "cublasCreate_v2") && find(&calls.destroy, "cublasDestroy_v2") &&
           find(&calls.set_stream, "cublasSetStream_v2") && find(&calls.gemm, "cublasGemmEx");
  return loaded ? &calls : nullptr;
}

std::string Matmul::Missing(const std::string& cublas) {
  std::string why;
  return Load(cublas, &why) == nullptr ? "--matmul: " + why : "";
}

std::unique_ptr<Matmul> Matmul::Open(const std::string& cublas, const std::string& cuda_runtime,
                                     int n, std::string* why) {
  const Calls* calls = Load(cublas, why);
  if (calls == nullptr) return nullptr;
  std::unique_ptr<Matmul> matmul(new Matmul(calls, n));
  if (matmul->Start(cuda_runtime)) return matmul;
  *why = matmul->error_;
  return nullptr;
}

bool Matmul::Start(const std::string& cuda_runtime) {
  cuda_ = Cuda::Open(cuda_runtime, 1, &error_);
  if (cuda_ == nullptr) return false;
  const uint64_t bytes = static_cast<uint64_t>(n_) * static_cast<uint64_t>(n_) * kElementBytes;
  bool good = true;
  for (void*& matrix : matrices_) {
    good = good && cuda_->Allocate(bytes, &matrix) &&
           cuda_->Fill(matrix, &matrix == &matrices_[2] ? 0 : kByte, bytes);
  }
  events_.resize(kUnderWay, nullptr);
  for (void*& event : events_) good = good && cuda_->MakeEvent(&event);
  if (!good) return error_ = cuda_->error(), false;
  if (calls_->create(&handle_) != 0 || calls_->set_stream(handle_, cuda_->stream(0)) != 0)
    return error_ = "cuBLAS does not start", false;
  // The first one loads what the others only run.
  if (!Put() || !cuda_->Synchronize()) return error_ = "cuBLAS: " + cuda_->error(), false;
  return IsRight();
}

bool Matmul::IsRight() {
  const uint64_t last = static_cast<uint64_t>(n_) * static_cast<uint64_t>(n_) - 1;
  uint16_t seen[2] = {};
  for (int i = 0; i < 2; ++i) {
    const char* from = static_cast<const char*>(matrices_[2]) + (i == 0 ? 0 : last * kElementBytes);
    if (!cuda_->Copy(&seen[i], from, kElementBytes)) return error_ = cuda_->error(), false;
  }
  const float factor = Widen(static_cast<uint16_t>(kByte << 8 | kByte));
  const float wanted = static_cast<float>(n_) * factor * factor;
  for (const uint16_t element : seen) {
    if (std::fabs(Widen(element) - wanted) <= wanted / 100) continue;
    return error_ =
               fmt::format("cuBLAS: a product has {} where {} belongs", Widen(element), wanted),
           false;
  }
  return true;
}

Matmul::~Matmul() {
  if (thread_.joinable()) End();
  if (cuda_ == nullptr) return;
  if (handle_ != nullptr) calls_->destroy(handle_);
  for (void* event : events_) {
    if (event != nullptr) cuda_->DropEvent(event);
  }
  for (void* matrix : matrices_) {
    if (matrix != nullptr) cuda_->Free(matrix);
  }
}

bool Matmul::Put() {
  const float one = 1, zero = 0;
  return calls_->gemm(handle_, kNotTransposed, kNotTransposed, n_, n_, n_, &one, matrices_[0],
                      kBf16, n_, matrices_[1], kBf16, n_, &zero, matrices_[2], kBf16, n_,
                      kSumsOfF32, kDefaultAlgorithm) == 0;
}

void Matmul::Begin() {
  stop_ = false;
  ended_ = 0;
  thread_ = std::thread([this] { Main(); });
}

void Matmul::Main() {
  uint64_t put = 0;
  bool good = true;
  while (!stop_.load(std::memory_order_relaxed)) {
    good = Put() && cuda_->Record(events_[put % kUnderWay], 0);
    if (!good) break;
    if (++put < kUnderWay) continue;
    good = cuda_->AwaitEvent(events_[put % kUnderWay]);
    if (!good || stop_.load(std::memory_order_relaxed)) break;
    last_ns_ = NowNs();
    if (ended_.load(std::memory_order_relaxed) == 0) first_ns_ = last_ns_;
    ended_.fetch_add(1, std::memory_order_relaxed);
  }
  if (!cuda_->Synchronize()) good = false;
  if (!good) ended_ = 0;
}

int64_t Matmul::End() {
  stop_ = true;
  thread_.join();
  const uint64_t ended = ended_.load();
  return ended < 2 ? 0 : (last_ns_ - first_ns_) / static_cast<int64_t>(ended - 1);
}

int64_t Matmul::Measure() {
  const int64_t begin_ns = NowNs();
  Begin();
  const auto enough = [&] {
    const int64_t passed_ns = NowNs() - begin_ns;
    return (passed_ns > kTimeLeastNs && ended_.load() > kProductsLeast) || passed_ns > kTimeMostNs;
  };
  while (!enough()) SleepNs(1'000'000);
  return End();
}

}  // namespace ftar::perf
