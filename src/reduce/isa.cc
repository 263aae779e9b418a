#include "reduce/isa.h"

#include <array>
#include <atomic>
#include <string>

#include "reduce/kernels.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace ftar::reduce {
namespace {

struct Isa {
  std::string_view name;
  const KernelTable& (*kernels)();
  bool (*available)();
  const KernelTable& (*of_short)() = kernels;  // of short sums
};

bool Always() { return true; }

#if defined(__x86_64__)
// The builtin also asks whether the system saves the registers, but not every compiler knows "f16c"
// by name.
bool HasAvx2() {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  const bool f16c = __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
  return f16c && __builtin_cpu_supports("avx2") != 0;
}
bool HasAvx512() {
  return HasAvx2() && __builtin_cpu_supports("avx512f") != 0 &&
         __builtin_cpu_supports("avx512bw") != 0 && __builtin_cpu_supports("avx512dq") != 0 &&
         __builtin_cpu_supports("avx512vl") != 0;
}
// As above, not every compiler knows the name: leaf 7, subleaf 1.
bool HasAvx512Bf16() {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  return HasAvx512() && __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 &&
         (eax & (1U << 5)) != 0;
}
#endif

// Slowest first.
constexpr Isa kIsas[] = {
    {"scalar", ScalarKernels, Always},
#if defined(__x86_64__)
    {"avx2", Avx2Kernels, HasAvx2},
    {"avx512", Avx512Kernels, HasAvx512},
    {"avx512bf16", Avx512Bf16Kernels, HasAvx512Bf16},
#endif
};
constexpr size_t kIsaCount = sizeof(kIsas) / sizeof(kIsas[0]);

// The names of all instruction sets here, and how many of them.
struct Available {
  std::array<std::string_view, kIsaCount> names;
  size_t count = 0;
};

Available FindAvailable() {
  Available available;
  for (const Isa& isa : kIsas) {
    if (isa.available()) available.names[available.count++] = isa.name;
  }
  return available;
}

const Isa* Find(std::string_view name) {
  for (const Isa& isa : kIsas) {
    if (isa.name == name) return &isa;
  }
  return nullptr;
}

// The best one. Intel's processors run everything slower for a while after they have added floats
// 64 bytes at a time, and a short sum gains less by that.
const Isa* Auto() {
  static const Isa kAuto = [] {
    Isa isa = *Find(AvailableIsas().back());
#if defined(__x86_64__)
    if (__builtin_cpu_is("intel") != 0 && HasAvx512()) isa.of_short = Avx2Kernels;
#endif
    return isa;
  }();
  return &kAuto;
}

// Null until first used. Threads that race to fill it write the same pointer.
std::atomic<const Isa*> current{nullptr};

const Isa* Current() {
  const Isa* isa = current.load(std::memory_order_relaxed);
  if (isa == nullptr) {
    const Isa* best = Auto();
    // Another thread's SetIsa in between wins.
    isa = current.compare_exchange_strong(isa, best, std::memory_order_relaxed) ? best : isa;
  }
  return isa;
}

std::string JoinedNames(std::span<const std::string_view> names) {
  std::string text = "auto";
  for (std::string_view name : names) text.append(", ").append(name);
  return text;
}

}  // namespace

std::span<const std::string_view> AvailableIsas() {
  static const Available kAvailable = FindAvailable();
  return {kAvailable.names.data(), kAvailable.count};
}

Status SetIsa(std::string_view name) {
  if (name == "auto") {
    current.store(Auto(), std::memory_order_relaxed);
    return Status::Ok();
  }
  const Isa* isa = Find(name);
  if (isa != nullptr && isa->available()) {
    current.store(isa, std::memory_order_relaxed);
    return Status::Ok();
  }
  const std::string problem =
      isa == nullptr ? "is no instruction set of this build" : "is not offered by this machine";
  return Status(Code::kConfig, "isa",
                "isa: '" + std::string(name) + "' " + problem +
                    "; possible here: " + JoinedNames(AvailableIsas()));
}

std::string_view IsaName() { return Current()->name; }

const KernelTable& CurrentKernels(bool is_short) {
  const Isa* const isa = Current();
  return is_short ? isa->of_short() : isa->kernels();
}

}  // namespace ftar::reduce
