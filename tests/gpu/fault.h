// What the parts of ftar-gpu-fault share: expectations, memory of the device, a clock.
//
// One thread a process.
#ifndef FTAR_TESTS_GPU_FAULT_H_
#define FTAR_TESTS_GPU_FAULT_H_

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "device/executor.h"
#include "device/load.h"
#include "kernels/device.h"

namespace ftar::device {

extern int failures;
void Expect(bool good, const std::string& what);
void ExpectOk(const Status& status, const std::string& what);
void ExpectCuda(int error, const std::string& what);  // a cudaError_t

TimeNs Now();
// 0.5: the median.
double Quantile(std::vector<double> values, double q);
// "bar NAME  value (goal ...): MET", for scripts/gpu-check's table.
void Bar(const std::string& name, double value, const std::string& unit, double goal);

// The library beside this program, as libftar.so would find it.
Expected<std::unique_ptr<Gpu>> OpenThisGpu();
// For an executor that a test's own Gpu outlives.
inline std::shared_ptr<Gpu> Unowned(Gpu* gpu) { return {std::shared_ptr<Gpu>(), gpu}; }

// Device memory for as long as the object lives; copies wait for the device.
class Memory {
 public:
  explicit Memory(size_t bytes);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  unsigned char* data() const { return static_cast<unsigned char*>(data_); }
  void Write(const std::vector<unsigned char>& bytes);
  std::vector<unsigned char> Read() const;

 private:
  size_t bytes_;
  mutable kernels::DeviceSpace space_{reduce::MemoryKind::kDevice};
  void* data_ = nullptr;
};

std::vector<unsigned char> RandomBytes(size_t bytes, uint64_t seed);
kernels::Plan Copy(const void* from, void* to, size_t bytes);
// Until all that was submitted is done; false after ten seconds, or a failure.
bool Drain(Executor* executor);

// ---- the parts
void TestBits(Gpu* gpu, uint64_t seed);
void TestHandshake(Gpu* gpu);
void TestLaunches(Gpu* gpu);
void TestAborts(Gpu* gpu, uint64_t seed, int times);
void TestGates(Gpu* gpu, int times);
// What a launch of ours waits for while a user's stream waits for us.
void TestBesideClosedGate(Gpu* gpu);
// Which of a user's streams keep a launch of ours waiting while they wait themselves, and how many
// may wait at once.
void TestQueues(Gpu* gpu);

// Processes that share memory, and are killed. A controller without CUDA, and its children.
int RunKills(int times);
int RunChild(const std::string& role);

}  // namespace ftar::device

#endif  // FTAR_TESTS_GPU_FAULT_H_
