#include "perf/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <climits>
#include <cstdlib>
#include <numeric>
#include <set>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "perf/board.h"
#include "perf/bucket_list.h"
#include "perf/types.h"

namespace ftar::perf {
namespace {

constexpr size_t kMaxSizes = 4096;
constexpr int kNotGiven = INT_MIN;

// The raw text of options whose meaning is checked after parsing.
struct Raw {
  std::string begin, end, step = "1M", sizes, resident = "0";
  double factor = 1;
  std::string types = "float", ops = "sum", collectives = "allreduce", memory = "plain";
  std::string fault_tolerance = "on", coordinator = "fixed", placement;
  std::vector<std::string> faults, knobs, against;
  std::string ideal, buckets, bucket_total, beside = "0";
  int ranks = kNotGiven, iters = kNotGiven, warmup = kNotGiven, aggregate = kNotGiven;
  int blocking = kNotGiven, pairs = 21;
  int average = 1, root = 0, threads = 1, gpus = 1, per_iteration = 0;
  int cpu_time = 0, timestamps = 0, unaligned = 0, skip_in_place = 0;
};

void AddSizeFlags(CLI::App* app, Raw* raw) {
  app->add_option("-b,--minbytes", raw->begin,
                  "smallest size (32M, with --churn 64K; K, M, G are binary)");
  app->add_option("-e,--maxbytes", raw->end, "largest size (32M, with --churn 64K)");
  app->add_option("-i,--stepbytes", raw->step, "step between sizes (1M)");
  app->add_option("-f,--stepfactor", raw->factor, "factor between sizes; overrides -i");
  app->add_option("--sizes", raw->sizes, "an explicit list of sizes instead of -b, -e, -i, -f");
  app->add_option("--buckets", raw->buckets,
                  "a file with the elements of each gradient of a model: one row, whose iterations "
                  "start all of them; implies --fresh with -z 0");
  app->add_option("--bucket-total", raw->bucket_total,
                  "only so many of the buckets, spread evenly, that they have about this size");
  app->add_option("-d,--datatype", raw->types, TypeNames() + ": a list or 'all' (float)");
  app->add_option("-o,--op", raw->ops, OpNames() + ": a list or 'all' (sum)");
  app->add_option("--collective", raw->collectives,
                  CollectiveNames() + ": a list or 'all' (allreduce)");
  app->add_option("-r,--root", raw->root, "root of a broadcast (0)");
}

void AddRunFlags(CLI::App* app, Raw* raw, Options* options) {
  app->add_option("--iters", raw->iters,
                  "timed iterations a row (by size: 20 to 500; 20 with --fault and --check-every, "
                  "60 where somebody leaves or joins); 0: by size");
  app->add_option("-w,--warmup_iters", raw->warmup,
                  "untimed operations before them (1; a tenth of iterations by size)");
  app->add_option("-m,--agg_iters", raw->aggregate, "operations of an iteration (1); 0: by size");
  app->add_option("-c,--check", options->check, "checked operations a row, 0: none (1)");
  app->add_flag("--rounding", options->rounding,
                "inputs whose sums round: results must show the order of members");
  app->add_flag("--check-every", options->check_every, "check every operation");
  app->add_flag("--fresh", options->fresh,
                "in each iteration all ranks write their inputs, meet, run -m operations on the "
                "clock and read their outputs; with -I 1, -z 1, and -m and --iters by size");
  app->add_flag("--ideal{pull}", raw->ideal,
                "--fresh, and beside it in pairs the same by a program without any protocol; "
                "--ideal=push: by one that writes into everybody's memory");
  app->add_option("--against", raw->against,
                  "like --ideal, but beside it runs libftar with this knob otherwise: NAME=VALUE");
  app->add_option("--compute", options->compute_us,
                  "with --fresh: microseconds that each rank computes, outside the library, before "
                  "an iteration's operations (0)");
  app->add_option("--pairs", raw->pairs,
                  "of --ideal and --against: so many blocks of iterations of each (21)");
  app->add_option("-N,--run_cycles", options->cycles, "times to run all rows (1)");
  app->add_option("-z,--blocking", raw->blocking, "1: wait for each operation (0)");
  app->add_option("--window", options->window, "operations in flight (0: by size)");
  app->add_option("--beside", raw->beside,
                  "operations of this size run in a second group meanwhile, 4 in flight (0: none)");
  app->add_option("--priority", options->priority,
                  "of the measured operations' group, -100 to 100 (0)");
  app->add_option("-a,--average", raw->average, "printed time: 0 rank 0, 1 mean, 2 min, 3 max");
  app->add_option("-T,--hang-timeout", options->hang_timeout_s,
                  "seconds without progress that count as a hang (60)");
  app->add_option("-I,--per_iter", raw->per_iteration, "1: time each iteration (0)");
  app->add_option("-C,--report_cputime", raw->cpu_time, "1: report CPU time (0)");
  app->add_option("-S,--report_timestamps", raw->timestamps, "1: a time of day in each row (0)");
  app->add_option("-u,--unalign", raw->unaligned, "1: buffers one element off alignment (0)");
  app->add_option("-K,--skip_inplace", raw->skip_in_place, "1: no in-place column (0)");
  app->add_option("--placement", raw->placement, "both, in or out of place");
  app->add_option("--memory", raw->memory,
                  "plain, library or registered buffers, or a GPU's: device, "
                  "allocated by the library, or device-plain, by CUDA");
  app->add_option("--streams", options->streams, "of --memory device: streams in turn (1)");
  app->add_flag("--graph", options->graph,
                "of --memory device: each timed iteration launches a captured graph");
  app->add_option("--matmul", options->matmul,
                  "of --memory device: the timed iterations once more, beside products of bf16 "
                  "matrices of so many rows; how much each slows the other down (0: none)");
  app->add_option("--cublas", options->cublas,
                  "of --matmul: cuBLAS (libcublas.so, where it is found)");
  app->add_option("--cuda-runtime", options->cuda_runtime,
                  "of --memory device: CUDA's runtime (libcudart.so, where it is found)");
  app->add_option("--min-bw", options->min_bandwidth, "GB/s below 0.9 of which the run fails");
  app->add_option("-t,--nthreads", raw->threads, "accepted for nccl-tests' sake: only 1");
  app->add_option("-g,--ngpus", raw->gpus, "accepted for nccl-tests' sake: only 1");
}

void AddLibraryFlags(CLI::App* app, Raw* raw, Options* options) {
  app->add_option("-n,--ranks", raw->ranks,
                  "start this many local ranks (nccl-tests' -n is --iters here)");
  app->add_flag("--threads", options->threads, "they are threads of one process, on one GPU");
  app->add_option("--transport", options->transport, "auto, shm or tcp");
  app->add_option("--plan", options->plan, "auto, oneshot, direct or ring");
  app->add_option("--ft", raw->fault_tolerance, "on or off");
  app->add_option("--coordinator", raw->coordinator,
                  "fixed: a process of its own; hosted: a rank coordinates, and others after it");
  app->add_option("--timeout", options->timeout, "the library's timeout, e.g. 1s");
  app->add_option("--set", raw->knobs, "any knob of the library: NAME=VALUE")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app->add_option("-J,--json", options->files.json, "write the results to this file as well");
  app->add_option("--csv", options->files.csv, "write the results to this file as a table");
  app->add_option("--report", options->files.report,
                  "write a page with curves, and a fault's timeline, to this file");
  app->add_flag("--json-ops", options->json_ops, "with each checked operation of each rank");
  app->add_option("--dump", options->dump_folder,
                  "folder for the ranks' flight recorders after a hang");
  app->add_flag("-v,--verbose", options->verbose, "print events as they come");
}

void AddFaultFlags(CLI::App* app, Raw* raw, Options* options) {
  app->add_option("--fault", raw->faults,
                  "kill:R@I stop:R@I leave:R@I join@I delay:R@I:MS, in a build with test hooks "
                  "(preset release) also drop:R@I, on tcp reset:R@I corrupt:R@I; may be given "
                  "several times")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app->add_option("--fault-stage", options->fault_stage,
                  fmt::format("strike at this stage (test hooks, too): {}",
                              fmt::join(FaultStages(), ", ")));
  app->add_option("--fault-chunk", options->fault_chunk, "and at this chunk (the first)");
  app->add_option("--churn", options->churn,
                  "instead of a table: this many random kills, stops, joins and leaves");
  app->add_option("--seed", options->seed, "of the random moments of strikes (1)");
  app->add_option("--victim-resident", raw->resident, "memory that a victim touches first");
  app->add_flag("--victim-child", options->victim_child, "a victim forks a child that lives on");
}

void AddHiddenFlags(CLI::App* app, RankRole* role) {
  app->add_option("--rank-index", role->index)->group("");
  app->add_option("--rank-world", role->world)->group("");
  app->add_option("--rank-report-fd", role->report_fd)->group("");
  app->add_option("--rank-report-fds", role->report_fds)->delimiter(',')->group("");
  app->add_option("--rank-board-fd", role->board_fd)->group("");
  app->add_option("--rank-arena-fd", role->arena_fd)->group("");
  app->add_option("--rank-slot", role->slot)->group("");
  app->add_flag("--rank-newcomer", role->newcomer)->group("");
  app->add_flag("--rank-bystander", role->bystander)->group("");
  app->add_option("--rank-second-coordinator", role->second_coordinator)->group("");
}

std::string ReadSizes(const Raw& raw, Options* options) {
  if (!raw.sizes.empty()) {
    for (std::string_view text : Split(raw.sizes, ',')) {
      const auto size = ParseSize(text);
      if (!size) return fmt::format("--sizes: '{}' is not a size", text);
      options->sizes.push_back(*size);
    }
    return "";
  }
  // Churn is about many operations, not about long ones.
  const bool small = options->churn > 0 && raw.begin.empty() && raw.end.empty();
  const std::string usual = small ? "64K" : "32M";
  const std::string first = raw.begin.empty() ? usual : raw.begin;
  const std::string last = raw.end.empty() ? usual : raw.end;
  const auto begin = ParseSize(first);
  const auto end = ParseSize(last);
  const auto step = ParseSize(raw.step);
  if (!begin) return fmt::format("-b: '{}' is not a size", first);
  if (!end) return fmt::format("-e: '{}' is not a size", last);
  if (!step) return fmt::format("-i: '{}' is not a size", raw.step);
  if (*begin > *end) return fmt::format("-b {} is larger than -e {}", first, last);
  options->sizes = SizeSeries(*begin, *end, *step, raw.factor);
  if (options->sizes.empty()) return "-i and -f: this step reaches no end";
  return "";
}

std::string ReadKnobs(const char* flag, const std::vector<std::string>& texts,
                      std::vector<std::pair<std::string, std::string>>* knobs) {
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos) return fmt::format("{}: '{}' is not NAME=VALUE", flag, text);
    knobs->emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return "";
}

// Pairs that the library refuses are left out, but not all there are.
std::string CheckPairs(const Options& options) {
  for (const ftarKind_t kind : options.collectives) {
    if (!CollectiveOf(kind).reduces) return "";
    for (const ftarDtype_t dtype : options.types) {
      for (const ftarRedop_t redop : options.ops) {
        if (Supported(dtype, redop)) return "";
      }
    }
  }
  return "-o wavg needs a floating type";
}

std::string ReadLists(const Raw& raw, Options* options) {
  const auto types = ParseTypes(raw.types);
  const auto ops = ParseOps(raw.ops);
  const auto collectives = ParseCollectives(raw.collectives);
  const auto resident = ParseSize(raw.resident);
  if (!types)
    return fmt::format("-d: '{}' names an unknown type; there are {}", raw.types, TypeNames());
  if (!ops)
    return fmt::format("-o: '{}' names an unknown operator; there are {}", raw.ops, OpNames());
  if (!collectives) {
    return fmt::format("--collective: '{}' names an unknown collective; there are {}",
                       raw.collectives, CollectiveNames());
  }
  if (!resident) return fmt::format("--victim-resident: '{}' is not a size", raw.resident);
  options->types = *types;
  options->ops = *ops;
  options->collectives = *collectives;
  options->victim_resident_bytes = *resident;
  for (const std::string& text : raw.faults) {
    const auto fault = ParseFault(text);
    if (!fault) {
      return fmt::format("--fault: '{}' is not KIND:RANK@ITERATION; --help names the kinds", text);
    }
    options->faults.push_back(*fault);
  }
  std::string error = CheckPairs(*options);
  if (error.empty()) error = ReadKnobs("--set", raw.knobs, &options->knobs);
  return error.empty() ? ReadKnobs("--against", raw.against, &options->against) : error;
}

std::string ReadBuckets(const Raw& raw, Options* options) {
  if (raw.buckets.empty()) return raw.bucket_total.empty() ? "" : "--bucket-total needs --buckets";
  if (options->collectives != std::vector<ftarKind_t>{FTAR_ALLREDUCE})
    return "--buckets knows only the all-reduce";
  const BucketList list = ReadBucketFile(raw.buckets);
  if (!list.error.empty()) return fmt::format("--buckets {}: {}", raw.buckets, list.error);
  if (!(raw.sizes.empty() && raw.begin.empty() && raw.end.empty()) || raw.aggregate != kNotGiven)
    return "--buckets has sizes of its own: it goes with none of --sizes, -b, -e and -m";
  options->buckets = list.elements;
  options->fresh = true;
  if (!raw.bucket_total.empty()) {
    const auto total = ParseSize(raw.bucket_total);
    if (!total || *total == 0)
      return fmt::format("--bucket-total: '{}' is not a size", raw.bucket_total);
    options->buckets = ThinBuckets(list.elements, *total / TypeOf(options->types.front()).bytes);
  }
  // Those of the rows.
  const auto elements =
      std::accumulate(options->buckets.begin(), options->buckets.end(), uint64_t{0});
  options->sizes.clear();
  for (const ftarDtype_t dtype : options->types)
    options->sizes.push_back(elements * TypeOf(dtype).bytes);
  return "";
}

std::string ReadIdeal(const Raw& raw, Options* options) {
  if (raw.ideal.empty() && raw.against.empty()) return "";
  if (!raw.against.empty()) {
    if (!raw.ideal.empty()) return "--against and --ideal: one of them runs beside";
    options->ideal = IdealKind::kKnobs;
  } else if (raw.ideal == "pull" || raw.ideal == "push") {
    options->ideal = raw.ideal == "pull" ? IdealKind::kPull : IdealKind::kPush;
  } else {
    return fmt::format("--ideal={}: it is pull or push", raw.ideal);
  }
  options->fresh = true;
  options->pairs = raw.pairs;
  // The ideal works out of place.
  if (raw.placement.empty()) options->in_place = false;
  if (raw.pairs < 1) return "--pairs is at least 1";
  if (options->in_place && options->out_of_place) return "--ideal: one --placement at a time";
  if (options->collectives != std::vector<ftarKind_t>{FTAR_ALLREDUCE} ||
      options->types != std::vector<ftarDtype_t>{FTAR_F32} ||
      options->ops != std::vector<ftarRedop_t>{FTAR_SUM}) {
    return "--ideal and --against know only the all-reduce of floats with sum";
  }
  if (options->ideal == IdealKind::kKnobs && options->OnDevice())
    return "--against works on the host's memory";
  return "";
}

// What --fresh and --ideal bring along.
std::string ReadFresh(const Raw& raw, Options* options) {
  std::string error = ReadBuckets(raw, options);
  if (error.empty()) error = ReadIdeal(raw, options);
  if (!error.empty()) return error;
  const bool fresh = options->fresh;
  // A fault names an iteration, whatever the size, and who leaves or joins takes dozens of them.
  const bool planned =
      std::any_of(options->faults.begin(), options->faults.end(), [](const FaultSpec& fault) {
        return fault.kind == FaultKind::kLeave || fault.kind == FaultKind::kJoin;
      });
  const int usual = planned ? 60 : options->CheckEvery() ? 20 : 0;
  options->iters = raw.iters != kNotGiven ? raw.iters : usual;
  options->warmup = raw.warmup != kNotGiven ? raw.warmup : options->iters > 0 || fresh ? 1 : -1;
  options->aggregate = raw.aggregate != kNotGiven ? raw.aggregate : fresh ? 0 : 1;
  options->blocking =
      raw.blocking != kNotGiven ? raw.blocking != 0 : fresh && options->buckets.empty();
  return "";
}

std::string ReadChoices(const Raw& raw, Options* options) {
  if (raw.fault_tolerance != "on" && raw.fault_tolerance != "off") return "--ft is on or off";
  options->fault_tolerance = raw.fault_tolerance == "on";
  if (raw.coordinator != "fixed" && raw.coordinator != "hosted")
    return "--coordinator is fixed or hosted";
  options->hosted = raw.coordinator == "hosted";
  if (raw.average < 0 || raw.average > 3) return "-a is 0, 1, 2 or 3";
  options->average = static_cast<Average>(raw.average);
  if (raw.memory == "library") {
    options->memory = MemoryKind::kLibrary;
  } else if (raw.memory == "registered") {
    options->memory = MemoryKind::kRegistered;
  } else if (raw.memory == "device") {
    options->memory = MemoryKind::kDevice;
  } else if (raw.memory == "device-plain") {
    options->memory = MemoryKind::kDevicePlain;
  } else if (raw.memory != "plain") {
    return "--memory is plain, library, registered, device or device-plain";
  }
  if (!raw.placement.empty() && raw.placement != "both" && raw.placement != "in" &&
      raw.placement != "out") {
    return "--placement is both, in or out";
  }
  options->out_of_place = raw.placement != "in";
  options->in_place = raw.placement != "out" && raw.skip_in_place == 0;
  const std::string error = ReadFresh(raw, options);
  if (!error.empty()) return error;
  // As papers spell it.
  if (options->plan == "one-shot") options->plan = "oneshot";
  options->root = raw.root;
  if (raw.ranks != kNotGiven) options->ranks = raw.ranks;
  options->per_iteration = raw.per_iteration != 0 || options->fresh;
  options->cpu_time = raw.cpu_time != 0;
  options->timestamps = raw.timestamps != 0;
  options->unaligned = raw.unaligned != 0;
  return "";
}

bool Has(const Options& options, ftarKind_t kind) {
  return std::count(options.collectives.begin(), options.collectives.end(), kind) > 0;
}

std::string CheckRanges(const Raw& raw, const Options& options) {
  if (raw.threads != 1 || raw.gpus != 1) return "-t and -g: use -n, and --threads";
  if (raw.ranks != kNotGiven && (raw.ranks < 1 || raw.ranks > kMaxRanks / 2)) {
    return fmt::format("-n is 1 to {}", kMaxRanks / 2);
  }
  const bool warms = raw.warmup == kNotGiven || raw.warmup >= 0;
  if (options.iters < 0 || !warms || options.aggregate < 0 || options.cycles < 1) {
    return "-N is at least 1, --iters, -m and -w at least 0";
  }
  if (options.fresh && options.ranks == 0 && options.role.index < 0) {
    return "--fresh needs -n: the ranks of another launcher have nowhere to meet";
  }
  if (options.fresh && (!options.faults.empty() || options.churn > 0 || options.check_every)) {
    return "--fresh goes with neither --fault, --churn nor --check-every";
  }
  if (options.check < 0 || options.window < 0 || options.hang_timeout_s < 1) {
    return "-c and --window are at least 0, -T at least 1";
  }
  if (options.root < 0) return "-r is at least 0";
  if (options.ranks > 0 && options.root >= options.ranks && Has(options, FTAR_BROADCAST))
    return fmt::format("-r {}: there is no rank {}", options.root, options.root);
  if (options.hosted && ((options.ranks == 0 && options.role.index < 0) ||
                         !options.command.empty() || options.ideal == IdealKind::kKnobs)) {
    return "--coordinator hosted needs -n, and goes with neither a command nor --against";
  }
  if (options.fresh && options.cpu_time) return "--fresh has no CPU time";
  if (options.compute_us < 0 || (options.compute_us > 0 && !options.fresh))
    return "--compute is at least 0, and goes with --fresh";
  if (options.churn < 0 || (options.churn > 0 && options.ranks < 3 && options.role.index < 0)) {
    return "--churn is at least 0 and needs -n 3 or more";
  }
  if (options.churn > 0 && !(options.files.csv.empty() && options.files.report.empty()))
    return "--churn has no table for --csv and --report, only --json";
  return "";
}

std::string ReadBeside(const Raw& raw, Options* options) {
  const auto bytes = ParseSize(raw.beside);
  if (!bytes || *bytes % sizeof(float) != 0)
    return fmt::format("--beside: '{}' is not a size of floats", raw.beside);
  options->beside_bytes = *bytes;
  if (options->priority < -100 || options->priority > 100) return "--priority is -100 to 100";
  if (*bytes == 0) return "";
  if (options->OnDevice()) return "--beside works on the host's memory";
  if (options->fresh || options->CheckEvery() || options->churn > 0)
    return "--beside goes with none of --fresh, --buckets, --ideal, --fault, --check-every and "
           "--churn";
  if (raw.cpu_time != 0) return "--beside: the CPU time of -C is that of both";
  return "";
}

std::string CheckDevice(const Raw&, const Options& options) {
  if (options.streams < 1 || options.streams > 64) return "--streams is 1 to 64";
  if (options.matmul < 0 || options.matmul > 65536) return "--matmul is 0 to 65536";
  if (options.matmul == 0 && !options.cublas.empty()) return "--cublas needs --matmul";
  if (!options.OnDevice()) {
    if (options.matmul > 0) return "--matmul needs --memory device";
    if (!options.graph && options.streams == 1 && options.cuda_runtime.empty()) return "";
    return "--graph, --streams and --cuda-runtime need --memory device";
  }
  if (options.ideal != IdealKind::kNone) return "--ideal works on the host's memory";
  if (options.churn > 0) return "--churn works on the host's memory";
  if (options.matmul > 0 && (options.graph || options.fresh || options.CheckEvery() ||
                             options.warmup == 0 || options.cpu_time)) {
    return "--matmul needs -w 1 or more, and goes with none of --graph, --fresh, --buckets, "
           "--fault, --check-every and -C";
  }
  if (!options.graph) return "";
  if (options.CheckEvery() || options.fresh)
    return "--graph goes with neither --fault, --check-every, --fresh nor --buckets";
  return options.streams == 1 ? "" : "--graph has one stream";
}

// What the ranks will use, as far as it can be said before they start.
std::string TransportOf(const Options& options) {
  const char* inherited = std::getenv("FTAR_TRANSPORT");
  std::string transport = inherited != nullptr ? inherited : "auto";
  if (!options.transport.empty() && options.transport != "auto") transport = options.transport;
  for (const auto& [name, value] : options.knobs) {
    if (name == "transport") transport = value;
  }
  return transport;
}

// Of those who are in when each fault strikes; a newcomer is waited for.
bool SomebodyStays(const Options& options, int world) {
  std::vector<FaultSpec> faults = options.faults;
  std::stable_sort(faults.begin(), faults.end(), [](const FaultSpec& left, const FaultSpec& right) {
    return left.iteration < right.iteration;
  });
  std::set<int> gone;
  int members = world;
  for (const FaultSpec& fault : faults) {
    if (fault.kind == FaultKind::kJoin) ++members;
    if (RemovesVictim(fault.kind) && gone.insert(fault.rank).second && --members == 0) return false;
  }
  return true;
}

std::string CheckFaults(const Raw&, const Options& options) {
  const auto stages = FaultStages();
  if (!options.fault_stage.empty() &&
      std::find(stages.begin(), stages.end(), options.fault_stage) == stages.end()) {
    return fmt::format("--fault-stage: '{}' is none of {}", options.fault_stage,
                       fmt::join(stages, ", "));
  }
  const int world = options.role.index >= 0 ? options.role.world : options.ranks;
  const auto newcomers = std::count_if(options.faults.begin(), options.faults.end(),
                                       [](const FaultSpec& f) { return f.rank < 0; });
  for (const FaultSpec& fault : options.faults) {
    if (world == 0) return "--fault needs -n: only ftar-perf's own launcher can judge it";
    if (fault.rank >= world + newcomers)
      return fmt::format("--fault {}: there is no rank {}", ToString(fault), fault.rank);
    if (!options.fault_tolerance)
      return fmt::format("--fault {}: with --ft off no fault is survived", ToString(fault));
    if (NeedsTcp(fault.kind) && TransportOf(options) != "tcp") {
      return fmt::format(
          "--fault {}: needs --transport tcp; shared memory has neither connections to reset nor "
          "checksums to see damage by",
          ToString(fault));
    }
  }
  if (!SomebodyStays(options, world)) return "--fault: nobody would be left";
  return "";
}

// One moment is kept of each rank, and one thing to do for the library's hook; and a stage or a
// chunk of no fault would say nothing.
std::string CheckStrikes(const Raw&, const Options& options) {
  std::set<int> victims;
  bool by_signal = false, by_hook = false;
  for (const FaultSpec& fault : options.faults) {
    if (fault.rank >= 0 && !victims.insert(fault.rank).second)
      return fmt::format("--fault {}: rank {} has a fault already", ToString(fault), fault.rank);
    by_signal = by_signal || StrikesBySignal(fault.kind);
    by_hook = by_hook || StrikesByHook(fault.kind);
  }
  if (!options.fault_stage.empty() && !by_signal && !by_hook)
    return "--fault-stage: there is no fault that strikes at a stage";
  if (options.fault_chunk >= 0 && !by_hook && options.fault_stage.empty())
    return "--fault-chunk needs --fault-stage";
  return "";
}

// What a process has once, threads cannot have each.
std::string CheckThreads(const Raw&, const Options& options) {
  if (!options.threads) return "";
  if (options.ranks == 0 && options.role.index < 0 && options.role.report_fds.empty())
    return "--threads needs -n";
  if (!options.command.empty() || options.churn > 0)
    return "--threads goes with neither a command nor --churn";
  if (options.cpu_time) return "--threads: CPU time is the process's, not a rank's";
  for (const FaultSpec& fault : options.faults) {
    if (StrikesOneRank(fault.kind)) continue;
    return fmt::format(
        "--fault {}: it would strike all ranks, since they are threads of one process; with "
        "--threads there are leave, delay and join",
        ToString(fault));
  }
  const bool by_hook = !options.fault_stage.empty() || options.fault_chunk >= 0;
  return by_hook || options.victim_child ? "--threads: faults strike whole processes" : "";
}

std::string Finish(const Raw& raw, Options* options) {
  for (const auto& error :
       {ReadSizes(raw, options), ReadLists(raw, options), ReadChoices(raw, options),
        ReadBeside(raw, options), CheckRanges(raw, *options), CheckDevice(raw, *options),
        CheckFaults(raw, *options), CheckThreads(raw, *options), CheckStrikes(raw, *options)}) {
    if (!error.empty()) return error;
  }
  // The same variable that nccl-tests reads.
  const char* bandwidth = std::getenv("NCCL_TESTS_MIN_BW");
  if (bandwidth != nullptr && options->min_bandwidth == 0) {
    options->min_bandwidth = std::atof(bandwidth);
  }
  return "";
}

}  // namespace

std::vector<uint64_t> SizeSeries(uint64_t begin, uint64_t end, uint64_t step, double factor) {
  std::vector<uint64_t> sizes;
  uint64_t size = begin;
  while (size <= end) {
    if (sizes.size() == kMaxSizes) return {};
    sizes.push_back(size);
    if (begin == end) break;
    uint64_t next = size + step;
    // From 0 a factor leads nowhere, so the series goes on with one byte.
    if (factor > 1)
      next = size == 0 ? 1 : static_cast<uint64_t>(static_cast<double>(size) * factor);
    if (factor > 1 && next <= size) next = size + 1;
    if (next <= size) return {};
    size = next;
  }
  return sizes;
}

ParseResult ParseOptions(int argc, const char* const* argv) {
  ParseResult result;
  Raw raw;
  CLI::App app(
      "ftar-perf: measures and checks libftar's collectives, with nccl-tests' table; "
      "`ftar-perf kernels` measures the reduction kernels alone",
      "ftar-perf");
  // The last of several wins, as in most programs, but for the lists.
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  AddSizeFlags(&app, &raw);
  AddRunFlags(&app, &raw, &result.options);
  AddLibraryFlags(&app, &raw, &result.options);
  AddFaultFlags(&app, &raw, &result.options);
  AddHiddenFlags(&app, &result.options.role);
  app.set_version_flag("--version", "ftar-perf " + LibraryVersion());
  app.add_option("command", result.options.command, "after '--': a program to start instead")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    result.text = app.help();
    return result;
  } catch (const CLI::CallForVersion& version) {
    result.text = std::string(version.what()) + "\n";
    return result;
  } catch (const CLI::Error& error) {
    result.text = std::string("ftar-perf: ") + error.what() + "\n";
    result.exit_code = kExitUsage;
    return result;
  }
  const std::string error = Finish(raw, &result.options);
  if (!error.empty()) {
    result.text = "ftar-perf: " + error + "\n";
    result.exit_code = kExitUsage;
    return result;
  }
  result.run = true;
  return result;
}

}  // namespace ftar::perf
