// Runs a fuzz target over its corpus and over inputs drawn from a fixed seed, as a plain test.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

using Bytes = std::vector<uint8_t>;

TEST(Replay, CorpusPasses) {
  if (!std::filesystem::exists(FTAR_CORPUS)) return;  // no finding so far
  for (const auto& file : std::filesystem::directory_iterator(FTAR_CORPUS)) {
    SCOPED_TRACE(file.path());
    std::ifstream in(file.path(), std::ios::binary);
    const Bytes bytes{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  }
}

TEST(Replay, RandomInputsPass) {
  std::mt19937 random(1);
  for (int round = 0; round < 3000; ++round) {
    Bytes bytes(random() % (round % 10 == 0 ? 4000 : 300));
    // Small bytes are the usual choices of most targets.
    const uint32_t range = round % 3 == 0 ? 256 : round % 3 == 1 ? 16 : 170;
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random() % range);
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  }
}

}  // namespace
