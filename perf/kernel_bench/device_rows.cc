#include <algorithm>
#include <chrono>
#include <memory>

#include "kernels/device.h"
#include "perf/kernel_bench/bench.h"
#include "reduce/reduce.h"

namespace ftar::kernel_bench {
namespace {

using Clock = std::chrono::steady_clock;
using kernels::DeviceSpace;
using kernels::Shape;
using reduce::Dtype;
using reduce::Redop;

struct NamedType {
  const char* name;
  Dtype dtype;
};
constexpr NamedType kTypes[] = {
    {"f32", Dtype::kF32},   {"f64", Dtype::kF64},       {"f16", Dtype::kF16},
    {"bf16", Dtype::kBF16}, {"f8e4m3", Dtype::kF8E4M3}, {"f8e5m2", Dtype::kF8E5M2},
    {"i8", Dtype::kI8},     {"u8", Dtype::kU8},         {"i32", Dtype::kI32},
    {"u32", Dtype::kU32},   {"i64", Dtype::kI64},       {"u64", Dtype::kU64}};

// One sweep's memory and clock. Any call that fails ends the sweep: `status` tells.
class Bench {
 public:
  Bench(const Plan& plan, const Report& report)
      : plan_(plan),
        report_(report),
        end_(Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                std::chrono::duration<double>(plan.seconds))) {}

  Status Open(const kernels::DeviceFacts& facts) {
    facts_ = facts;
    // Sixteen sources and a result, of which each lies far outside of the cache.
    out_bytes_ = std::min<uint64_t>(uint64_t{512} << 20, facts.free_bytes / 20) / 4096 * 4096;
    in_bytes_ = uint64_t{2} << 20;
    FTAR_RETURN_IF_ERROR(stream_.Open());
    FTAR_RETURN_IF_ERROR(kernels::LoadAll());
    for (int i = 0; i < kBuffers; ++i) {
      Expected<void*> place = space_.Allocate(out_bytes_);
      if (!place.ok()) return place.status();
      buffers_.push_back(place.value());
      // Bytes whose floats are small numbers: 0x3c is about 1 in most types.
      FTAR_RETURN_IF_ERROR(stream_.Set(place.value(), 0x3c, out_bytes_));
    }
    Expected<void*> words = space_.Allocate(256);
    if (!words.ok()) return words.status();
    checksum_ = static_cast<uint32_t*>(words.value());
    return stream_.Wait();
  }

  ~Bench() {
    for (void* buffer : buffers_) static_cast<void>(space_.Free(buffer));
    static_cast<void>(space_.Free(checksum_));
  }

  bool InTime() const { return Clock::now() < end_; }
  int AllBlocks() const { return 2 * facts_.multiprocessors; }

  Status CardsCopy(bool in_cache) {
    const uint64_t bytes = Bytes(in_cache);
    Row row = NewRow("card's copy", "bytes", 1, 1, in_cache);
    FTAR_RETURN_IF_ERROR(
        Time([&](int i) { return stream_.Copy(At(kBuffers - 1), At(i % kSources), bytes); }, &row));
    SetRates(2 * bytes, &row);
    copy_gbs_[in_cache ? 1 : 0] = row.touched_gbs;
    return Finish(2 * bytes, in_cache, &row);
  }

  Status OwnCopy(int destinations, bool in_cache, bool checksum, const Shape& shape) {
    const uint64_t bytes = Bytes(in_cache);
    void* to[] = {At(kBuffers - 1), At(kBuffers - 2)};
    kernels::Control control;
    if (checksum) control.checksum = checksum_;
    const std::span<void* const> places(to, static_cast<size_t>(destinations));
    const Expected<kernels::Plan> plan = kernels::PlanCopy(At(0), places, bytes, control, shape);
    if (!plan.ok()) return plan.status();
    Row row = NewRow(destinations == 0 ? "checksum" : "copy", "bytes", 1, destinations, in_cache);
    row.checksum = checksum;
    return Measure(plan.value(), static_cast<uint64_t>(1 + destinations) * bytes, in_cache, &row);
  }

  Status Sum(const NamedType& type, int sources, bool in_cache, bool checksum, const Shape& shape,
             uint64_t offset = 0) {
    const uint64_t bytes = Bytes(in_cache) - 4096;
    std::vector<reduce::Source> list;
    for (int s = 0; s < sources; ++s) {
      list.push_back({.data = At(s) + (s == 0 ? offset : 0), .format = type.dtype, .weight = 1.0});
    }
    void* to = At(kBuffers - 1);
    kernels::Control control;
    if (checksum) control.checksum = checksum_;
    const Expected<kernels::Plan> plan =
        kernels::PlanReduction({.dtype = type.dtype,
                                .redop = Redop::kSum,
                                .sources = list,
                                .destinations = {&to, 1},
                                .count = bytes / reduce::ElementBytes(type.dtype)},
                               control, shape);
    if (!plan.ok()) return plan.status();
    Row row = NewRow(offset == 0 ? "sum" : "sum, unaligned", type.name, sources, 1, in_cache);
    row.bytes = bytes;
    row.checksum = checksum;
    row.curve = shape.unroll > 0;
    return Measure(plan.value(), static_cast<uint64_t>(sources + 1) * bytes, in_cache, &row);
  }

 private:
  static constexpr int kSources = 16;
  static constexpr int kBuffers = kSources + 2;

  unsigned char* At(int i) const {
    return static_cast<unsigned char*>(buffers_[static_cast<size_t>(i)]);
  }
  uint64_t Bytes(bool in_cache) const { return in_cache ? in_bytes_ : out_bytes_; }

  Row NewRow(const char* kernel, const char* type, int sources, int destinations, bool in_cache) {
    Row row;
    row.where = facts_.name;
    row.kernel = kernel;
    row.type = type;
    row.sources = sources;
    row.destinations = destinations;
    row.cache = in_cache ? "in" : "out";
    row.bytes = Bytes(in_cache);
    return row;
  }

  Status Measure(const kernels::Plan& plan, uint64_t touched, bool in_cache, Row* row) {
    row->blocks = plan.blocks;
    row->threads = plan.threads;
    row->unroll = plan.id.unroll;
    FTAR_RETURN_IF_ERROR(Time([&](int) { return kernels::Launch(plan, stream_.handle()); }, row));
    return Finish(touched, in_cache, row);
  }

  Status Finish(uint64_t touched, bool in_cache, Row* row) {
    SetRates(touched, row);
    const double copy = copy_gbs_[in_cache ? 1 : 0];
    row->of_copy = copy > 0 ? row->touched_gbs / copy : 0;
    report_(*row);
    return Status::Ok();
  }

  // So many launches between two events that they last about 10 ms, at least 3; nine times.
  template <typename Enqueue>
  Status Time(const Enqueue& enqueue, Row* row) {
    FTAR_RETURN_IF_ERROR(enqueue(0));
    int launches = 1;
    std::vector<double> us;
    for (int repeat = -1; repeat < (plan_.quick ? 3 : 9); ++repeat) {
      FTAR_RETURN_IF_ERROR(stream_.Start());
      for (int i = 0; i < launches; ++i) FTAR_RETURN_IF_ERROR(enqueue(i));
      FTAR_RETURN_IF_ERROR(stream_.Stop());
      const Expected<double> ms = stream_.ElapsedMs();
      if (!ms.ok()) return ms.status();
      if (repeat >= 0) us.push_back(*ms * 1e3 / launches);
      if (repeat < 0) launches = std::clamp(static_cast<int>(10 / std::max(*ms, 0.01)), 3, 200);
    }
    SetTimes(us, row);
    return Status::Ok();
  }

  Plan plan_;
  const Report& report_;
  Clock::time_point end_;
  kernels::DeviceFacts facts_;
  kernels::Stream stream_;
  DeviceSpace space_{reduce::MemoryKind::kDevice};
  std::vector<void*> buffers_;
  uint32_t* checksum_ = nullptr;
  uint64_t out_bytes_ = 0;
  uint64_t in_bytes_ = 0;
  double copy_gbs_[2] = {};
};

// The bars first, then the curves, so that a short time cuts only the latter.
Status Sweep(const Plan& plan, Bench* bench) {
  const Shape all{.blocks = bench->AllBlocks(), .threads = 512};
  const Shape two{.blocks = 2, .threads = 512};
  for (bool in_cache : {false, true}) {
    FTAR_RETURN_IF_ERROR(bench->CardsCopy(in_cache));
    for (const Shape& shape : {all, two}) {
      for (bool checksum : {false, true}) {
        FTAR_RETURN_IF_ERROR(bench->OwnCopy(1, in_cache, checksum, shape));
        for (int sources : {2, 4, 8, 16}) {
          if (!bench->InTime()) return Status::Ok();
          FTAR_RETURN_IF_ERROR(bench->Sum(kTypes[0], sources, in_cache, checksum, shape));
        }
      }
      FTAR_RETURN_IF_ERROR(bench->OwnCopy(2, in_cache, false, shape));
      FTAR_RETURN_IF_ERROR(bench->OwnCopy(0, in_cache, true, shape));
    }
  }
  for (const NamedType& type : kTypes) {
    for (const Shape& shape : {all, two}) {
      for (int sources : {2, 4}) {
        if (!bench->InTime()) return Status::Ok();
        FTAR_RETURN_IF_ERROR(bench->Sum(type, sources, false, false, shape));
      }
    }
    if (plan.quick) break;
  }
  FTAR_RETURN_IF_ERROR(bench->Sum(kTypes[0], 2, false, false, all, 4));
  for (const NamedType& type : {kTypes[0], kTypes[3]}) {
    for (int unroll : {1, 2, 4, 8}) {
      for (int threads : {256, 512}) {
        for (int blocks : {1, 2, 3, 4, 8, 16, 32, 64, bench->AllBlocks() / 2, bench->AllBlocks()}) {
          if (!bench->InTime() || plan.quick) return Status::Ok();
          const Shape shape{.blocks = blocks, .threads = threads, .unroll = unroll};
          FTAR_RETURN_IF_ERROR(bench->Sum(type, 2, false, false, shape));
        }
      }
    }
  }
  return Status::Ok();
}

}  // namespace

Status DeviceRows(const Plan& plan, const Report& report) {
  const Expected<kernels::DeviceFacts> facts = kernels::CurrentDevice();
  if (!facts.ok()) return Status(Code::kUnsupported, facts.status().text());
  Bench bench(plan, report);
  FTAR_RETURN_IF_ERROR(bench.Open(*facts));
  return Sweep(plan, &bench);
}

}  // namespace ftar::kernel_bench
