// The training text: the licence texts that every Debian system carries, as ASCII.
//
// A batch is a pure function of (step, replica): a replica that dies takes only its own share of
// that step with it. Immutable once read; any thread.
#ifndef FTAR_EXAMPLES_TRAINER_TEXT_H_
#define FTAR_EXAMPLES_TRAINER_TEXT_H_

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace trainer {

constexpr int kVocabulary = 128;

// A good 64-bit mixer (SplitMix64's), the example's only source of randomness.
inline uint64_t Mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

class Text {
 public:
  // Reads the files of `folder` in name order, so that all replicas read the same.
  explicit Text(const std::string& folder) {
    std::vector<std::filesystem::path> paths;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (entry.is_regular_file() && !entry.is_symlink()) paths.push_back(entry.path());
    }
    std::sort(paths.begin(), paths.end());
    for (const auto& path : paths) {
      std::ifstream file(path, std::ios::binary);
      all_.append(std::istreambuf_iterator<char>(file), {});
    }
    for (char& c : all_) c &= 127;
    auto both_blank = [](char a, char b) { return a <= ' ' && b <= ' '; };
    all_.erase(std::unique(all_.begin(), all_.end(), both_blank), all_.end());
  }

  size_t size() const { return all_.size(); }

  // Fills `targets.size()` windows of `window` characters, and the character that follows each.
  void Batch(int64_t step, int32_t replica, int window, std::vector<int>* inputs,
             std::vector<int>* targets) const {
    const uint64_t shard = Mix(Mix(static_cast<uint64_t>(step)) + static_cast<uint64_t>(replica));
    inputs->clear();
    for (size_t row = 0; row < targets->size(); ++row) {
      const size_t start = Mix(shard + row) % (size() - window);
      inputs->insert(inputs->end(), all_.begin() + start, all_.begin() + start + window);
      (*targets)[row] = all_[start + window];
    }
  }

 private:
  std::string all_;
};

}  // namespace trainer

#endif  // FTAR_EXAMPLES_TRAINER_TEXT_H_
