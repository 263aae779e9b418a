// Starting and ending child processes, with a pipe from each.
//
// Threads: single-threaded use.  Ownership: a Child's descriptor is closed by its owner.
#ifndef FTAR_PERF_PROCESS_H_
#define FTAR_PERF_PROCESS_H_

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

namespace ftar::perf {

struct SpawnRequest {
  std::vector<std::string> arguments;  // the program first; sought in PATH
  std::vector<std::pair<std::string, std::string>> environment;  // added to this process's own
  std::vector<int> keep;  // descriptors that the child inherits
  int stdout_fd = -1;     // becomes the child's standard output; -1: shared
};

// The new process is killed when this one dies.  -1 and errno on failure.
pid_t Spawn(const SpawnRequest& request);

// A pipe of which neither end is inherited by default.
bool MakePipe(int* read_fd, int* write_fd);

// The folder of this program, where its companions lie.
std::string OwnPath();
std::string CompanionPath(const std::string& name);

// 32 random bytes in hexadecimal digits.
std::string RandomToken();

// So many addresses of 127.0.0.1 that nobody listens at, joined by commas; empty if there are none.
std::string FreeAddresses(int count);

// Collects bytes and hands out whole lines.
class LineBuffer {
 public:
  // Reads what is there; false at the end of the stream.
  bool Fill(int fd);
  bool Next(std::string* line);

 private:
  std::string text_;
  size_t begin_ = 0;
};

// A running ftar-coordinator.
class Coordinator {
 public:
  Coordinator() = default;
  ~Coordinator();
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  // Starts the program beside this one and waits for its ready line; an error's text on failure.
  std::string Start(const std::string& token, int timeout_s);
  const std::string& address() const { return address_; }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
  int fd_ = -1;
  std::string address_;
};

}  // namespace ftar::perf

#endif  // FTAR_PERF_PROCESS_H_
