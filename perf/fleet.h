// The processes of one job on this host: coordinator, ranks, and what is known of each from
// outside.
//
// Purpose: starting, reading, reaping and ending, for the launcher and for the churn alike; what is
// done to the ranks, and what their records mean, is theirs.
// Threads: single-threaded.  Ownership: owns its children and ends them all when it goes.
#ifndef FTAR_PERF_FLEET_H_
#define FTAR_PERF_FLEET_H_

#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "perf/arena.h"
#include "perf/board.h"
#include "perf/options.h"
#include "perf/process.h"
#include "perf/records.h"

namespace ftar::perf {

struct RankProcess {
  pid_t pid = -1;    // of several with --threads
  int number = -1;   // of the process: its slot on the board; never used again
  int replica = -1;  // its place in the job
  int fd = -1;       // its records
  LineBuffer lines;
  bool bystander = false;
  bool exited = false;
  int wait_status = 0;
  int64_t exit_ns = 0;
  int64_t stop_ns = 0;      // when it was last seen stopped
  int64_t progress_ns = 0;  // when its slot last changed
  uint64_t signature = 0;   // of what the slot showed then
};

struct RankStart {
  int number = 0;
  int replica = 0;
  bool newcomer = false;
  bool bystander = false;
  std::vector<std::pair<std::string, std::string>> environment;
};

class Fleet {
 public:
  using OnRecord = std::function<void(const RankProcess&, const Record&)>;
  using OnGone = std::function<void(const RankProcess&)>;

  // `arguments` is this program's own command line, which the ranks get too.
  Fleet(const Options& options, std::vector<std::string> arguments, OnRecord on_record,
        OnGone on_gone);
  ~Fleet();
  Fleet(const Fleet&) = delete;
  Fleet& operator=(const Fleet&) = delete;

  // Starts board and coordinator, and an arena where each rank's part has any bytes; an error's
  // text on failure.
  std::string Open(uint64_t arena_part_bytes = 0);
  bool StartRank(const RankStart& start);
  // The first ranks as threads of one process, which are `ranks` entries of processes().
  bool StartThreads();
  // Reads what ranks say and sees who has ended, for at most this long.
  void Pump(int timeout_ms);
  // True when a process shows the same as `hang_timeout_s` ago.
  bool StandsStill(RankProcess* process);
  // Asks all ranks for their flight recorders, where the options name a folder for them.
  void DumpAll();
  void EndAll();

  BoardSlot& slot(int number) { return board_->slot(number); }
  const BoardSlot& slot(int number) const { return board_->slot(number); }
  std::map<int, RankProcess>& processes() { return processes_; }
  const std::map<int, RankProcess>& processes() const { return processes_; }

 private:
  // What every process of a rank is told; the rest says who it is and where it reports.
  SpawnRequest Request(const std::vector<std::pair<std::string, std::string>>& environment,
                       const std::vector<std::pair<std::string, std::string>>& own) const;
  void Note(int number, const RankStart& start, pid_t pid, int fd);
  void NoteEnd(RankProcess* process, int status, int64_t now_ns);
  void ReadLines(RankProcess* process);
  void Reap();

  const Options& options_;
  const std::vector<std::string> arguments_;
  const OnRecord on_record_;
  const OnGone on_gone_;
  Coordinator coordinator_;
  Coordinator second_coordinator_;  // of the job beside, only with --against
  std::string meeting_;             // with --coordinator hosted: where the first ranks listen
  std::unique_ptr<Board> board_;
  std::unique_ptr<Arena> arena_;
  std::string token_;
  int signal_fd_ = -1;
  std::map<int, RankProcess> processes_;  // by number
};

}  // namespace ftar::perf

#endif  // FTAR_PERF_FLEET_H_
