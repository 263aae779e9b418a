#include "perf/bucket_list.h"

#include <charconv>
#include <fstream>
#include <numeric>
#include <sstream>

#include "fmt/format.h"
#include "perf/types.h"

namespace ftar::perf {
namespace {

constexpr uint64_t kElementsMost = uint64_t{1} << 40;
constexpr size_t kBucketsMost = 100'000;

}  // namespace

BucketList ParseBuckets(std::string_view text) {
  BucketList list;
  size_t number = 0;
  for (std::string_view line : Split(text, '\n')) {
    ++number;
    const size_t begin = line.find_first_not_of(" \t\r");
    if (begin == std::string_view::npos || line[begin] == '#') continue;
    line.remove_prefix(begin);
    uint64_t elements = 0;
    const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), elements);
    const bool ends =
        end == line.data() + line.size() || *end == ' ' || *end == '\t' || *end == '\r';
    if (error != std::errc() || !ends || elements == 0 || elements > kElementsMost) {
      list.error = fmt::format("line {}: '{}' does not begin with a number of elements", number,
                               line.substr(0, 40));
      return list;
    }
    list.elements.push_back(elements);
  }
  if (list.elements.empty()) list.error = "there is no bucket in it";
  if (list.elements.size() > kBucketsMost) list.error = "too many buckets";
  return list;
}

BucketList ReadBucketFile(const std::string& path) {
  std::ifstream file(path);
  if (!file) return {{}, "cannot read it"};
  std::ostringstream text;
  text << file.rdbuf();
  return ParseBuckets(text.str());
}

std::vector<uint64_t> ThinBuckets(const std::vector<uint64_t>& elements, uint64_t total) {
  const uint64_t all = std::accumulate(elements.begin(), elements.end(), uint64_t{0});
  if (total >= all) return elements;
  const double share = static_cast<double>(total) / static_cast<double>(all);
  std::vector<uint64_t> taken;
  // How far what is taken lags behind its share of what has passed.
  double lag = 0;
  for (uint64_t bucket : elements) {
    lag += share * static_cast<double>(bucket);
    if (lag < static_cast<double>(bucket) / 2) continue;
    taken.push_back(bucket);
    lag -= static_cast<double>(bucket);
  }
  if (taken.empty()) taken.push_back(elements.front());
  return taken;
}

}  // namespace ftar::perf
