#include "perf/types.h"

#include <array>
#include <charconv>
#include <cmath>

#include "fmt/format.h"
#include "fmt/ranges.h"

namespace ftar::perf {
namespace {

constexpr auto kF = NumberClass::kFloat;
constexpr auto kS = NumberClass::kSigned;
constexpr auto kU = NumberClass::kUnsigned;

constexpr std::array kTypes = {
    TypeInfo{FTAR_I8, "int8", "i8", 1, kS, 0},
    TypeInfo{FTAR_U8, "uint8", "u8", 1, kU, 0},
    TypeInfo{FTAR_I32, "int32", "i32", 4, kS, 0},
    TypeInfo{FTAR_U32, "uint32", "u32", 4, kU, 0},
    TypeInfo{FTAR_I64, "int64", "i64", 8, kS, 0},
    TypeInfo{FTAR_U64, "uint64", "u64", 8, kU, 0},
    TypeInfo{FTAR_F16, "half", "f16", 2, kF, 11},
    TypeInfo{FTAR_F32, "float", "f32", 4, kF, 24},
    TypeInfo{FTAR_F64, "double", "f64", 8, kF, 53},
    TypeInfo{FTAR_BF16, "bfloat16", "bf16", 2, kF, 8},
    TypeInfo{FTAR_F8E4M3, "f8e4m3", "fp8e4m3", 1, kF, 4},
    TypeInfo{FTAR_F8E5M2, "f8e5m2", "fp8e5m2", 1, kF, 3},
};

constexpr std::array kOps = {
    OpInfo{FTAR_SUM, "sum"}, OpInfo{FTAR_PROD, "prod"}, OpInfo{FTAR_MAX, "max"},
    OpInfo{FTAR_MIN, "min"}, OpInfo{FTAR_AVG, "avg"},   OpInfo{FTAR_WAVG, "wavg"},
};

constexpr std::array kCollectives = {
    CollectiveInfo{FTAR_ALLREDUCE, "allreduce", "all_reduce_perf", true, true},
    CollectiveInfo{FTAR_REDUCE_SCATTER, "reduce_scatter", "reduce_scatter_perf", true, true},
    CollectiveInfo{FTAR_ALLGATHER, "all_gather", "all_gather_perf", false, true},
    CollectiveInfo{FTAR_BROADCAST, "broadcast", "broadcast_perf", false, true},
    CollectiveInfo{FTAR_BARRIER, "barrier", "barrier_perf", false, false},
};

template <typename Table, typename Entry>
std::string NamesOf(const Table& table, std::string_view Entry::*name) {
  std::vector<std::string_view> names;
  for (const Entry& entry : table) names.push_back(entry.*name);
  return fmt::format("{}", fmt::join(names, ", "));
}

// Parses each name of a list with `find`, which answers a pointer to the table's row or null.
template <typename Value, typename Find>
std::optional<std::vector<Value>> ParseList(std::string_view text, Find find) {
  std::vector<Value> values;
  for (std::string_view name : Split(text, ',')) {
    const auto found = find(name);
    if (!found) return std::nullopt;
    values.push_back(*found);
  }
  return values;
}

}  // namespace

std::span<const TypeInfo> AllTypes() { return kTypes; }
std::span<const OpInfo> AllOps() { return kOps; }
std::span<const CollectiveInfo> AllCollectives() { return kCollectives; }

const TypeInfo& TypeOf(ftarDtype_t dtype) {
  for (const TypeInfo& type : kTypes) {
    if (type.dtype == dtype) return type;
  }
  return kTypes[0];
}

const OpInfo& OpOf(ftarRedop_t redop) {
  for (const OpInfo& op : kOps) {
    if (op.redop == redop) return op;
  }
  return kOps[0];
}

const CollectiveInfo& CollectiveOf(ftarKind_t kind) {
  for (const CollectiveInfo& collective : kCollectives) {
    if (collective.kind == kind) return collective;
  }
  return kCollectives[0];
}

std::optional<std::vector<ftarDtype_t>> ParseTypes(std::string_view text) {
  if (text == "all") {
    std::vector<ftarDtype_t> all;
    for (const TypeInfo& type : kTypes) all.push_back(type.dtype);
    return all;
  }
  return ParseList<ftarDtype_t>(text, [](std::string_view name) -> std::optional<ftarDtype_t> {
    for (const TypeInfo& type : kTypes) {
      if (type.name == name || type.alias == name) return type.dtype;
    }
    return std::nullopt;
  });
}

std::optional<std::vector<ftarRedop_t>> ParseOps(std::string_view text) {
  if (text == "all") {
    std::vector<ftarRedop_t> all;
    for (const OpInfo& op : kOps) all.push_back(op.redop);
    return all;
  }
  return ParseList<ftarRedop_t>(text, [](std::string_view name) -> std::optional<ftarRedop_t> {
    for (const OpInfo& op : kOps) {
      if (op.name == name) return op.redop;
    }
    return std::nullopt;
  });
}

std::optional<std::vector<ftarKind_t>> ParseCollectives(std::string_view text) {
  if (text == "all") {
    std::vector<ftarKind_t> all;
    for (const CollectiveInfo& collective : kCollectives) all.push_back(collective.kind);
    return all;
  }
  return ParseList<ftarKind_t>(text, [](std::string_view name) -> std::optional<ftarKind_t> {
    for (const CollectiveInfo& collective : kCollectives) {
      if (collective.flag == name) return collective.kind;
    }
    return std::nullopt;
  });
}

std::string LibraryVersion() {
  const uint32_t version = ftarGetVersion();
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

std::string TypeNames() { return NamesOf(kTypes, &TypeInfo::name); }
std::string OpNames() { return NamesOf(kOps, &OpInfo::name); }
std::string CollectiveNames() { return NamesOf(kCollectives, &CollectiveInfo::flag); }

std::optional<uint64_t> ParseSize(std::string_view text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || !(value >= 0)) return std::nullopt;
  int shift = 0;
  if (rest != end) {
    if (end - rest != 1) return std::nullopt;
    switch (*rest) {
      case 'K':
      case 'k': shift = 10; break;
      case 'M':
      case 'm': shift = 20; break;
      case 'G':
      case 'g': shift = 30; break;
      default: return std::nullopt;
    }
  }
  const double bytes = std::ldexp(value, shift);
  if (bytes > 0x1p50) return std::nullopt;  // more than any machine holds: a slip of the finger
  return static_cast<uint64_t>(bytes);
}

bool Supported(ftarDtype_t dtype, ftarRedop_t redop) {
  return redop != FTAR_WAVG || TypeOf(dtype).number_class == NumberClass::kFloat;
}

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  size_t begin = 0;
  while (true) {
    const size_t end = text.find(separator, begin);
    parts.push_back(text.substr(begin, end - begin));
    if (end == std::string_view::npos) return parts;
    begin = end + 1;
  }
}

}  // namespace ftar::perf
