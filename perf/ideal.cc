#include "perf/ideal.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "perf/kernels.h"

namespace ftar::perf {
namespace {

constexpr size_t kWordsPerLine = 7;
constexpr size_t kFloatsPerLine = 2 * kWordsPerLine;
constexpr size_t kLines = (Ideal::kInlineBytes / 4 + kFloatsPerLine - 1) / kFloatsPerLine;
constexpr uint64_t kFloatsPerCacheLine = 16;
constexpr uint64_t kBlockBytes = 128 << 10;  // a block of each source and the sum fit into level 2
// Progress is counted within an operation, far from the next one's.
constexpr uint64_t kStepsPerOp = uint64_t{1} << 24;

using LineWords = std::array<uint64_t, kWordsPerLine>;

}  // namespace

// Payload and sequence number come together: whoever sees the number has the payload.
struct alignas(64) Ideal::Line {
  std::array<std::atomic<uint64_t>, kWordsPerLine> words;
  std::atomic<uint64_t> op;
};

// What a rank writes and all read. Two sets of lines take turns: who has all lines of one operation
// knows that everybody has finished the one before.
struct Ideal::Mail {
  ArenaFlag progress;
  std::array<std::array<Line, kLines>, 2> lines;
};

uint64_t Ideal::PartBytes(uint64_t buffer_bytes) {
  return (sizeof(Mail) + kPage - 1) / kPage * kPage + buffer_bytes;
}

uint64_t Ideal::MovedBytes(uint64_t bytes, int ranks, bool push) {
  const auto n = static_cast<uint64_t>(ranks);
  if (bytes <= kInlineBytes) return (n + 3) * bytes;  // into the line, and the sum of all lines
  const uint64_t read = bytes;                        // a slice of each input
  if (push) return read + bytes;
  return read + bytes / n + 2 * (bytes - bytes / n);  // the own slice, and the others' are fetched
}

Ideal::Ideal(Arena* arena, int rank, bool push)
    : arena_(arena),
      rank_(rank),
      ranks_(arena->ranks()),
      push_(push),
      block_elements_(kBlockBytes / sizeof(float)),
      cache_bytes_(CacheBytes()),
      inputs_(arena->ranks()),
      fetched_(arena->ranks()),
      wanted_(arena->ranks()) {
  for (int r = 0; r < ranks_; ++r) {
    mail_.push_back(reinterpret_cast<Mail*>(arena->part(r)));
    bases_.push_back(arena->part(r) + PartBytes(0));
  }
}

float* Ideal::Floats(int rank, uint64_t offset) const {
  return reinterpret_cast<float*>(bases_[rank] + offset);
}

Ideal::Slice Ideal::SliceOf(int rank, uint64_t count) const {
  const uint64_t lines = (count + kFloatsPerCacheLine - 1) / kFloatsPerCacheLine;
  const auto edge = [&](uint64_t r) {
    return std::min(count, lines * r / ranks_ * kFloatsPerCacheLine);
  };
  return {edge(rank), edge(rank + 1)};
}

uint64_t Ideal::BlocksOf(Slice slice) const {
  return (slice.end - slice.begin + block_elements_ - 1) / block_elements_;
}

Ideal::Slice Ideal::BlockOf(Slice slice, uint64_t block) const {
  const uint64_t begin = slice.begin + block * block_elements_;
  return {begin, std::min(begin + block_elements_, slice.end)};
}

uint64_t Ideal::ProgressOf(int rank) const {
  return mail_[rank]->progress.value.load(std::memory_order_acquire);
}

void Ideal::Announce(uint64_t progress) {
  mail_[rank_]->progress.value.store(op_ * kStepsPerOp + progress, std::memory_order_release);
}

void Ideal::AwaitAll(uint64_t progress) {
  Patience patience(ranks_);
  for (int r = 0; r < ranks_; ++r) {
    while (ProgressOf(r) < op_ * kStepsPerOp + progress) patience.Pause();
  }
}

void Ideal::AllReduce(const float* send, float* recv, uint64_t count) {
  ++op_;
  if (count * sizeof(float) <= kInlineBytes) return Exchange(send, recv, count);
  const auto offset = [&](const float* p) {
    return static_cast<uint64_t>(reinterpret_cast<const char*>(p) - bases_[rank_]);
  };
  // Inputs and outputs of all ranks against the caches.
  streams_ = count * sizeof(float) * 2 * ranks_ > cache_bytes_;
  Announce(1);
  AwaitAll(1);
  if (push_) {
    Push(offset(send), offset(recv), count);
  } else {
    Pull(offset(send), offset(recv), count);
  }
}

void Ideal::Exchange(const float* send, float* recv, uint64_t count) {
  const size_t lines = (count + kFloatsPerLine - 1) / kFloatsPerLine;
  auto& mine = mail_[rank_]->lines[op_ % 2];
  for (size_t i = 0; i < lines; ++i) {
    LineWords words{};
    const size_t n = std::min<size_t>(kFloatsPerLine, count - i * kFloatsPerLine);
    std::memcpy(words.data(), send + i * kFloatsPerLine, n * sizeof(float));
    for (size_t w = 0; w < kWordsPerLine; ++w)
      mine[i].words[w].store(words[w], std::memory_order_relaxed);
    mine[i].op.store(op_, std::memory_order_release);
  }
  Patience patience(ranks_);
  for (size_t i = 0; i < lines; ++i) {
    std::array<float, kFloatsPerLine> sums{};
    for (int r = 0; r < ranks_; ++r) {
      const Line& line = mail_[r]->lines[op_ % 2][i];
      while (line.op.load(std::memory_order_acquire) != op_) patience.Pause();
      LineWords words;
      for (size_t w = 0; w < kWordsPerLine; ++w)
        words[w] = line.words[w].load(std::memory_order_relaxed);
      const auto values = std::bit_cast<std::array<float, kFloatsPerLine>>(words);
      for (size_t f = 0; f < kFloatsPerLine; ++f)
        sums[f] = r == 0 ? values[f] : sums[f] + values[f];
    }
    const size_t n = std::min<size_t>(kFloatsPerLine, count - i * kFloatsPerLine);
    std::memcpy(recv + i * kFloatsPerLine, sums.data(), n * sizeof(float));
  }
}

void Ideal::SumSlice(Slice slice, uint64_t send, uint64_t recv) {
  for (int r = 0; r < ranks_; ++r) inputs_[r] = Floats(r, send) + slice.begin;
  SumFloats(Floats(rank_, recv) + slice.begin, inputs_.data(), ranks_, slice.end - slice.begin);
}

// Copies what `owner` has finished beyond block `from`; answers how many blocks there are now.
uint64_t Ideal::Fetch(int owner, uint64_t from, uint64_t blocks, uint64_t recv, uint64_t count) {
  const uint64_t progress = ProgressOf(owner) - op_ * kStepsPerOp - 1;
  const uint64_t ready = std::min(progress, blocks);
  const Slice slice = SliceOf(owner, count);
  for (uint64_t block = from; block < ready; ++block) {
    const Slice part = BlockOf(slice, block);
    float* to = Floats(rank_, recv) + part.begin;
    const float* source = Floats(owner, recv) + part.begin;
    const uint64_t bytes = (part.end - part.begin) * sizeof(float);
    if (streams_) {
      StreamCopy(to, source, bytes);
    } else {
      std::memcpy(to, source, bytes);
    }
  }
  return ready;
}

// Somebody who is ahead is in the next operation, and has finished all of this one.
void Ideal::Pull(uint64_t send, uint64_t recv, uint64_t count) {
  const Slice mine = SliceOf(rank_, count);
  const uint64_t blocks = BlocksOf(mine);
  uint64_t left = 0;
  for (int r = 0; r < ranks_; ++r) {
    fetched_[r] = 0;
    wanted_[r] = r == rank_ ? 0 : BlocksOf(SliceOf(r, count));
    left += wanted_[r];
  }
  Patience patience(ranks_);
  for (uint64_t block = 0; block < blocks || left > 0;) {
    if (block < blocks) {
      SumSlice(BlockOf(mine, block), send, recv);
      Announce(1 + ++block);
    }
    const uint64_t before = left;
    for (int i = 1; i < ranks_ && left > 0; ++i) {
      const int owner = (rank_ + i) % ranks_;
      if (fetched_[owner] == wanted_[owner]) continue;
      const uint64_t ready = Fetch(owner, fetched_[owner], wanted_[owner], recv, count);
      left -= ready - fetched_[owner];
      fetched_[owner] = ready;
    }
    if (left == before && left > 0 && block >= blocks) patience.Pause();
  }
}

void Ideal::Push(uint64_t send, uint64_t recv, uint64_t count) {
  const Slice mine = SliceOf(rank_, count);
  for (uint64_t block = 0; block < BlocksOf(mine); ++block) {
    const Slice part = BlockOf(mine, block);
    SumSlice(part, send, recv);
    const float* sums = Floats(rank_, recv) + part.begin;
    const uint64_t bytes = (part.end - part.begin) * sizeof(float);
    for (int i = 1; i < ranks_; ++i) {
      float* to = Floats((rank_ + i) % ranks_, recv) + part.begin;
      if (streams_) {
        StreamCopy(to, sums, bytes);
      } else {
        std::memcpy(to, sums, bytes);
      }
    }
  }
  Announce(2);
  AwaitAll(2);
}

}  // namespace ftar::perf
