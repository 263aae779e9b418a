// Everything that the command line of ftar-perf can ask for.
//
// Purpose: parsing and checking in one place; engine and launcher read plain values.
// Threads: plain data.  Ownership: an Options owns its strings.
#ifndef FTAR_PERF_OPTIONS_H_
#define FTAR_PERF_OPTIONS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ftar/ftar.h"
#include "perf/fault.h"
#include "perf/output.h"

namespace ftar::perf {

// How the times of the ranks become the one that is printed (-a of nccl-tests).
enum class Average { kRank0, kMean, kMin, kMax };

// kDevice: a GPU's memory, allocated by the library, so that other ranks read it where it lies;
// kDevicePlain: allocated by CUDA, as a framework's tensors are.
enum class MemoryKind { kPlain, kLibrary, kRegistered, kDevice, kDevicePlain };

// What runs beside libftar in pairs: a program without any protocol (perf/ideal.h), or libftar
// itself with other knobs, in a job of its own between the same processes (--against).
enum class IdealKind { kNone, kPull, kPush, kKnobs };

// What a process started by the launcher is told; a user never types these.
struct RankRole {
  int index = -1;  // the replica; -1: not started by ftar-perf's launcher
  int slot = 0;    // on the board
  int world = 0;
  int report_fd = -1;           // JSON lines to the launcher
  std::vector<int> report_fds;  // of all ranks, where they are threads of this process
  int board_fd = -1;
  int arena_fd = -1;               // only with --fresh
  bool newcomer = false;           // joins a job that is running
  bool bystander = false;          // does everything that a newcomer does, except join
  std::string second_coordinator;  // of the job beside, only with --against
};

struct Options {
  int ranks = 0;  // 0: no -n, this process is one rank of somebody else's launcher
  std::vector<std::string> command;  // after "--": started instead of ftar-perf itself
  std::vector<ftarKind_t> collectives;
  std::vector<ftarDtype_t> types;
  std::vector<ftarRedop_t> ops;
  std::vector<uint64_t> sizes;  // bytes, in the order of the rows
  int32_t root = 0;

  int iters = 20;      // 0: by size
  int warmup = 1;      // -1: by size
  int aggregate = 1;   // 0: by size
  bool fresh = false;  // inputs are written and outputs read in every iteration
  int compute_us = 0;  // before each iteration's operations, with fresh
  IdealKind ideal = IdealKind::kNone;
  std::vector<std::pair<std::string, std::string>> against;  // --against NAME=VALUE
  int pairs = 0;                  // of blocks of libftar's and the ideal's iterations
  std::vector<uint64_t> buckets;  // elements; an iteration starts all of them
  int check = 1;                  // operations checked per row and placement; 0: none
  bool check_every = false;       // every operation is checked; implied by a fault
  int cycles = 1;
  bool blocking = false;
  int window = 0;             // operations in flight; 0: chosen by size
  uint64_t beside_bytes = 0;  // of the operations that run beside; 0: none do
  int priority = 0;           // of the measured group
  Average average = Average::kMean;
  int hang_timeout_s = 60;
  bool per_iteration = false;
  bool cpu_time = false;
  bool timestamps = false;
  bool unaligned = false;
  bool rounding =
      false;  // inputs whose sums are not exact: the result shows the order of additions
  bool in_place = true;
  bool out_of_place = true;
  MemoryKind memory = MemoryKind::kPlain;
  std::string cuda_runtime;  // a library's path; empty: CUDA's own, by name
  int streams = 1;           // that a GPU's operations are put onto in turn
  bool graph = false;        // a timed iteration is the launch of a graph
  int matmul = 0;            // rows of the matrix product that runs beside; 0: none
  std::string cublas;        // a library's path; empty: cuBLAS's own, by name
  double min_bandwidth = 0;  // GB/s; the run fails below 0.9 of it

  std::string transport = "auto";
  std::string plan = "auto";
  bool fault_tolerance = true;
  bool hosted = false;   // no process coordinates, a rank does
  bool threads = false;  // the first ranks are threads of one process
  std::string timeout;   // the library's knob, as text; empty: its default
  std::vector<std::pair<std::string, std::string>> knobs;  // --set NAME=VALUE

  std::vector<FaultSpec> faults;
  std::string fault_stage;  // empty: strike at a random moment inside the iteration
  int fault_chunk = -1;     // -1: the first that comes
  uint64_t seed = 1;
  uint64_t victim_resident_bytes = 0;
  bool victim_child = false;

  int churn = 0;          // this many random kills, stops, joins and leaves instead of a table
  bool json_ops = false;  // each checked operation of each rank goes into the JSON file
  std::string
      dump_folder;  // after a hang each rank writes its flight recorder here; empty: nobody does
  ResultFiles files;
  bool verbose = false;
  RankRole role;

  bool OnDevice() const {
    return memory == MemoryKind::kDevice || memory == MemoryKind::kDevicePlain;
  }
  bool CheckEvery() const { return check_every || !faults.empty(); }
};

struct ParseResult {
  bool run = false;  // false: print `text` and exit with `exit_code`
  int exit_code = 0;
  std::string text;
  Options options;
};

ParseResult ParseOptions(int argc, const char* const* argv);

// The sizes of -b, -e, -i and -f; empty when they can reach no end.
std::vector<uint64_t> SizeSeries(uint64_t begin, uint64_t end, uint64_t step, double factor);

inline constexpr int kExitOk = 0;
inline constexpr int kExitWrong = 1;  // wrong elements, disagreement, an operation that failed
inline constexpr int kExitUsage = 2;
inline constexpr int kExitHang = 3;
inline constexpr int kExitLost = 4;     // a process died that should not have
inline constexpr int kExitLibrary = 5;  // the library refused a call

}  // namespace ftar::perf

#endif  // FTAR_PERF_OPTIONS_H_
