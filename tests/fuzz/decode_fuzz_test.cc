// Replays the corpus of decode_fuzz through the fuzz target, each file also with damage drawn from
// a fixed seed.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "tests/unit/wire/fields.h"
#include "wire/codec.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

using Bytes = std::vector<uint8_t>;

std::vector<Bytes> Corpus() {
  std::vector<Bytes> corpus;
  for (const auto& file : std::filesystem::directory_iterator(FTAR_CORPUS)) {
    std::ifstream in(file.path(), std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  for (bool filled : {false, true}) {
    for (const auto& message : ftar::wire::test::AllMessages(filled)) {
      const auto bytes = ftar::wire::Encode(message);
      const auto* first = reinterpret_cast<const uint8_t*>(bytes.data());
      corpus.emplace_back(first, first + bytes.size());
    }
  }
  return corpus;
}

void Feed(const Bytes& bytes) { LLVMFuzzerTestOneInput(bytes.data(), bytes.size()); }

TEST(DecodeFuzz, CorpusPasses) {
  const std::vector<Bytes> corpus = Corpus();
  ASSERT_GT(corpus.size(), 2 * std::variant_size_v<ftar::wire::AnyMessage>)
      << "no files in " << FTAR_CORPUS;
  for (const Bytes& bytes : corpus) Feed(bytes);
}

// Words are the offsets and lengths of the format, so replacing whole words reaches further than
// flipping bits.
TEST(DecodeFuzz, DamagedCorpusPasses) {
  std::mt19937 random(1);
  constexpr uint32_t kWords[] = {0, 1, 4, 0xff, 0x7fffffff, 0x80000000, 0xffffffff, 0xfffffffc};
  const auto below = [&random](size_t end) { return static_cast<size_t>(random() % end); };
  for (const Bytes& original : Corpus()) {
    if (original.size() < 8) continue;
    for (int round = 0; round < 200; ++round) {
      Bytes bytes = original;
      for (size_t edits = 1 + below(4); edits > 0; --edits) {
        const uint32_t word = below(2) == 0 ? kWords[below(std::size(kWords))] : random();
        const size_t at = below(bytes.size() / 4) * 4;
        for (size_t i = 0; i < 4; ++i) bytes[at + i] = static_cast<uint8_t>(word >> (8 * i));
      }
      if (below(4) == 0) bytes.resize(below(bytes.size()));
      Feed(bytes);
    }
  }
}

}  // namespace
