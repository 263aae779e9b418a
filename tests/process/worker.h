// What the worker's files share. The worker is one process with one thread of its own.
#ifndef FTAR_TESTS_PROCESS_WORKER_H_
#define FTAR_TESTS_PROCESS_WORKER_H_

#include <cstdint>
#include <map>
#include <string>

#include "ftar/ftar.hpp"

namespace worker {

class Arguments {
 public:
  Arguments(int argc, char** argv);
  std::string Text(const std::string& name, const std::string& otherwise) const;
  int64_t Number(const std::string& name, int64_t otherwise) const;

 private:
  std::map<std::string, std::string> values_;
};

// One line on standard output, written at once.
void Say(const std::string& line);
// "end WHAT status=.. argument=.. text=.." from this thread's last error.
void SayError(const std::string& what, ftarResult_t code);

// What a member puts into element i of an operation.
float Input(int32_t replica, uint64_t seq, size_t i);

// worker_gpu.cc: a pair of buffers in the GPU's memory, and the stream that they are used on. What
// copies waits until the stream has done it. Lives as long as the process.
struct OnGpu {
  // What of other members' memory this process has mapped.
  static size_t BlocksOfOthers();
  static OnGpu Make(ftarJob_t job, size_t bytes, bool library);
  void Put(const float* from_send, const float* from_recv) const;
  bool Get(float* to_send, float* to_recv) const;  // false: the GPU is broken
  // "usable": what is on the stream ends, and what is put onto it now is done; "released": the
  // first, on a GPU that is broken for good.
  std::string Try() const;
  // Breaks the GPU for good, or lets it hang until GoOn.
  static void Fail(bool hang);
  static void GoOn();

  void* send = nullptr;
  void* recv = nullptr;
  void* stream = nullptr;
  size_t bytes = 0;
};

// scenarios.cc: bad input and bad weather, each prints its findings and returns the exit status.
int RunScenario(const std::string& name, const Arguments& arguments);

}  // namespace worker

#endif  // FTAR_TESTS_PROCESS_WORKER_H_
