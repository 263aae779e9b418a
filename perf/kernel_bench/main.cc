// ftar-kernels: the bandwidth of the reduction and copy kernels, of this host and of its GPU.
//
// Prints a table, or with --json one object a line, which `ftar-perf kernels` reads. Needs no
// library but our own, so that a machine with a CUDA toolkit alone can build it.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "perf/kernel_bench/bench.h"

namespace {

using ftar::kernel_bench::Plan;
using ftar::kernel_bench::Row;

void PrintJson(const Row& r) {
  std::printf(
      "{\"where\": \"%s\", \"kernel\": \"%s\", \"type\": \"%s\", \"sources\": %d, "
      "\"destinations\": %d, \"blocks\": %d, \"threads\": %d, \"unroll\": %d, \"checksum\": %s, "
      "\"cache\": \"%s\", \"bytes\": %llu, \"us\": %.3f, \"us_low\": %.3f, \"us_high\": %.3f, "
      "\"touched_gbs\": %.2f, \"result_gbs\": %.2f, \"of_copy\": %.4f}\n",
      r.where.c_str(), r.kernel.c_str(), r.type.c_str(), r.sources, r.destinations, r.blocks,
      r.threads, r.unroll, r.checksum ? "true" : "false", r.cache.c_str(),
      static_cast<unsigned long long>(r.bytes), r.us, r.us_low, r.us_high, r.touched_gbs,
      r.result_gbs, r.of_copy);
}

void PrintTable(const Row& r) {
  std::printf(
      "%-22.22s %-14s %-7s %2d>%-2d %4dx%-4d U%d %-3s %-3s %10llu %10.1f %9.1f %9.1f %7.3f\n",
      r.where.c_str(), r.kernel.c_str(), r.type.c_str(), r.sources, r.destinations, r.blocks,
      r.threads, r.unroll, r.checksum ? "sum" : "", r.cache.c_str(),
      static_cast<unsigned long long>(r.bytes), r.us, r.touched_gbs, r.result_gbs, r.of_copy);
}

void PrintBars(const std::vector<Row>& rows) {
  const auto [share, checksum_cost, two_blocks] = ftar::kernel_bench::BarsOf(rows);
  const auto say = [](const char* name, double value, const char* unit, const char* goal,
                      bool good) {
    std::printf("bar %-34s %8.1f %-5s (goal %s) %s\n", name, value, unit, goal,
                good ? "met" : "NOT MET");
  };
  say("sum on all multiprocessors", 100 * share, "%", "92 % of the card's copy", share >= 0.92);
  say("fused checksum costs", 100 * checksum_cost, "%", "at most 2 %",
      share > 0 && checksum_cost <= 0.02);
  say("2 blocks of 512, f32 result", two_blocks, "GB/s", "80 GB/s", two_blocks >= 80);
}

int Usage(bool asked) {
  std::fprintf(
      asked ? stdout : stderr,
      "usage: ftar-kernels [--json] [--quick] [--host-only | --device-only] "
      "[--seconds S]\n"
      "The bandwidth of the reduction and copy kernels, of this host and of its GPU. After S "
      "seconds no row is begun (300).\n");
  return asked ? 0 : 2;
}

}  // namespace

int main(int argc, char** argv) {
  Plan plan;
  bool json = false, host = true, device = true;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--json") {
      json = true;
    } else if (word == "--quick") {
      plan.quick = true;
    } else if (word == "--host-only") {
      device = false;
    } else if (word == "--device-only") {
      host = false;
    } else if (word == "--seconds" && i + 1 < argc) {
      plan.seconds = std::strtod(argv[++i], nullptr);
    } else {
      return Usage(word == "--help" || word == "-h");
    }
  }
  if (!json) {
    std::printf("%-22s %-14s %-7s %5s %9s %2s %-3s %-3s %10s %10s %9s %9s %7s\n", "where", "kernel",
                "type", "in>out", "grid", "", "", "$", "bytes", "us", "touched", "result",
                "of copy");
  }
  std::vector<Row> rows;
  const auto report = [json, &rows](const Row& row) {
    rows.push_back(row);
    json ? PrintJson(row) : PrintTable(row);
    std::fflush(stdout);
  };
  if (host) ftar::kernel_bench::HostRows(plan, report);
  if (!device) return 0;
  const ftar::Status status = ftar::kernel_bench::DeviceRows(plan, report);
  if (status.ok()) {
    if (!json) PrintBars(rows);
    return 0;
  }
  const bool missing = status.code() == ftar::Code::kUnsupported;
  if (json) {
    std::printf("{\"%s\": \"%s\"}\n", missing ? "no_device" : "stopped", status.text().c_str());
  } else {
    std::printf("# %s: %s\n", missing ? "no GPU rows" : "stopped", status.text().c_str());
  }
  if (!missing) return 1;
  return host ? 0 : 77;
}
