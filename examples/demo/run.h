// One run of the demo: the processes, the strikes from outside, and what each replica wrote about
// each step.
//
// Purpose: Play() carries the run out; report.h judges it afterwards. Threads: one. Ownership: a
// Run owns its children and ends them with itself; pointers to processes stay valid as long as it.
#ifndef FTAR_EXAMPLES_DEMO_RUN_H_
#define FTAR_EXAMPLES_DEMO_RUN_H_

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace demo {

using Json = nlohmann::json;

constexpr int kReplicas = 4, kKilled = 1, kStopped = 2, kLeaver = 0;
constexpr int64_t kMillisecond = 1'000'000, kSecond = 1'000 * kMillisecond;

inline double Ms(int64_t ns) { return static_cast<double>(ns) / kMillisecond; }
__attribute__((format(printf, 1, 2))) std::string Format(const char* format, ...);

// The demo cannot go on: a child died that should not, or something took too long.
class Failure : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Process {
  std::string name;
  int replica = -1;  // -1: the coordinator
  char mark = '#';   // in the strip of participants
  pid_t pid = -1;
  int out = -1;
  std::string pending;  // an unfinished line
  FILE* log = nullptr;
  bool may_end = false;  // its end is no surprise
  int wait_status = -1;  // -1: it runs
  int64_t start_ns = 0, end_ns = 0;
  long long reducing = -1;  // the step in whose allreduce it is; -1: between two
  size_t started = 0;       // buckets of that step that are on their way, of
  size_t buckets = 0;       // so many
  long long first_step = -1, last_step = -1;
  std::vector<Json> lines;  // all but "step" and "allreduce"

  bool running() const { return wait_status < 0; }
  bool exited_with(int code) const {
    return !running() && WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == code;
  }
  const Json* Find(const std::string& event) const {
    for (const Json& line : lines) {
      if (line["event"] == event) return &line;
    }
    return nullptr;
  }
};

// What one replica wrote about one step.
struct Seen {
  const Process* process;
  int64_t read_ns;
  double loss;
  std::string hash;
  std::vector<std::array<int64_t, 3>> buckets;  // participants, attempts, when delivered
  std::vector<int> who;
};

struct Strike {
  std::string what;
  const Process* victim = nullptr;
  int64_t at_ns = 0;
  long long step = -1;
};

using Environment = std::map<std::string, std::string>;

// Everything that happened: the processes, the strikes, and what each replica wrote about each
// step.
class Run {
 public:
  Run(std::string logs, int64_t timeout_ns);
  ~Run();
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  void Play();  // throws Failure

  const std::vector<std::unique_ptr<Process>>& trainers() const { return trainers_; }
  const std::map<long long, std::vector<Seen>>& steps() const { return steps_; }
  const std::vector<Strike>& strikes() const { return strikes_; }
  const std::vector<std::string>& problems() const { return problems_; }
  const std::string& logs() const { return logs_; }
  int64_t timeout_ns() const { return timeout_ns_; }
  double Seconds(int64_t ns) const { return Ms(ns - begin_ns_) / 1000; }

 private:
  void StartCoordinator();
  Process* StartTrainer(int replica, char mark);
  Process* Open(const std::string& name, const std::string& program,
                const std::vector<std::string>& arguments, const Environment& environment);
  void Await(const std::string& what, const std::function<bool()>& done);
  void TrainOn(const std::string& what);
  bool KillAmidBuckets(Process* victim);
  void Struck(const std::string& what, const Process* victim, long long step);

  void Pump(int wait_ms);
  void Read(Process* process);
  void Take(Process* process, const std::string& text);
  void TakeStep(Process* process, const Json& line);
  void Reap();
  void Progress();

  const std::string logs_;
  const int64_t timeout_ns_, begin_ns_;
  Environment environment_;
  std::unique_ptr<Process> coordinator_;
  std::vector<std::unique_ptr<Process>> trainers_;
  std::map<long long, std::vector<Seen>> steps_;
  std::vector<Strike> strikes_;
  std::vector<std::string> problems_;
  int64_t said_ns_ = 0;
};

}  // namespace demo

#endif  // FTAR_EXAMPLES_DEMO_RUN_H_
