// A matrix product that runs beside the collectives, again and again, as a model's would: what one
// costs the other is what a collective on a GPU really costs.
//
// Purpose: --matmul. Squares of bf16 with sums of f32, by cuBLAS, which is found when it is asked
// for; on a stream of its own, at the stream's default priority.
// Threads: single-threaded, but for the thread between Begin and End, which is its own.
// Ownership: owns its streams and matrices; cuBLAS stays loaded for good.
#ifndef FTAR_PERF_MATMUL_H_
#define FTAR_PERF_MATMUL_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "perf/cuda.h"

namespace ftar::perf {

class Matmul {
 public:
  // Of `n` rows and columns. `cublas`: a path; empty: libcublas.so by its names and places. Null,
  // and why not, where there is none or its products are wrong. The first product is done.
  static std::unique_ptr<Matmul> Open(const std::string& cublas, const std::string& cuda_runtime,
                                      int n, std::string* why);
  // Empty if there is such a library here.
  static std::string Missing(const std::string& cublas);
  ~Matmul();
  Matmul(const Matmul&) = delete;
  Matmul& operator=(const Matmul&) = delete;

  // Products one after the other from now on, until End, which answers the time of one in
  // nanoseconds; 0: too few ended meanwhile, or one failed.
  void Begin();
  int64_t End();
  // For as long as it takes to know the time of one.
  int64_t Measure();
  const std::string& error() const { return error_; }

 private:
  struct Calls;
  static const Calls* Load(const std::string& library, std::string* why);
  explicit Matmul(const Calls* calls, int n) : calls_(calls), n_(n) {}
  bool Start(const std::string& cuda_runtime);
  bool Put();
  bool IsRight();
  void Main();

  const Calls* calls_;
  const int n_;
  std::unique_ptr<Cuda> cuda_;
  void* handle_ = nullptr;
  void* matrices_[3] = {};     // a, b and their product
  std::vector<void*> events_;  // behind the products under way, in turn
  std::string error_;

  std::thread thread_;
  std::atomic<bool> stop_{false};
  std::atomic<uint64_t> ended_{0};  // products since Begin
  int64_t first_ns_ = 0, last_ns_ = 0;
};

}  // namespace ftar::perf

#endif  // FTAR_PERF_MATMUL_H_
