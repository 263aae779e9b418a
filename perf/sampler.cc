#include "perf/sampler.h"

#include <algorithm>

#include "perf/clock.h"
#include "perf/kernels.h"
#include "perf/types.h"

namespace ftar::perf {
namespace {

// Keeps the core busy, as a training step does between its collectives.
void Compute(int64_t span_ns) {
  for (const int64_t end_ns = NowNs() + span_ns; NowNs() < end_ns;) {
  }
}

}  // namespace

PairPosition PositionOf(int iters, int pairs, int index) {
  PairPosition position;
  if (pairs < 1) return position;
  // Edges of equal blocks, the remainder spread over them.
  const auto edge = [&](int64_t pair) { return static_cast<int>(pair * iters / pairs); };
  const int pair = static_cast<int>(((int64_t{index} + 1) * pairs - 1) / iters);
  position.block = edge(pair + 1) - edge(pair);
  position.ideal_before = pair % 2 == 1 && index == edge(pair);
  position.ideal_after = pair % 2 == 0 && index + 1 == edge(pair + 1);
  return position;
}

Sampler::Sampler(const Options& options, Arena* arena, Buffers* memory)
    : arena_(arena),
      memory_(memory),
      on_device_(options.OnDevice()),
      rank_(options.role.index),
      compute_ns_(int64_t{options.compute_us} * 1000) {
  if (options.ideal == IdealKind::kPull || options.ideal == IdealKind::kPush)
    ideal_.emplace(arena, rank_, options.ideal == IdealKind::kPush);
}

void Sampler::BeginPlace(const Row& row, Tile input, std::vector<Shape> shapes,
                         std::vector<BufferPair> buffers, Beside beside) {
  iters_ = row.iters;
  pairs_ = row.pairs;
  width_ = input.element_bytes;
  input_ = std::move(input);
  shapes_ = std::move(shapes);
  buffers_ = std::move(buffers);
  times_ns_.clear();
  ideal_ns_.clear();
  beside_ = std::move(beside.work);
  ideal_buffers_ = std::move(beside.buffers);
  if (!ideal_) return;
  char* next = ideal_->buffers();
  for (const Shape& shape : shapes_) {
    const uint64_t stride = Buffers::StrideOf(shape.send_elements * width_);
    ideal_buffers_.push_back({next, next + stride});
    next += 2 * stride;
  }
  arena_->Touch();
  beside_ = [this] {
    for (size_t i = 0; i < ideal_buffers_.size(); ++i) {
      ideal_->AllReduce(reinterpret_cast<const float*>(ideal_buffers_[i].send),
                        reinterpret_cast<float*>(ideal_buffers_[i].recv), shapes_[i].count);
    }
    return FTAR_OK;
  };
}

ftarResult_t Sampler::Iterate(int index, const Work& work) {
  const PairPosition position = PositionOf(iters_, pairs_, index);
  ftarResult_t status = FTAR_OK;
  if (position.ideal_before) status = RunIdeal(position.block);
  if (status == FTAR_OK) status = Take(buffers_, work, &times_ns_);
  if (status == FTAR_OK && position.ideal_after) status = RunIdeal(position.block);
  return status;
}

ftarResult_t Sampler::RunIdeal(int iterations) {
  ftarResult_t status = FTAR_OK;
  for (int i = 0; i < iterations && status == FTAR_OK; ++i)
    status = Take(ideal_buffers_, beside_, &ideal_ns_);
  return status;
}

ftarResult_t Sampler::Take(const std::vector<BufferPair>& buffers, const Work& work,
                           std::vector<int64_t>* times_ns) {
  for (size_t i = 0; i < buffers.size(); ++i) {
    const uint64_t elements = shapes_[i].send_elements;
    const auto fill = [&](char* send) { FillTiled(input_, 0, elements, send); };
    if (!memory_->Write(buffers[i].send, elements * width_, fill)) return FTAR_ERR_DEVICE;
  }
  if (compute_ns_ > 0) Compute(compute_ns_);
  arena_->Meet(rank_);
  const int64_t begin_ns = NowNs();
  const ftarResult_t status = work();
  arena_->Stamp(rank_, begin_ns, NowNs());
  if (status != FTAR_OK) return status;
  uint64_t all = 0;
  for (size_t i = 0; i < buffers.size() && !on_device_; ++i)
    all ^= ReadAll(buffers[i].recv, shapes_[i].recv_elements * width_);
  // The reading must not be found to be for nothing.
  asm volatile("" : : "r"(all) : "memory");
  arena_->Meet(rank_);
  times_ns->push_back(arena_->Elapsed());
  return FTAR_OK;
}

uint64_t Sampler::CountIdealWrong(const Tile& expected) {
  uint64_t wrong = 0;
  std::vector<int64_t> unrecorded;
  if (!ideal_ && Take(ideal_buffers_, beside_, &unrecorded) != FTAR_OK) wrong = 1;
  for (size_t i = 0; i < ideal_buffers_.size(); ++i)
    wrong += CountWrong(expected, 0, shapes_[i].recv_elements, ideal_buffers_[i].recv);
  return wrong;
}

}  // namespace ftar::perf
