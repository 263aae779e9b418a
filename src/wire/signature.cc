// The call's signature: a digest for every frame, and words for the user when two calls differ
// (rule V5).
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <string>
#include <vector>

#include "wire/layout_digest.h"
#include "wire/messages.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace ftar::wire {
namespace {

// Names as in ftar.h, without the prefix; the order is the order of its enumerations.
constexpr const char* kKinds[] = {"allreduce", "reduce-scatter", "all-gather", "broadcast",
                                  "barrier"};
constexpr uint8_t kReduceScatter = 1, kAllGather = 2;
constexpr const char* kDtypes[] = {"f32", "f64", "f16", "bf16", "f8e4m3", "f8e5m2",
                                   "i8",  "u8",  "i32", "u32",  "i64",    "u64"};
constexpr const char* kRedops[] = {"sum", "prod", "min", "max", "avg", "wavg"};
constexpr const char* kPlans[] = {"auto", "oneshot", "direct", "ring"};

constexpr uint64_t kSegmentsMax = 65'536;  // of a reduce-scatter or all-gather
constexpr uint64_t kWideningMax = 8;       // of partial sums

template <size_t kCount>
std::string NameIn(const char* const (&names)[kCount], uint8_t value) {
  return value < kCount ? names[value] : "unknown " + std::to_string(value);
}

// 17 significant digits tell any two doubles apart; six are enough for the ordinary ones.
std::string NumberText(double value, double other) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  char other_text[32];
  std::snprintf(other_text, sizeof other_text, "%g", other);
  if (std::string(text) == other_text) std::snprintf(text, sizeof text, "%.17g", value);
  return text;
}

std::string Against(const char* field, const std::string& a, const std::string& b) {
  return std::string(field) + " " + a + " against " + b;
}

std::string Against(const char* field, uint64_t a, uint64_t b) {
  return Against(field, std::to_string(a), std::to_string(b));
}

// As users number them; here 0 is none.
std::string StepText(uint64_t step) { return step == 0 ? "none" : std::to_string(step - 1); }

const char* StrictText(uint8_t flags) { return (flags & kSignatureStrict) != 0 ? "on" : "off"; }

// Little-endian, one field behind the other, whatever the machine: the digest travels.
class Canonical {
 public:
  void Put(uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) bytes_[size_++] = static_cast<uint8_t>(value >> (8 * i));
  }
  uint64_t Digest() const { return XXH3_64bits(bytes_, size_); }

 private:
  uint8_t bytes_[64] = {};
  size_t size_ = 0;
};

}  // namespace

uint64_t SignatureDigest(const Signature& signature) {
  Canonical canonical;
  for (uint8_t byte :
       {signature.kind, signature.dtype, signature.redop, signature.flags, signature.plan}) {
    canonical.Put(byte, 1);
  }
  for (uint64_t word : {signature.count, signature.step, signature.root.hi, signature.root.lo,
                        signature.layout, std::bit_cast<uint64_t>(signature.scale)}) {
    canonical.Put(word, 8);
  }
  canonical.Put(signature.window, 4);
  return canonical.Digest();
}

// Little-endian, whatever the machine, as the digest travels.
MemberId LayoutDigest(std::span<const MemberId> members) {
  std::vector<uint8_t> bytes;
  bytes.reserve(members.size() * 2 * sizeof(uint64_t));
  for (const MemberId& member : members) {
    for (const uint64_t half : {member.hi, member.lo}) {
      for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<uint8_t>(half >> (8 * i)));
    }
  }
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {hash.high64, hash.low64};
}

bool HasSegments(const Signature& signature) {
  return signature.kind == kReduceScatter || signature.kind == kAllGather;
}

const char* SignatureFault(const Signature& signature) {
  const auto known = [](const auto& names, uint8_t value) { return value < std::size(names); };
  if (!known(kKinds, signature.kind) || !known(kDtypes, signature.dtype) ||
      !known(kRedops, signature.redop) || !known(kPlans, signature.plan))
    return "message describes an unknown operation";
  const uint64_t element = signature.element_bytes, sum = signature.accumulator_bytes;
  if (element == 0 || sum < element || sum > kWideningMax * element || sum % element != 0)
    return "message describes elements that no type has";
  if (signature.count > static_cast<uint64_t>(PTRDIFF_MAX) / (element * kSegmentsMax))
    return "message describes more bytes than an address space has";
  return nullptr;
}

std::string SignatureDifference(const Signature& a, const Signature& b,
                                const std::function<std::string(MemberId)>& name) {
  if (a.kind != b.kind) return Against("kind", NameIn(kKinds, a.kind), NameIn(kKinds, b.kind));
  if (a.count != b.count) return Against("count", a.count, b.count);
  if (a.dtype != b.dtype)
    return Against("type", NameIn(kDtypes, a.dtype), NameIn(kDtypes, b.dtype));
  if (a.redop != b.redop) {
    return Against("operator", NameIn(kRedops, a.redop), NameIn(kRedops, b.redop));
  }
  if (a.layout != b.layout) return Against("epoch of the layout", a.layout, b.layout);
  if (a.root != b.root && HasSegments(a)) {
    return "the members whose segments they name by epoch " + std::to_string(a.layout) +
           ", in which somebody comes or goes";
  }
  if (a.root != b.root) return Against("root", name(a.root), name(b.root));
  if (a.step != b.step) return Against("step", StepText(a.step), StepText(b.step));
  if (a.flags != b.flags) {
    return Against("strict step", StrictText(a.flags), StrictText(b.flags));
  }
  if (a.window != b.window) return Against("window of the group", a.window, b.window);
  if (a.plan != b.plan) return Against("plan", NameIn(kPlans, a.plan), NameIn(kPlans, b.plan));
  // By bits, as in the digest: -0 and 0 or two NaNs would otherwise be equal here and different
  // there, or the reverse.
  if (std::bit_cast<uint64_t>(a.scale) != std::bit_cast<uint64_t>(b.scale)) {
    return Against("scale", NumberText(a.scale, b.scale), NumberText(b.scale, a.scale));
  }
  return {};
}

}  // namespace ftar::wire
