#include "perf/stats.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace ftar::perf {

double Quantile(std::vector<double> sample, double part) {
  if (sample.empty()) return 0;
  std::sort(sample.begin(), sample.end());
  const double at = std::clamp(part, 0.0, 1.0) * static_cast<double>(sample.size() - 1);
  const auto below = static_cast<size_t>(at);
  const size_t above = std::min(below + 1, sample.size() - 1);
  return sample[below] + (at - static_cast<double>(below)) * (sample[above] - sample[below]);
}

double Mean(const std::vector<double>& sample) {
  if (sample.empty()) return 0;
  return std::accumulate(sample.begin(), sample.end(), 0.0) / static_cast<double>(sample.size());
}

// The chance that at most k of n values lie below the median is that of at most k heads in n
// throws.
Interval MedianInterval(std::vector<double> sample) {
  if (sample.empty()) return {};
  std::sort(sample.begin(), sample.end());
  const size_t n = sample.size();
  // As a logarithm, since the chance of no heads in 1,100 throws is less than any double.
  double chance = static_cast<double>(n) * std::log(0.5), sum = std::exp(chance);
  size_t out = 0;  // the interval leaves out so many values at either end
  while (true) {
    chance += std::log(static_cast<double>(n - out) / static_cast<double>(out + 1));
    sum += std::exp(chance);
    if (sum > 0.025 || 2 * (out + 1) >= n) break;
    ++out;
  }
  return {sample[out], sample[n - 1 - out]};
}

double Deviation(const std::vector<double>& sample) {
  if (sample.size() < 2) return 0;
  const double mean = Mean(sample);
  double squares = 0;
  for (double value : sample) squares += (value - mean) * (value - mean);
  return std::sqrt(squares / static_cast<double>(sample.size() - 1));
}

}  // namespace ftar::perf
