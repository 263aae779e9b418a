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

double Deviation(const std::vector<double>& sample) {
  if (sample.size() < 2) return 0;
  const double mean = Mean(sample);
  double squares = 0;
  for (double value : sample) squares += (value - mean) * (value - mean);
  return std::sqrt(squares / static_cast<double>(sample.size() - 1));
}

}  // namespace ftar::perf
