#include "perf/table.h"

#include <time.h>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "fmt/format.h"
#include "perf/case.h"
#include "perf/output.h"
#include "perf/stats.h"
#include "perf/types.h"

namespace ftar::perf {
namespace {

using nlohmann::json;

std::string FormatTime(double us) {
  if (us >= 10000) return fmt::format("{:7.0f}", us);
  return fmt::format("{:7.{}f}", us, us >= 100 ? 1 : 2);
}

std::string FormatPlace(const std::optional<PlaceResult>& place) {
  if (!place) return fmt::format("  {:>7}  {:>6}  {:>6}  {:>6}", "-", "-", "-", "-");
  const std::string wrong = place->wrong < 0 ? "N/A" : fmt::format("{}", place->wrong);
  if (place->time_us <= 0) return fmt::format("  {:>7}  {:>6}  {:>6}  {:>6}", "-", "-", "-", wrong);
  return fmt::format("  {}  {:6.2f}  {:6.2f}  {:>6}", FormatTime(place->time_us),
                     place->algorithm_bandwidth, place->bus_bandwidth, wrong);
}

std::string TimeOfDay(int64_t seconds) {
  const time_t when = seconds;
  tm local{};
  localtime_r(&when, &local);
  char text[32];
  strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &local);
  return text;
}

json PlaceJson(const PlaceResult& place, bool cpu_time) {
  json j = {{cpu_time ? "cpu_time" : "time", place.time_us},
            {"alg_bw", place.algorithm_bandwidth},
            {"bus_bw", place.bus_bandwidth}};
  j["nwrong"] = place.wrong < 0 ? json("N/A") : json(place.wrong);
  return j;
}

json PerIterationJson(const std::vector<double>& times_us) {
  const double mean = Mean(times_us), deviation = Deviation(times_us);
  return {{"min_us", Quantile(times_us, 0)},
          {"max_us", Quantile(times_us, 1)},
          {"avg_us", mean},
          {"p50_us", Quantile(times_us, 0.5)},
          {"p95_us", Quantile(times_us, 0.95)},
          {"p99_us", Quantile(times_us, 0.99)},
          {"stdev_us", deviation},
          {"cv_pct", mean > 0 ? 100 * deviation / mean : 0},
          {"times_us", times_us}};
}

json GapJson(const Gap& gap, const std::vector<double>& ideal_us) {
  return {{"time", gap.ideal_us},
          {"nwrong", gap.wrong < 0 ? json("N/A") : json(gap.wrong)},
          {"ratio", gap.ratio},
          {"ratio_low", gap.interval.low},
          {"ratio_high", gap.interval.high},
          {"ratios", gap.ratios},
          {"moved_per_byte", gap.moved},
          {"ideal_moved_per_byte", gap.ideal_moved},
          {"times_us", ideal_us}};
}

void SlowestOf(const std::vector<int64_t>& times_ns, std::vector<double>* slowest_us) {
  if (slowest_us->size() < times_ns.size()) slowest_us->resize(times_ns.size(), 0);
  for (size_t i = 0; i < times_ns.size(); ++i)
    (*slowest_us)[i] = std::max((*slowest_us)[i], static_cast<double>(times_ns[i]) / 1000);
}

double CombineTimes(const std::vector<double>& times, Average average) {
  switch (average) {
    case Average::kRank0: return times.front();
    case Average::kMin: return *std::min_element(times.begin(), times.end());
    case Average::kMax: return *std::max_element(times.begin(), times.end());
    case Average::kMean: break;
  }
  return Mean(times);
}

std::string CountText(int count, int by_size) {
  return count == by_size ? "by size" : std::to_string(count);
}

const char* DeviceText(const Options& options) {
  switch (options.memory) {
    case MemoryKind::kDevice: return "GPU memory of the library";
    case MemoryKind::kDevicePlain: return "GPU memory";
    default: return "host memory";
  }
}

// Of all timed operations.
double OperationBytes(const Row& row, int members) {
  return static_cast<double>(CaseOf(row.kind).shape(row, members).bytes) *
         (row.buckets.empty() ? row.iters * row.aggregate : row.iters);
}

// The mean of the ranks.
std::optional<double> BlockSeconds(const Row& row, const std::vector<RowRecord>& records,
                                   int members) {
  const double bytes = OperationBytes(row, members);
  std::vector<double> all;
  for (const RowRecord& record : records) {
    if (record.block_us >= 0) all.push_back(static_cast<double>(record.block_us) * 1000 / bytes);
  }
  if (all.empty() || bytes <= 0) return std::nullopt;
  return Mean(all);
}

void FillMoved(const Row& row, const std::vector<RowRecord>& records, int members, Gap* gap) {
  const double bytes = OperationBytes(row, members);
  if (bytes <= 0) return;
  for (const RowRecord& record : records) {
    gap->moved += static_cast<double>(record.moved) / bytes / std::ssize(records);
    gap->ideal_moved += static_cast<double>(record.ideal_moved) / bytes / std::ssize(records);
  }
}

// Nothing unless every rank knows all three.
std::optional<Slowdown> SlowdownOf(const std::vector<RowRecord>& records, double time_us,
                                   Average average) {
  std::vector<double> alone, beside, operations;
  for (const RowRecord& record : records) {
    if (record.matmul_ns <= 0 || record.matmul_beside_ns <= 0 || record.beside_ns <= 0)
      return std::nullopt;
    alone.push_back(static_cast<double>(record.matmul_ns) / 1000);
    beside.push_back(static_cast<double>(record.matmul_beside_ns) / 1000);
    operations.push_back(static_cast<double>(record.beside_ns) / 1000);
  }
  Slowdown out;
  out.product_us = Mean(alone);
  out.product_beside_us = Mean(beside);
  out.operation_beside_us = CombineTimes(operations, average);
  out.product_percent = 100 * (out.product_beside_us / out.product_us - 1);
  out.operation_percent = 100 * (out.operation_beside_us / time_us - 1);
  return out;
}

// The mean of the ranks.
std::optional<double> BulkBandwidth(const std::vector<RowRecord>& records) {
  std::vector<double> all;
  for (const RowRecord& record : records) {
    if (record.bulk_rate >= 0) all.push_back(static_cast<double>(record.bulk_rate) / 1e9);
  }
  if (all.empty()) return std::nullopt;
  return Mean(all);
}

json SlowdownJson(const Slowdown& slowdown) {
  return {{"product_us", slowdown.product_us},
          {"product_beside_us", slowdown.product_beside_us},
          {"product_slowdown_percent", slowdown.product_percent},
          {"time_beside", slowdown.operation_beside_us},
          {"slowdown_percent", slowdown.operation_percent}};
}

}  // namespace

PlaceResult Combine(const Row& row, const std::vector<RowRecord>& records, Average average) {
  PlaceResult result;
  std::vector<double> times;
  int32_t members = 1;
  for (const RowRecord& record : records) {
    if (record.time_ns > 0) times.push_back(static_cast<double>(record.time_ns) / 1000);
    if (record.wrong >= 0) result.wrong = std::max<int64_t>(result.wrong, 0) + record.wrong;
    members = std::max(members, record.members);
    SlowestOf(record.times_ns, &result.times_us);
    SlowestOf(record.ideal_ns, &result.ideal_us);
  }
  if (!result.ideal_us.empty()) {
    result.gap = GapOf(result.times_us, result.ideal_us, row.pairs);
    for (const RowRecord& record : records) {
      if (record.ideal_wrong >= 0)
        result.gap->wrong = std::max<int64_t>(result.gap->wrong, 0) + record.ideal_wrong;
    }
    FillMoved(row, records, members, &*result.gap);
  }
  result.block_seconds_per_gb = BlockSeconds(row, records, members);
  result.bulk_bandwidth = BulkBandwidth(records);
  if (times.empty()) return result;
  const Case& kind = CaseOf(row.kind);
  result.time_us = CombineTimes(times, average);
  result.slowdown = SlowdownOf(records, result.time_us, average);
  result.algorithm_bandwidth =
      static_cast<double>(kind.shape(row, members).bytes) / (result.time_us * 1000);
  result.bus_bandwidth = result.algorithm_bandwidth * kind.bus_factor(members);
  return result;
}

Gap GapOf(const std::vector<double>& times_us, const std::vector<double>& ideal_us, int pairs) {
  Gap gap;
  gap.ideal_us = Quantile(ideal_us, 0.5);
  const size_t n = std::min(times_us.size(), ideal_us.size());
  for (int pair = 0; pair < pairs; ++pair) {
    const size_t begin = n * pair / pairs, end = n * (pair + 1) / pairs;
    if (begin == end) continue;
    const auto median = [&](const std::vector<double>& all) {
      return Quantile(
          {all.begin() + static_cast<ptrdiff_t>(begin), all.begin() + static_cast<ptrdiff_t>(end)},
          0.5);
    };
    gap.ratios.push_back(median(times_us) / std::max(median(ideal_us), 1e-6));
  }
  gap.ratio = Quantile(gap.ratios, 0.5);
  gap.interval = MedianInterval(gap.ratios);
  return gap;
}

std::string FormatTail(const std::optional<PlaceResult>& place) {
  std::string text;
  if (!place) return text;
  if (!place->times_us.empty()) {
    for (double part : {0.5, 0.95, 0.99})
      text += fmt::format("  {}", FormatTime(Quantile(place->times_us, part)));
  }
  if (place->gap) {
    const Gap& gap = *place->gap;
    text +=
        fmt::format("  {}  {:6.3f}  {:6.3f}  {:6.3f}  {:6.2f}  {:6.2f}", FormatTime(gap.ideal_us),
                    gap.ratio, gap.interval.low, gap.interval.high, gap.moved, gap.ideal_moved);
  }
  if (place->block_seconds_per_gb) text += fmt::format("  {:7.4f}", *place->block_seconds_per_gb);
  if (place->slowdown) {
    text += fmt::format("  {:7.1f}  {:7.1f}", place->slowdown->product_percent,
                        place->slowdown->operation_percent);
  }
  if (place->bulk_bandwidth) text += fmt::format("  {:7.2f}", *place->bulk_bandwidth);
  return text;
}

std::string TailTitles(const Options& options, bool units) {
  std::string text;
  if (options.per_iteration) {
    for (int place = options.out_of_place + options.in_place; place > 0; --place) {
      for (const char* title : {"p50", "p95", "p99"})
        text += fmt::format("  {:>7}", units ? "(us)" : title);
    }
  }
  for (int place = options.out_of_place + options.in_place; options.OnDevice() && place > 0;
       --place) {
    text += fmt::format("  {:>7}", units ? "(s)" : "SMs/GB");
    if (options.matmul > 0)
      text += fmt::format("  {:>7}  {:>7}", units ? "(%)" : "mm+", units ? "(%)" : "time+");
  }
  for (int place = options.out_of_place + options.in_place; options.beside_bytes > 0 && place > 0;
       --place) {
    text += fmt::format("  {:>7}", units ? "(GB/s)" : "beside");
  }
  if (options.ideal == IdealKind::kNone) return text;
  constexpr const char* format = "  {:>7}  {:>6}  {:>6}  {:>6}  {:>6}  {:>6}";
  if (units) return text + fmt::format(format, "(us)", "", "(95 %)", "", "(B/B)", "(B/B)");
  return text + fmt::format(format, "ideal", "gap", "low", "high", "moved", "ideal");
}

std::string FormatRow(const Row& row, uint64_t count, uint64_t bytes,
                      const std::optional<PlaceResult>& out_of_place,
                      const std::optional<PlaceResult>& in_place) {
  const CollectiveInfo& collective = CollectiveOf(row.kind);
  return fmt::format("{:12}  {:12}  {:>8}  {:>6}  {:>6}{}{}", bytes, count,
                     collective.typed ? TypeOf(row.dtype).name : "none",
                     collective.reduces ? OpOf(row.redop).name : "none", row.root,
                     FormatPlace(out_of_place), FormatPlace(in_place));
}

Table::Table(const Options& options, const Schedule& schedule, std::FILE* out)
    : options_(options), schedule_(schedule), out_(out), started_s_(time(nullptr)) {}

Table::~Table() = default;

// Under a foreign launcher each rank knows only itself, and how many there are.
size_t Table::MembersAtStart() const {
  if (ranks_.size() != 1) return ranks_.size();
  return static_cast<size_t>(std::max(ranks_.front().members, 1));
}

void Table::Header(const std::vector<HelloRecord>& ranks) {
  ranks_ = ranks;
  if (out_ == nullptr) return;
  const auto [low, high] = std::minmax_element(options_.sizes.begin(), options_.sizes.end());
  fmt::print(out_, "# ftar-perf version {}\n", LibraryVersion());
  fmt::print(
      out_,
      "# nRanks {} minBytes {} maxBytes {} sizes: {} warmup iters: {} iters: {} agg iters: {} "
      "validation: {} transport: {} plan: {} ft: {}{}\n#\n# Using devices\n",
      MembersAtStart(), *low, *high, options_.sizes.size(), CountText(options_.warmup, -1),
      CountText(options_.iters, 0), CountText(options_.aggregate, 0), options_.check,
      options_.transport, options_.plan, options_.fault_tolerance ? "on" : "off",
      options_.threads ? " ranks: threads" : "");
  for (const HelloRecord& rank : ranks) {
    fmt::print(out_, "#  Rank {:2} Group  0 Pid {:6} on {:>10} device  0 [{}]\n", rank.rank,
               rank.pid, rank.host, DeviceText(options_));
  }
  std::fflush(out_);
}

void Table::PrintTitles(ftarKind_t kind) {
  if (kind_ == kind) return;
  if (kind_) fmt::print(out_, "#\n# Collective test concluded: {}\n", CollectiveOf(*kind_).title);
  kind_ = kind;
  fmt::print(out_, "#\n# Collective test starting: {}\n#\n", CollectiveOf(kind).title);
  fmt::print(out_, "# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}  {:^31}  {:^31}\n", "", "", "", "", "",
             "out-of-place", "in-place");
  fmt::print(out_, "# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}", "size", "count", "type", "redop",
             "root");
  for (int i = 0; i < 2; ++i) {
    fmt::print(out_, "  {:>7}  {:>6}  {:>6}  {:>6}", options_.cpu_time ? "cputime" : "time",
               "algbw", "busbw", "#wrong");
  }
  fmt::print(out_, "{}", TailTitles(options_, false));
  fmt::print(out_, "\n# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}", "(B)", "(elements)", "", "", "");
  for (int i = 0; i < 2; ++i) {
    fmt::print(out_, "  {:>7}  {:>6}  {:>6}  {:>6}", "(us)", "(GB/s)", "(GB/s)", "");
  }
  fmt::print(out_, "{}\n", TailTitles(options_, true));
}

void Table::Add(const std::vector<RowRecord>& records) {
  const size_t index = records.front().row;
  Entry& entry = entries_[index];
  const PlaceResult result = Combine(schedule_.rows()[index], records, options_.average);
  (records.front().in_place ? entry.in_place : entry.out_of_place) = result;
  for (const RowRecord& record : records) entry.members = std::max(entry.members, record.members);
  const bool complete = entry.out_of_place.has_value() == options_.out_of_place &&
                        entry.in_place.has_value() == options_.in_place;
  if (complete && out_ != nullptr) PrintRow(index, entry);
}

void Table::PrintRow(size_t index, const Entry& entry) {
  const Row& row = schedule_.rows()[index];
  PrintTitles(row.kind);
  const Shape shape = CaseOf(row.kind).shape(row, std::max(entry.members, 1));
  fmt::print(out_, "{}{}{}{}\n",
             FormatRow(row, shape.count, shape.bytes, entry.out_of_place, entry.in_place),
             FormatTail(entry.out_of_place), FormatTail(entry.in_place),
             options_.timestamps ? "  " + TimeOfDay(time(nullptr)) : "");
  std::fflush(out_);
}

double Table::average_bus_bandwidth() const {
  std::vector<double> all;
  for (const auto& [index, entry] : entries_) {
    for (const auto& place : {entry.out_of_place, entry.in_place}) {
      if (place && place->time_us > 0) all.push_back(place->bus_bandwidth);
    }
  }
  return Mean(all);
}

bool Table::bandwidth_ok() const { return average_bus_bandwidth() >= 0.9 * options_.min_bandwidth; }

bool Table::Footer(uint64_t wrong, const std::vector<std::string>& errors, const json& extra) {
  if (out_ != nullptr) {
    const char* const verdict = wrong > 0 ? "FAILED" : entries_.empty() ? "of no row" : "OK";
    fmt::print(out_, "# Out of bounds values : {} {}\n", wrong, verdict);
    fmt::print(out_, "# Avg bus bandwidth    : {:.4f}{}\n#\n", average_bus_bandwidth(),
               bandwidth_ok() ? "" : " FAILED");
    if (kind_) fmt::print(out_, "# Collective test concluded: {}\n", CollectiveOf(*kind_).title);
    for (const std::string& error : errors) fmt::print(out_, "# ERROR: {}\n", error);
    std::fflush(out_);
  }
  json document = ToJson(wrong, errors);
  document.update(extra);
  const std::string failed = WriteResults(options_.files, document);
  if (!failed.empty()) fmt::print(stderr, "ftar-perf: cannot write {}\n", failed);
  return failed.empty();
}

json Table::ToJson(uint64_t wrong, const std::vector<std::string>& errors) const {
  json devices = json::array(), results = json::array();
  for (const HelloRecord& rank : ranks_) {
    devices.push_back({{"rank", rank.rank},
                       {"group", 0},
                       {"pid", rank.pid},
                       {"hostname", rank.host},
                       {"device", 0},
                       {"device_info", DeviceText(options_)}});
  }
  for (const auto& [index, entry] : entries_) {
    const Row& row = schedule_.rows()[index];
    const Shape shape = CaseOf(row.kind).shape(row, std::max(entry.members, 1));
    json j = {{"size", shape.bytes},
              {"count", shape.count},
              {"type", TypeOf(row.dtype).name},
              {"redop", CollectiveOf(row.kind).reduces ? OpOf(row.redop).name : "none"},
              {"root", row.root},
              {"members", entry.members},
              {"actual_warmup_iterations", row.warmup},
              {"actual_iterations", row.iters},
              {"aggregated_iterations", row.aggregate},
              {"experiment_name", CollectiveOf(row.kind).title}};
    const std::pair<const char*, const std::optional<PlaceResult>*> places[] = {
        {"out_of_place", &entry.out_of_place}, {"in_place", &entry.in_place}};
    for (const auto& [name, place] : places) {
      if (!*place) continue;
      j[name] = PlaceJson(**place, options_.cpu_time);
      if ((*place)->block_seconds_per_gb)
        j[name]["block_seconds_per_gb"] = *(*place)->block_seconds_per_gb;
      if ((*place)->bulk_bandwidth) j[name]["beside_bw"] = *(*place)->bulk_bandwidth;
      if ((*place)->slowdown) j[name]["matmul"] = SlowdownJson(*(*place)->slowdown);
      if (options_.per_iteration)
        j[std::string(name) + "_per_iter"] = PerIterationJson((*place)->times_us);
      if ((*place)->gap)
        j[std::string(name) + "_ideal"] = GapJson(*(*place)->gap, (*place)->ideal_us);
    }
    results.push_back(j);
  }
  const auto [low, high] = std::minmax_element(options_.sizes.begin(), options_.sizes.end());
  return {{"version", fmt::format("{}", ftarGetVersion())},
          {"start_time", TimeOfDay(started_s_)},
          {"config",
           {{"nranks", MembersAtStart()},
            {"minimum_bytes", *low},
            {"maximum_bytes", *high},
            {"warmup_iters", options_.warmup},
            {"iterations", options_.iters},
            {"aggregated_iterations", options_.aggregate},
            {"validation", options_.check},
            {"blocking", options_.blocking ? "true" : "false"},
            {"fresh", options_.fresh ? "true" : "false"},
            {"ranks_are", options_.threads ? "threads" : "processes"},
            {"matmul", options_.matmul},
            {"beside_bytes", options_.beside_bytes},
            {"priority", options_.priority},
            {"transport", options_.transport},
            {"plan", options_.plan},
            {"ft", options_.fault_tolerance ? "on" : "off"},
            {"devices", devices}}},
          {"results", results},
          {"out_of_bounds", {{"count", wrong}, {"okay", wrong == 0 ? "true" : "false"}}},
          {"average_bus_bandwidth",
           {{"bandwidth", average_bus_bandwidth()}, {"okay", bandwidth_ok() ? "true" : "false"}}},
          {"end_time", TimeOfDay(time(nullptr))},
          {"errors", errors}};
}

}  // namespace ftar::perf
