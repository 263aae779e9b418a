// Order statistics of a sample.
#ifndef FTAR_PERF_STATS_H_
#define FTAR_PERF_STATS_H_

#include <cstdint>
#include <vector>

namespace ftar::perf {

// The value below which `part` of the sample lies, interpolated between neighbours; 0 of an empty
// sample.
double Quantile(std::vector<double> sample, double part);
double Mean(const std::vector<double>& sample);
// Where the median of what the sample was drawn from lies with 95 % confidence at least, by order
// statistics; below six values that is as wide as the sample.
struct Interval {
  double low = 0, high = 0;
};
Interval MedianInterval(std::vector<double> sample);
// Of the sample itself, divisor n - 1; 0 below two values.
double Deviation(const std::vector<double>& sample);

}  // namespace ftar::perf

#endif  // FTAR_PERF_STATS_H_
