#include "tests/fakegpu/fake_runtime.h"
#include "tests/process/worker.h"

namespace worker {
namespace {

constexpr int kAnyWay = 4;  // cudaMemcpyDefault

void* Allocate(ftarJob_t job, size_t bytes, bool library) {
  void* memory = nullptr;
  if (library) {
    ftarMemDesc desc = FTAR_MEM_DESC_INIT;
    desc.kind = FTAR_MEM_CUDA;
    ftar::Status(ftarMemAlloc(job, bytes, &desc, &memory)).OrThrow();
  } else {
    cudaMalloc(&memory, bytes);
  }
  return memory;
}

}  // namespace

size_t OnGpu::BlocksOfOthers() { return fakeGpuImports(); }

OnGpu OnGpu::Make(ftarJob_t job, size_t bytes, bool library) {
  OnGpu out;
  out.bytes = bytes;
  out.send = Allocate(job, bytes, library);
  out.recv = Allocate(job, bytes, library);
  cudaStreamCreateWithFlags(&out.stream, 1);
  return out;
}

void OnGpu::Put(const float* from_send, const float* from_recv) const {
  cudaMemcpyAsync(send, from_send, bytes, kAnyWay, stream);
  cudaMemcpyAsync(recv, from_recv, bytes, kAnyWay, stream);
  cudaStreamSynchronize(stream);
}

bool OnGpu::Get(float* to_send, float* to_recv) const {
  cudaMemcpyAsync(to_send, send, bytes, kAnyWay, stream);
  cudaMemcpyAsync(to_recv, recv, bytes, kAnyWay, stream);
  return cudaStreamSynchronize(stream) == 0;
}

void OnGpu::Fail(bool hang) { hang ? fakeGpuHang() : fakeGpuBreak(); }

void OnGpu::GoOn() { fakeGpuHealIfHung(); }

std::string OnGpu::Try() const {
  if (cudaStreamSynchronize(stream) != 0) return "released";
  float value = 7, back = 0;
  cudaMemcpyAsync(send, &value, sizeof value, kAnyWay, stream);
  cudaMemcpyAsync(&back, send, sizeof back, kAnyWay, stream);
  const bool done = cudaStreamSynchronize(stream) == 0 && back == value;
  return done ? "usable" : "unusable";
}

}  // namespace worker
