// Real processes for tests: starting, listening to, stopping and burying them. Every wait has a
// deadline; whatever a test leaves behind is killed by the destructors. One thread.
#ifndef FTAR_TESTS_PROCESS_HARNESS_H_
#define FTAR_TESTS_PROCESS_HARNESS_H_

#include <sys/types.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace process {

using Variables = std::map<std::string, std::string>;

// A child with its standard input and output at pipes. Standard error goes to a file that Errors()
// reads.
class Process {
 public:
  // `variables` are added to this process's environment, from which all FTAR_* are taken away.
  Process(const std::string& program, const std::vector<std::string>& arguments,
          const Variables& variables);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  // Reads until a line that begins with `prefix`; false if the output ends or the time is over
  // before.
  bool WaitLine(const std::string& prefix, double seconds);
  // Reads to the end of the output and waits; the exit status, 128 + signal, or -1 if the time is
  // over.
  int WaitExit(double seconds);
  // Reads what is there without waiting.
  void Collect();
  void Signal(int signal) const;
  void CloseInput();
  bool Stopped() const;  // by SIGSTOP, now

  const std::vector<std::string>& lines() const { return lines_; }
  std::vector<std::string> LinesWith(const std::string& prefix) const;
  std::string Errors() const;
  std::string Output() const;

 private:
  bool ReadSome(double seconds);

  pid_t pid_ = -1;
  int in_ = -1, out_ = -1, error_ = -1;
  std::string partial_;
  std::vector<std::string> lines_;
  bool ended_ = false;
  std::optional<int> status_;
};

// "name=value" fields of a line; `text=` takes the rest.
std::string Field(const std::string& line, const std::string& name);

// ftar-coordinator on a port of 127.0.0.1; with --relay-to among its arguments a relay.
class Coordinator {
 public:
  explicit Coordinator(const Variables& variables = {}, const std::string& address = "127.0.0.1:0",
                       const std::vector<std::string>& more_arguments = {});
  const std::string& address() const { return address_; }
  Process& process() { return *process_; }

 private:
  std::unique_ptr<Process> process_;
  std::string address_;
};

// So many addresses of 127.0.0.1 that nobody listens at, joined by commas: where the first members
// of a job listen in which any member may coordinate.
std::string FreeAddresses(int count);

// A group of workers, replica i each.
class Team {
 public:
  Team(const std::string& coordinator, int replicas, const Variables& variables,
       const std::vector<std::string>& arguments);
  // Starts one member; `extra` variables are its own.
  Process& Start(int replica, const Variables& extra = {});
  Process& StartWith(int replica, const Variables& extra,
                     const std::vector<std::string>& arguments);
  Process& member(int replica) { return *members_.at(replica); }
  bool WaitReady(double seconds);
  // For failure messages: what everybody has said so far.
  std::string Story();

 private:
  std::string coordinator_;
  int replicas_;
  Variables variables_;
  std::vector<std::string> arguments_;
  std::map<int, std::unique_ptr<Process>> members_;
};

double NowSeconds();
void SleepMs(int milliseconds);

// Paths of what the build made, given by the test's environment or found beside the test program.
std::string WorkerPath();
std::string CoordinatorPath();
std::string WeatherPath();  // weather.cc, to be preloaded

}  // namespace process

#endif  // FTAR_TESTS_PROCESS_HARNESS_H_
