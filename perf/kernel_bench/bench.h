// What ftar-kernels measures, as rows. One row is one kernel on one grid and size.
//
// Plain data, and the two halves that fill it; device_rows.cc is built where nvcc is, no_device.cc
// elsewhere. Single-threaded.
#ifndef FTAR_PERF_KERNEL_BENCH_BENCH_H_
#define FTAR_PERF_KERNEL_BENCH_BENCH_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"

namespace ftar::kernel_bench {

struct Row {
  std::string where;   // "host" or the device's name.
  std::string kernel;  // "sum", "copy", "card's copy", "checksum", ...
  std::string type;
  int sources = 0;
  int destinations = 0;
  int blocks = 0;  // 0 on the host.
  int threads = 0;
  int unroll = 0;
  bool curve = false;  // of a grid that is measured for its own sake: no bar speaks of it
  bool checksum = false;
  std::string cache;   // "in" or "out".
  uint64_t bytes = 0;  // Of one vector.
  double us = 0;       // Median.
  double us_low = 0;   // Least and largest of the repeats.
  double us_high = 0;
  double touched_gbs = 0;  // All bytes read and written.
  double result_gbs = 0;   // Bytes of one result.
  double of_copy = 0;      // touched_gbs beside the same place's own copy at this size; 0: none.
};

struct Plan {
  bool quick = false;    // Fewer rows and repeats.
  double seconds = 300;  // After which no row is begun.
};

using Report = std::function<void(const Row&)>;

void HostRows(const Plan& plan, const Report& report);
// kUnsupported where there is no device; any other error has ended the rows early.
Status DeviceRows(const Plan& plan, const Report& report);

// What docs/gpu.md promises of a device, over the rows that it speaks of; 0: there are none.
struct Bars {
  double share = 0;          // of the card's copy, by the worst sum on all multiprocessors
  double checksum_cost = 0;  // of the time without
  double two_blocks_gbs = 0;
};
Bars BarsOf(const std::vector<Row>& rows);

// Rates of a row whose times are set.
void SetRates(uint64_t touched_bytes, Row* row);
void SetTimes(std::vector<double> us, Row* row);

}  // namespace ftar::kernel_bench

#endif  // FTAR_PERF_KERNEL_BENCH_BENCH_H_
