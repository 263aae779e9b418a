// Goal: on a real device every kernel gives the bits of the host kernels, writes each element and
// nothing else, stops when it is told to, and leaves the context usable.
//
// A program of its own, without GoogleTest, so that a machine with a toolkit alone can build it.
// --host runs the cases on the host grid instead, which shows what can be shown without a device.
// Inputs are new in each run; the seed is printed, and --seed repeats a run. Exits with 77 where
// there is no device, which is not a success.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "kernels/device.h"
#include "kernels/host_grid.h"
#include "reduce/reduce.h"
#include "tests/unit/kernels/cases.h"
#include "tests/unit/reduce/elements.h"

namespace ftar::kernels {
namespace {

using reduce::Dtype;
using reduce::MemoryKind;
using reduce::Redop;
using reduce::Source;
using Clock = std::chrono::steady_clock;

constexpr int kSkipped = 77;

struct Options {
  uint64_t seed = std::random_device{}();
  double seconds = 20;  // Of random cases.
  size_t max_count = 200000;
  bool quick = false;  // For sanitizers, which slow a device a hundredfold.
  bool host = false;
};

int failures = 0;

void Expect(bool good, const std::string& what) {
  if (good) return;
  ++failures;
  if (failures <= 20) std::printf("  FAILED: %s\n", what.c_str());
}

void ExpectOk(const Status& status, const std::string& what) {
  Expect(status.ok(), what + ": " + status.ToString());
}

bool on_host = false;

// Memory of that kind, or the host's where its grid runs the cases, for as long as the object
// lives.
class Memory {
 public:
  Memory(size_t bytes, MemoryKind kind = MemoryKind::kDevice) {
    if (on_host) {
      space_ = std::make_unique<reduce::HostSpace>();
    } else {
      space_ = std::make_unique<DeviceSpace>(kind);
    }
    const Expected<void*> place = space_->Allocate(bytes);
    ExpectOk(place.status(), "allocate " + std::to_string(bytes));
    if (place.ok()) data_ = place.value();
  }
  ~Memory() { ExpectOk(space_->Free(data_), "free"); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  unsigned char* data() const { return static_cast<unsigned char*>(data_); }
  reduce::Space& space() { return *space_; }

 private:
  std::unique_ptr<reduce::Space> space_;
  void* data_ = nullptr;
};

// A case with its memory.
struct Placing {
  Placing(const CaseOptions& options, uint64_t seed, MemoryKind kind)
      : test(options, seed), memory(test.before().size(), kind) {}
  Case test;
  Memory memory;
};

// Runs cases in memory of that kind, each in its own, as one launch; what has no place in that is
// left out.
void RunCases(const std::vector<CaseOptions>& options, uint64_t seed, MemoryKind kind) {
  std::vector<std::unique_ptr<Placing>> placed;
  Batch batch;
  for (const CaseOptions& o : options) {
    auto one = std::make_unique<Placing>(o, seed + placed.size(), kind);
    const Image& before = one->test.before();
    if (one->memory.data() == nullptr) return;
    ExpectOk(one->memory.space().CopyIn(one->memory.data(), before.data(), before.size()), "copy");
    const Expected<Plan> plan = one->test.PlanAt(one->memory.data());
    ExpectOk(plan.status(), NameOf(o));
    if (plan.ok() && batch.Add(*plan)) placed.push_back(std::move(one));
  }
  ExpectOk(on_host ? RunOnHost(batch) : Launch(batch, nullptr), NameOf(options[0]));
  for (const auto& one : placed) {
    Image after(one->test.before().size());
    ExpectOk(one->memory.space().CopyOut(after.data(), one->memory.data(), after.size()), "copy");
    const std::string wrong = one->test.Compare(after);
    Expect(wrong.empty(), wrong + " (seed " + std::to_string(seed) + " of " +
                              std::to_string(placed.size()) + " in a launch)");
  }
}

void RunCase(const CaseOptions& options, uint64_t seed, MemoryKind kind = MemoryKind::kDevice) {
  RunCases({options}, seed, kind);
}

void TestEveryKernel(const Options& options) {
  uint64_t seed = options.seed;
  for (const Id& id : AllIds()) {
    CaseOptions o = OptionsFor(id);
    o.count = options.quick ? 9001 : 200003;
    for (Placement placement :
         {Placement::kAligned, Placement::kSameOffset, Placement::kOddBytes}) {
      o.placement = placement;
      RunCase(o, ++seed);
    }
    if (on_host) continue;
    const Expected<Resources> resources = ResourcesOf(id);
    ExpectOk(resources.status(), "resources");
    if (resources.ok()) Expect(resources->local_bytes == 0, "a kernel has local memory");
  }
}

// All of the first one's kernel, as far as possible.
std::vector<CaseOptions> RandomBatch(std::mt19937_64* random, size_t max_count) {
  std::vector<CaseOptions> batch = {RandomOptions(random, max_count)};
  while (batch.size() < kMaxJobs && (*random)() % 8 != 0) {
    batch.push_back(AsKernelOf(batch[0], RandomOptions(random, max_count)));
  }
  return batch;
}

void TestRandomCases(const Options& options) {
  std::mt19937_64 random(options.seed);
  const auto end = Clock::now() + std::chrono::duration<double>(options.seconds);
  int launches = 0;
  while (Clock::now() < end && failures < 20) {
    const MemoryKind kind = random() % 8 == 0 ? MemoryKind::kPinned : MemoryKind::kDevice;
    RunCases(RandomBatch(&random, options.max_count), random(), kind);
    ++launches;
  }
  std::printf("  %d launches of random cases\n", launches);
}

// All bit patterns of the small floats to f32, and f32 of every exponent back.
void TestConversions(const Options& options) {
  std::mt19937_64 random(options.seed);
  for (Dtype dtype : {Dtype::kF16, Dtype::kBF16, Dtype::kF8E4M3, Dtype::kF8E5M2}) {
    const size_t bytes = reduce::ElementBytes(dtype);
    const size_t patterns = size_t{1} << (8 * bytes);
    const size_t floats = options.quick ? 1 << 16 : 1 << 22;
    std::vector<unsigned char> small(patterns * bytes), back(floats * bytes), device_back(back);
    std::vector<uint32_t> wide(patterns), device_wide(patterns), in(floats);
    for (size_t i = 0; i < patterns; ++i) std::memcpy(&small[i * bytes], &i, bytes);
    for (uint32_t& x : in) x = static_cast<uint32_t>(random());
    const Source narrow{.data = small.data(), .format = dtype, .weight = 1.0};
    reduce::ReduceToPartial(dtype, Redop::kSum, {&narrow, 1}, wide.data(), patterns);
    // Beside random bits: each value of the type, what lies halfway to the next, and neighbours.
    for (size_t i = 0; i + 1 < patterns && 6 * i + 5 < floats; ++i) {
      const uint32_t middle = wide[i] + (wide[i + 1] - wide[i]) / 2;
      const uint32_t near[] = {wide[i], wide[i] - 1, wide[i] + 1, middle, middle - 1, middle + 1};
      std::memcpy(&in[6 * i], near, sizeof(near));
    }
    reduce::FinishPartial(dtype, Redop::kSum, in.data(), 1.0, 1.0, back.data(), floats);

    Memory a(small.size()), b(patterns * 4), c(floats * 4), d(back.size());
    reduce::Space& space = a.space();
    ExpectOk(space.CopyIn(a.data(), small.data(), small.size()), "copy in");
    ExpectOk(space.CopyIn(c.data(), in.data(), floats * 4), "copy in");
    const Source from_small{.data = a.data(), .format = dtype, .weight = 1.0};
    const Source from_wide{.data = c.data(), .format = Dtype::kF32, .weight = 1.0};
    reduce::SpaceReduction widen{.dtype = dtype, .sources = {&from_small, 1}, .dst = b.data()};
    widen.to_partial = true;
    widen.count = patterns;
    ExpectOk(space.Reduce(widen), "widen");
    reduce::SpaceReduction rounding{.dtype = dtype, .sources = {&from_wide, 1}, .dst = d.data()};
    rounding.count = floats;
    ExpectOk(space.Reduce(rounding), "narrow");
    ExpectOk(space.CopyOut(device_wide.data(), b.data(), patterns * 4), "copy out");
    ExpectOk(space.CopyOut(device_back.data(), d.data(), device_back.size()), "copy out");
    Expect(device_wide == wide, reduce::NameOf(dtype) + " widens otherwise than on the host");
    Expect(device_back == back, reduce::NameOf(dtype) + " rounds otherwise than on the host");
  }
}

// Each buffer an allocation of exactly its bytes, for memcheck and initcheck to watch its ends.
void TestExactAllocations(const Options& options) {
  std::mt19937_64 random(options.seed);
  for (Dtype dtype : reduce::AllDtypes()) {
    for (size_t count : {1, 2, 7, 33, 1001, 40000}) {
      const size_t bytes = count * reduce::ElementBytes(dtype);
      std::vector<unsigned char> x(bytes), y(bytes), expected(bytes), got(bytes);
      for (size_t i = 0; i < bytes; ++i) {
        x[i] = static_cast<unsigned char>(random());
        y[i] = static_cast<unsigned char>(random());
      }
      Memory a(bytes), b(bytes), c(bytes);
      reduce::Space& space = a.space();
      ExpectOk(space.CopyIn(a.data(), x.data(), bytes), "copy in");
      ExpectOk(space.CopyIn(b.data(), y.data(), bytes), "copy in");
      const Source host[] = {{.data = x.data(), .format = dtype, .weight = 1.0},
                             {.data = y.data(), .format = dtype, .weight = 1.0}};
      const Source device[] = {{.data = a.data(), .format = dtype, .weight = 1.0},
                               {.data = b.data(), .format = dtype, .weight = 1.0}};
      reduce::ReduceToFinal(dtype, Redop::kMax, host, 1, 1, expected.data(), count);
      reduce::SpaceReduction r{.dtype = dtype, .redop = Redop::kMax, .sources = device};
      r.dst = c.data();
      r.count = count;
      ExpectOk(space.Reduce(r), "reduce");
      ExpectOk(space.CopyOut(got.data(), c.data(), bytes), "copy out");
      Expect(got == expected, reduce::NameOf(dtype) + " of " + std::to_string(count));
    }
  }
}

// 1 GiB touched and more; the result is sampled against sums in f64.
void TestLarge(const Options& options) {
  const size_t count = options.quick ? size_t{1} << 20 : size_t{1} << 26;
  const int kSources = 4;
  std::mt19937_64 random(options.seed);
  std::normal_distribution<float> normal;
  std::vector<std::vector<float>> in(kSources, std::vector<float>(1 << 16));
  std::vector<std::unique_ptr<Memory>> buffers;
  std::vector<Source> sources;
  for (auto& values : in) {
    for (float& x : values) x = normal(random);
    buffers.push_back(std::make_unique<Memory>(count * 4));
    for (size_t at = 0; at < count; at += values.size()) {
      ExpectOk(buffers.back()->space().CopyIn(buffers.back()->data() + at * 4, values.data(),
                                              values.size() * 4),
               "copy in");
    }
    sources.push_back({.data = buffers.back()->data(), .format = Dtype::kF32, .weight = 1.0});
  }
  Memory out(count * 4);
  Stream stream;
  ExpectOk(stream.Open(), "stream");
  for (int blocks : {2, 264}) {
    ExpectOk(stream.Set(out.data(), 0xdb, count * 4), "poison");
    void* to = out.data();
    const Expected<Plan> plan =
        PlanReduction({.sources = sources, .destinations = {&to, 1}, .count = count}, {},
                      {.blocks = blocks, .threads = 512, .unroll = 0, .chunk_bytes = 0});
    ExpectOk(plan.ok() ? Launch(plan.value(), stream.handle()) : plan.status(), "large");
    ExpectOk(stream.Wait(), "large");
    std::vector<float> got(count);
    ExpectOk(out.space().CopyOut(got.data(), out.data(), count * 4), "copy out");
    size_t wrong = 0;
    for (size_t i = 0; i < count; ++i) {
      double exact = 0, magnitude = 0;
      for (const auto& values : in) {
        exact += values[i % values.size()];
        magnitude += std::fabs(values[i % values.size()]);
      }
      if (!(std::fabs(got[i] - exact) <= magnitude * kSources * 0x1p-24)) ++wrong;
    }
    Expect(wrong == 0, "large sum: " + std::to_string(wrong) + " elements are not their f64 sum");
  }
}

// One block with minutes of work is stopped from the host; then the context still works.
void TestAbort(const Options& options) {
  const size_t bytes = options.quick ? size_t{16} << 20 : size_t{256} << 20;
  Memory from(bytes), to(bytes), words(256, MemoryKind::kPinned);
  auto* word = reinterpret_cast<volatile uint32_t*>(words.data());
  word[0] = 7;
  word[1] = 0;
  Control control;
  control.abort_word = reinterpret_cast<uint32_t*>(words.data());
  control.epoch = 7;
  control.stopped = reinterpret_cast<uint32_t*>(words.data()) + 1;
  void* destination = to.data();
  const Expected<Plan> plan =
      PlanCopy(from.data(), {&destination, 1}, bytes, control,
               {.blocks = 1, .threads = 32, .unroll = 0, .chunk_bytes = 65536});
  ExpectOk(plan.status(), "abort");
  Stream stream;
  ExpectOk(stream.Open(), "stream");
  ExpectOk(stream.Set(from.data(), 1, bytes), "set");
  ExpectOk(LoadAll(), "load");
  ExpectOk(stream.Wait(), "wait");
  for (int i = 0; i < 50; ++i) ExpectOk(Launch(plan.value(), stream.handle()), "abort");
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  const auto struck = Clock::now();
  word[0] = 8;
  ExpectOk(stream.Wait(), "wait");
  const double ms = std::chrono::duration<double, std::milli>(Clock::now() - struck).count();
  std::printf("  50 queued copies ended %.3f ms after the abort\n", ms);
  Expect(word[1] == 1, "nobody was stopped");
  CaseOptions o;
  o.count = 1000;
  RunCase(o, options.seed);
}

// The same job gives the same image however often and on whatever grid it runs.
void TestRepeats(const Options& options) {
  CaseOptions o;
  o.dtype = Dtype::kBF16;
  o.sources = 7;
  o.destinations = 2;
  o.count = options.quick ? 20000 : 1000003;
  for (int i = 0; i < 20; ++i) {
    o.shape.blocks = 1 + i * 13;
    RunCase(o, options.seed);
  }
}

bool Parse(int argc, char** argv, Options* options) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--quick") {
      options->quick = true;
      options->seconds = 10;
      options->max_count = 5000;
    } else if (word == "--host") {
      options->host = options->quick = true;  // One thread plays all of the device's.
      options->max_count = 20000;
    } else if (word == "--seed" && i + 1 < argc) {
      options->seed = std::strtoull(argv[++i], nullptr, 10);
    } else if (word == "--seconds" && i + 1 < argc) {
      options->seconds = std::strtod(argv[++i], nullptr);
    } else {
      std::fprintf(stderr, "usage: ftar-gpu-test [--quick | --host] [--seed N] [--seconds S]\n");
      return false;
    }
  }
  return true;
}

struct Part {
  const char* name;
  bool on_host;
  void (*run)(const Options&);
};
constexpr Part kParts[] = {{"every kernel", true, TestEveryKernel},
                           {"random cases", true, TestRandomCases},
                           {"repeats", true, TestRepeats},
                           {"conversions", false, TestConversions},
                           {"exact allocations", false, TestExactAllocations},
                           {"large", false, TestLarge},
                           {"abort", false, TestAbort}};

int RunParts(const Options& options) {
  int good = 0, bad = 0;
  for (const Part& part : kParts) {
    if (on_host && !part.on_host) continue;
    const int before = failures;
    const auto start = Clock::now();
    part.run(options);
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    std::printf("%-18s %s (%.1f s)\n", part.name, failures == before ? "ok" : "FAILED", seconds);
    std::fflush(stdout);
    failures == before ? ++good : ++bad;
  }
  std::printf("%d passed, %d failed\n", good, bad);
  return bad == 0 ? 0 : 1;
}

int Run(int argc, char** argv) {
  Options options;
  if (!Parse(argc, argv, &options)) return 2;
  const auto seed = static_cast<unsigned long long>(options.seed);
  if (options.host) {
    on_host = true;
    std::printf("the host grid; seed %llu\n", seed);
    return RunParts(options);
  }
  const Expected<DeviceFacts> device = CurrentDevice();
  if (!device.ok()) {
    std::printf("SKIPPED, nothing is proved: no GPU here (%s)\n",
                device.status().ToString().c_str());
    return kSkipped;
  }
  std::printf("%s, compute capability %d.%d, %d multiprocessors; seed %llu\n", device->name.c_str(),
              device->major, device->minor, device->multiprocessors, seed);
  return RunParts(options);
}

}  // namespace
}  // namespace ftar::kernels

int main(int argc, char** argv) { return ftar::kernels::Run(argc, argv); }
