#include "runtime/accelerator.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <thread>
#include <utility>
#include <vector>

#include "device/aside.h"
#include "device/load.h"
#include "kernels/plan.h"
#include "runtime/clock.h"

namespace ftar::runtime {
namespace {

constexpr size_t kZeroBytes = 64 * 1024;
// Taking pinned or device memory may cost milliseconds, so what was taken stays.
constexpr size_t kKeptMax = size_t{1} << 40;
// Pieces grow with what was taken before, up to the most: the driver maps each under its lock, and
// an operation in place may take a gigabyte at once. Not the host's: pinning and clearing much at
// once takes long.
constexpr size_t kPieceBytes = 2 << 20, kPieceBytesMost = 64 << 20;
constexpr size_t kWarmBlockBytes = 1 << 20;
constexpr int kWarmBlocks = 16;
constexpr TimeNs kPatience = 5 * kSecond;

}  // namespace

std::byte* GpuBlocks::Piece(size_t bytes) {
  void* address = nullptr;
  if (home_ == Home::kPinned) {
    const Expected<void*> made = gpu_->AllocatePinned(bytes);
    if (made.ok()) address = *made;
  } else {
    const Expected<device::SharedBlock> made = gpu_->AllocateShared(bytes);
    if (made.ok()) address = made->address;
    // Nobody maps these, and there may be hundreds.
    if (made.ok() && made->descriptor >= 0) close(made->descriptor);
  }
  if (address == nullptr) return nullptr;
  pieces_.push_back(address);
  taken_bytes_ += bytes;
  return static_cast<std::byte*>(address);
}

std::byte* GpuBlocks::Allocate(size_t bytes) {
  if (bytes > rest_bytes_) {
    const size_t most = home_ == Home::kPinned ? kPieceBytes : kPieceBytesMost;
    size_t whole = std::clamp(std::bit_floor(taken_bytes_), kPieceBytes, most);
    std::byte* piece = bytes > whole / 2 ? nullptr : Piece(whole);
    if (piece == nullptr) {
      // It is large itself, or the GPU has no more than this left.
      whole = std::max(bytes, kPieceBytes);
      piece = Piece(whole);
      if (piece == nullptr) return nullptr;
    }
    if (whole - bytes < rest_bytes_) return piece;
    rest_ = piece;
    rest_bytes_ = whole;
  }
  rest_bytes_ -= bytes;
  return std::exchange(rest_, rest_ + bytes);
}

BlockSource GpuBlocks::source() {
  return {[this](size_t bytes) { return Allocate(bytes); }, [](std::byte*) {}};
}

void GpuBlocks::FreeAll() {
  for (void* const piece : pieces_) {
    static_cast<void>(home_ == Home::kPinned ? gpu_->FreePinned(piece) : gpu_->FreeShared(piece));
  }
  pieces_.clear();
}

Expected<std::unique_ptr<Accelerator>> Accelerator::Open(const Options& options) {
  Expected<std::unique_ptr<device::Gpu>> opened = device::OpenGpu(options.library, options.device);
  if (!opened.ok()) return opened.status();
  FTAR_RETURN_IF_ERROR((*opened)->LoadKernels());
  const TimeNs patience = options.executor.stuck_ns > 0 ? options.executor.stuck_ns / 2 : kPatience;
  const std::shared_ptr<device::Gpu> gpu = device::CallAside(std::move(*opened), patience);
  auto executor = device::OpenExecutor(gpu, options.executor);
  if (!executor.ok()) return executor.status();
  const Expected<void*> zeros = gpu->AllocatePinned(kZeroBytes);
  if (!zeros.ok()) return zeros.status();
  std::unique_ptr<Accelerator> out(
      new Accelerator(gpu, std::move(executor.value()), *zeros, options.shape, patience));
  std::vector<StagingBlock> warm;
  for (int i = 0; i < kWarmBlocks; ++i) {
    warm.push_back(out->pinned_.Take(kWarmBlockBytes));
    if (warm.back().data == nullptr) {
      return Status(Code::kMemory, "no pinned memory for the GPU's staging");
    }
  }
  for (const StagingBlock& block : warm) out->pinned_.Give(block, 0);
  // First pieces, from which what is small is cut.
  out->pinned_.Give(out->pinned_.Take(4096), 0);
  out->device_.Give(out->device_.Take(4096), 0);
  return out;
}

Accelerator::Accelerator(std::shared_ptr<device::Gpu> gpu,
                         std::unique_ptr<device::Executor> executor, void* zeros,
                         const kernels::Shape& shape, TimeNs patience_ns)
    : gpu_(std::move(gpu)),
      executor_(std::move(executor)),
      zeros_(zeros),
      shape_(shape),
      patience_ns_(patience_ns),
      pinned_blocks_(gpu_.get(), Home::kPinned),
      device_blocks_(gpu_.get(), Home::kDevice),
      pinned_(kKeptMax, pinned_blocks_.source()),
      device_(kKeptMax, device_blocks_.source()) {}

Accelerator::~Accelerator() {
  executor_->Abort();
  const bool quiet = Drain(kSecond) && executor_->status().ok();
  executor_.reset();
  if (!quiet) return;  // what still runs may touch its memory: that is lost with the GPU
  pinned_blocks_.FreeAll();
  device_blocks_.FreeAll();
  static_cast<void>(gpu_->FreePinned(zeros_));
}

Expected<uint64_t> Accelerator::Submit(const Expected<kernels::Plan>& plan) {
  if (!plan.ok()) return plan.status();
  return executor_->Submit(*plan);
}

// What is small ends sooner with fewer blocks.
kernels::Shape Accelerator::ShapeFor(size_t bytes) const {
  constexpr size_t kSmallBytes = 128 << 10;
  return bytes > kSmallBytes ? shape_ : kernels::Shape();
}

Expected<uint64_t> Accelerator::Copy(void* to, const void* from, size_t bytes) {
  return Submit(kernels::PlanCopy(from, {&to, 1}, bytes, {}, ShapeFor(bytes)));
}

Expected<uint64_t> Accelerator::Zero(void* to, size_t bytes) {
  uint64_t last = executor_->submitted();
  for (size_t at = 0; at < bytes; at += kZeroBytes) {
    const Expected<uint64_t> number =
        Copy(static_cast<std::byte*>(to) + at, zeros_, std::min(kZeroBytes, bytes - at));
    if (!number.ok()) return number;
    last = *number;
  }
  return last;
}

Expected<uint64_t> Accelerator::Reduce(const reduce::SpaceReduction& reduction, TimeNs now) {
  StagingBlock partial;
  if (reduction.sources.size() > kernels::kMaxSources) {
    const auto wide = reduce::AccumulatorOf(reduction.dtype, reduction.redop);
    partial = Take(Home::kDevice, reduction.count * reduce::ElementBytes(wide));
    if (partial.data == nullptr) return Status(Code::kMemory, "no device memory for a partial sum");
  }
  const auto plans = kernels::PlanTurns(
      reduction, partial.data, ShapeFor(reduction.count * reduce::ElementBytes(reduction.dtype)));
  uint64_t last = executor_->submitted();
  if (plans.ok()) {
    for (const kernels::Plan& plan : *plans) last = executor_->Submit(plan);
  }
  Give(Home::kDevice, partial, now);
  if (!plans.ok()) return plans.status();
  return last;
}

bool Accelerator::Poll(TimeNs now) {
  const uint64_t done = executor_->Poll(now);
  while (!returned_.empty() && returned_.front().number <= done) {
    PoolOf(returned_.front().home).Give(returned_.front().block, now);
    returned_.pop_front();
  }
  return std::exchange(done_, done) != done;
}

bool Accelerator::Drain(TimeNs limit_ns) {
  const TimeNs deadline = Now() + limit_ns;
  for (TimeNs now = Now();; now = Now()) {
    Poll(now);
    if (idle()) return true;
    if (now >= deadline || !executor_->status().ok()) return false;
    std::this_thread::yield();
  }
}

StagingBlock Accelerator::Take(Home home, size_t bytes) { return PoolOf(home).Take(bytes); }

void Accelerator::Give(Home home, StagingBlock block, TimeNs now) {
  if (block.data == nullptr) return;
  if (idle()) return PoolOf(home).Give(block, now);
  returned_.push_back({executor_->submitted(), home, block});
}

size_t Accelerator::bytes() const {
  return pinned_.used_bytes() + pinned_.cached_bytes() + device_.used_bytes() +
         device_.cached_bytes();
}

}  // namespace ftar::runtime
