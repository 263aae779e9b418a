#include "tests/unit/kernels/cases.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "reduce/reduce.h"
#include "tests/unit/reduce/elements.h"

namespace ftar::kernels {
namespace {

using reduce::Dtype;
using reduce::Redop;

constexpr size_t kGuard = 64;
constexpr size_t kChecksumAt = 0;
constexpr size_t kFirstArea = 256;
constexpr unsigned char kPoison = 0xdb;

template <typename T>
T Pick(std::mt19937_64* random, std::initializer_list<T> values) {
  return values.begin()[(*random)() % values.size()];
}

// f32 summed in f64, which is WideF32's definition.
void WideSum(const std::vector<const unsigned char*>& from, const std::vector<double>& weights,
             double divisor, double scale, size_t count, unsigned char* to) {
  for (size_t i = 0; i < count; ++i) {
    double sum = 0;
    for (size_t s = 0; s < from.size(); ++s) {
      float x;
      std::memcpy(&x, from[s] + 4 * i, sizeof(x));
      const double term = static_cast<double>(x) * weights[s];
      sum = s == 0 ? term : sum + term;
    }
    const double finished = sum / divisor * scale;
    const float result = static_cast<float>(finished);
    const uint32_t bits = std::isnan(result) ? 0x7fc00000u : BitsOf(result);
    std::memcpy(to + 4 * i, &bits, sizeof(bits));
  }
}

}  // namespace

CaseOptions AsKernelOf(const CaseOptions& first, const CaseOptions& other) {
  CaseOptions out = first;
  out.count = other.count;
  out.placement = other.placement;
  out.destinations = other.destinations;
  out.in_place = other.in_place;
  out.checksum = other.checksum;
  out.shape = other.shape;
  return out;
}

uint32_t WordSum(const unsigned char* bytes, size_t count) {
  uint32_t sum = 0;
  for (size_t i = 0; i < count; ++i) sum += static_cast<uint32_t>(bytes[i]) << (8 * (i % 4));
  return sum;
}

CaseOptions RandomOptions(std::mt19937_64* random, size_t max_count) {
  CaseOptions o;
  o.dtype = static_cast<Dtype>((*random)() % reduce::kDtypeCount);
  do {
    o.redop = static_cast<Redop>((*random)() % reduce::kRedopCount);
  } while (!reduce::Supports(o.dtype, o.redop));
  o.sources = Pick(random, {1, 2, 2, 2, 3, 4, 7, 16});
  o.destinations = Pick(random, {1, 1, 1, 2, 2, 3, 16});
  o.count = (*random)() % 4 == 0 ? (*random)() % 40 : (*random)() % max_count;
  o.placement = static_cast<Placement>((*random)() % 4);
  o.copy = (*random)() % 10 == 0;
  o.partial_mix = (*random)() % 4 == 0;
  o.to_partial = (*random)() % 4 == 0;
  o.wide = o.dtype == Dtype::kF32 && (*random)() % 3 == 0 && o.redop != Redop::kProd &&
           o.redop != Redop::kMin && o.redop != Redop::kMax;
  if (o.wide) o.to_partial = false;
  o.in_place = (*random)() % 4 == 0;
  o.checksum = (*random)() % 3 != 0;
  o.scale = o.to_partial ? 1.0 : Pick(random, {1.0, 1.0, 1.0, 0.5, 0.3, 2.0});
  o.shape.blocks = Pick(random, {0, 1, 2, 3, 5, 64});
  o.shape.threads = Pick(random, {0, 32, 64, 96, 256, 512});
  o.shape.chunk_bytes = Pick(random, {uint64_t{0}, uint64_t{1}, uint64_t{4096}});
  return o;
}

CaseOptions OptionsFor(const Id& id) {
  static constexpr Redop kRedops[] = {Redop::kSum, Redop::kProd, Redop::kMin, Redop::kMax,
                                      Redop::kAvg};
  CaseOptions o{.dtype = id.dtype, .redop = kRedops[static_cast<int>(id.op)]};
  o.copy = id.variant == Variant::kCopy;
  o.sources = id.variant == Variant::kTwo || o.copy ? 2 : 3;
  o.wide = id.variant == Variant::kWide;
  o.to_partial = id.variant == Variant::kMixed;
  o.shape.unroll = id.unroll;
  return o;
}

std::string NameOf(const CaseOptions& o) {
  std::string name = o.copy ? "copy" : reduce::NameOf(o.dtype) + " " + reduce::NameOf(o.redop);
  name += " " + std::to_string(o.sources) + " to " + std::to_string(o.destinations) + ", " +
          std::to_string(o.count) + " elements, placement " +
          std::to_string(static_cast<int>(o.placement)) + ", grid " +
          std::to_string(o.shape.blocks) + "x" + std::to_string(o.shape.threads) + ", unroll " +
          std::to_string(o.shape.unroll) + ", chunk " + std::to_string(o.shape.chunk_bytes) +
          ", scale " + std::to_string(o.scale);
  if (o.partial_mix) name += ", partial sources";
  if (o.to_partial) name += ", to partial";
  if (o.wide) name += ", in f64";
  if (o.in_place) name += ", in place";
  if (o.checksum) name += ", checksum";
  return name;
}

Case::Case(const CaseOptions& options, uint64_t seed) : options_(options) {
  if (options_.copy) {
    options_.sources = 1;
    options_.to_partial = options_.partial_mix = options_.wide = false;
    options_.dtype = Dtype::kU8;
    options_.redop = Redop::kSum;
    options_.scale = 1.0;
  }
  Place(seed);
}

Dtype Case::ResultFormat() const {
  return options_.to_partial ? reduce::AccumulatorOf(options_.dtype, options_.redop)
                             : options_.dtype;
}

double Case::Divisor() const {
  double sum = 0;
  for (const Area& source : sources_) sum += source.weight;
  if (options_.redop == Redop::kWavg) return sum;
  return options_.redop == Redop::kAvg ? static_cast<double>(sources_.size()) : 1.0;
}

Case::Area Case::NewArea(Dtype format, std::mt19937_64* random) {
  const size_t bytes = reduce::ElementBytes(format);
  size_t offset = 0;
  switch (options_.placement) {
    case Placement::kAligned: break;
    case Placement::kSameOffset: offset = same_offset_ * bytes; break;
    case Placement::kOwnOffsets: offset = (*random)() % 16 * bytes; break;
    case Placement::kOddBytes: offset = (*random)() % 16; break;
  }
  Area area;
  area.at = (end_ + kGuard + 255) / 256 * 256 + offset;
  area.format = format;
  end_ = area.at + options_.count * bytes;
  return area;
}

void Case::Place(uint64_t seed) {
  static constexpr double kWeights[] = {1.0, 0.1, 3.0, 1e-3, 7.25, 1.0 / 3.0};
  std::mt19937_64 random(seed);
  const Dtype accumulator = reduce::AccumulatorOf(options_.dtype, options_.redop);
  same_offset_ = random() % 16;
  end_ = kFirstArea - kGuard;
  for (int s = 0; s < options_.sources; ++s) {
    const bool partial = options_.partial_mix && random() % 2 == 0;
    sources_.push_back(NewArea(partial ? accumulator : options_.dtype, &random));
    // A partial result is weighted already.
    const bool weighted = options_.redop == Redop::kWavg && sources_[s].format == options_.dtype &&
                          !(partial && accumulator == options_.dtype);
    sources_.back().weight = weighted ? kWeights[s % 6] : 1.0;
  }
  for (int d = 0; d < options_.destinations; ++d) {
    if (d == 0 && options_.in_place && sources_[0].format == ResultFormat()) {
      destinations_.push_back(sources_[0]);
    } else {
      destinations_.push_back(NewArea(ResultFormat(), &random));
    }
  }
  Fill(&random);
  Expect();
}

void Case::Fill(std::mt19937_64* random) {
  before_.assign(end_ + kGuard, kPoison);
  const auto start = static_cast<uint32_t>((*random)());
  std::memcpy(before_.data() + kChecksumAt, &start, sizeof(start));
  for (const Area& source : sources_) {
    const size_t bytes = reduce::ElementBytes(source.format);
    for (size_t i = 0; i < options_.count; ++i) {
      reduce::reference::Bits bits = reduce::RandomElement(source.format, random);
      // The host's average of integers holds for sums of less than 2^18 narrow elements.
      if (source.format != options_.dtype && source.format == Dtype::kU64) bits >>= 24;
      if (source.format != options_.dtype && source.format == Dtype::kI64) {
        bits = static_cast<uint64_t>(static_cast<int64_t>(bits) >> 24);
      }
      std::memcpy(before_.data() + source.at + i * bytes, &bits, bytes);
    }
  }
}

std::vector<unsigned char> Case::ExpectedResult() const {
  std::vector<unsigned char> result(options_.count * reduce::ElementBytes(ResultFormat()));
  std::vector<reduce::Source> sources;
  std::vector<const unsigned char*> places;
  std::vector<double> weights;
  for (const Area& area : sources_) {
    places.push_back(before_.data() + area.at);
    weights.push_back(area.weight);
    sources.push_back({.data = places.back(), .format = area.format, .weight = area.weight});
  }
  if (options_.copy) {
    std::copy_n(places[0], options_.count, result.begin());
  } else if (options_.wide) {
    WideSum(places, weights, Divisor(), options_.scale, options_.count, result.data());
  } else if (options_.to_partial) {
    reduce::ReduceToPartial(options_.dtype, options_.redop, sources, result.data(), options_.count);
  } else {
    reduce::ReduceToFinal(options_.dtype, options_.redop, sources, Divisor(), options_.scale,
                          result.data(), options_.count);
  }
  return result;
}

void Case::Expect() {
  expected_ = before_;
  const std::vector<unsigned char> result = ExpectedResult();
  for (const Area& area : destinations_) {
    std::copy(result.begin(), result.end(), expected_.begin() + static_cast<ptrdiff_t>(area.at));
  }
  if (!options_.checksum) return;
  uint32_t sum;
  std::memcpy(&sum, before_.data() + kChecksumAt, sizeof(sum));
  sum += WordSum(result.data(), result.size());
  std::memcpy(expected_.data() + kChecksumAt, &sum, sizeof(sum));
}

Expected<Plan> Case::PlanAt(unsigned char* base) const {
  Control control;
  if (options_.checksum) control.checksum = reinterpret_cast<uint32_t*>(base + kChecksumAt);
  std::vector<reduce::Source> sources;
  for (const Area& a : sources_) {
    sources.push_back({.data = base + a.at, .format = a.format, .weight = a.weight});
  }
  std::vector<void*> destinations;
  for (const Area& area : destinations_) destinations.push_back(base + area.at);
  if (options_.copy) {
    return PlanCopy(base + sources_[0].at, destinations, options_.count, control, options_.shape);
  }
  return PlanReduction({.dtype = options_.dtype,
                        .redop = options_.redop,
                        .sources = sources,
                        .destinations = destinations,
                        .count = options_.count,
                        .divisor = Divisor(),
                        .scale = options_.scale,
                        .to_partial = options_.to_partial,
                        .wide = options_.wide},
                       control, options_.shape);
}

std::string Case::Compare(const Image& after) const {
  if (after == expected_) return "";
  size_t wrong = 0;
  size_t first = expected_.size();
  for (size_t i = 0; i < expected_.size(); ++i) {
    if (after[i] == expected_[i]) continue;
    if (wrong++ == 0) first = i;
  }
  std::string where = "outside of every destination";
  if (first < sizeof(uint32_t)) where = "in the checksum";
  for (const Area& area : destinations_) {
    const size_t bytes = reduce::ElementBytes(area.format);
    if (first >= area.at && first < area.at + options_.count * bytes) {
      where = "element " + std::to_string((first - area.at) / bytes);
    }
  }
  return NameOf(options_) + ": " + std::to_string(wrong) + " bytes differ, the first " + where;
}

}  // namespace ftar::kernels
