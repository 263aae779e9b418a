// CUDA's runtime as ftar-perf needs it: memory, streams, graphs. Found when it is asked for, so
// that ftar-perf links nothing of CUDA.
//
// Purpose: --memory device. Copies are waited for; everything else is put onto streams.
// Threads: single-threaded.  Ownership: owns its streams; the library stays loaded for good, since
// the GPU may still be at work when the process ends.
#ifndef FTAR_PERF_CUDA_H_
#define FTAR_PERF_CUDA_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace ftar::perf {

class Cuda {
 public:
  // `library`: a path; empty: libcudart.so by its names and places. Null, and why not, where there
  // is no such library or no GPU.
  static std::unique_ptr<Cuda> Open(const std::string& library, int streams, std::string* why);
  // Empty if Open would work here; takes no memory of a GPU.
  static std::string Missing(const std::string& library);
  ~Cuda();
  Cuda(const Cuda&) = delete;
  Cuda& operator=(const Cuda&) = delete;

  // Each answers whether CUDA has done it; error() says why not.
  bool Allocate(uint64_t bytes, void** out);
  bool AllocatePinned(uint64_t bytes, void** out);
  void Free(void* memory);
  void FreePinned(void* memory);
  bool Fill(void* memory, int byte, uint64_t bytes);
  bool Zero(void* memory, uint64_t bytes) { return Fill(memory, 0, bytes); }
  // Between the GPU's memory and any other.
  bool Copy(void* to, const void* from, uint64_t bytes);

  // The stream of the operation at this place of the window.
  void* stream(uint64_t place) const { return streams_[place % streams_.size()]; }
  // All that is on the streams is done.
  bool Synchronize();
  // Events: what is on the stream until now; recorded again, it means the last time.
  bool MakeEvent(void** out);
  void DropEvent(void* event);
  bool Record(void* event, uint64_t place);
  bool AwaitEvent(void* event);
  // What is put onto the first stream becomes a graph.
  bool BeginCapture();
  bool EndCapture();  // replaces the last graph
  bool Launch();      // onto the first stream
  void DropGraph();
  const std::string& error() const { return error_; }

 private:
  struct Calls;
  explicit Cuda(const Calls* calls) : calls_(calls) {}
  static const Calls* Load(const std::string& library, std::string* why);
  bool Good(int result, const char* what);
  bool MakeStream(void** out);

  const Calls* calls_;  // never unloaded
  std::vector<void*> streams_;
  void* copies_ = nullptr;  // a stream
  void* graph_ = nullptr;
  std::string error_;
};

}  // namespace ftar::perf

#endif  // FTAR_PERF_CUDA_H_
