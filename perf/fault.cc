#include "perf/fault.h"

#include <signal.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <chrono>

#include "fmt/format.h"
#include "perf/board.h"
#include "perf/clock.h"
#include "perf/types.h"

namespace ftar::perf {
namespace {

struct KindName {
  FaultKind kind;
  std::string_view name;
  bool has_rank;
};

constexpr std::array kKinds = {
    KindName{FaultKind::kKill, "kill", true},    KindName{FaultKind::kStop, "stop", true},
    KindName{FaultKind::kLeave, "leave", true},  KindName{FaultKind::kJoin, "join", false},
    KindName{FaultKind::kStart, "start", false}, KindName{FaultKind::kReset, "reset", true},
    KindName{FaultKind::kDelay, "delay", true},  KindName{FaultKind::kCorrupt, "corrupt", true},
    KindName{FaultKind::kDrop, "drop", true},    KindName{FaultKind::kExit, "exit", true},
};

constexpr std::array<std::string_view, 6> kStages = {"before",    "sending",   "reducing",
                                                     "gathering", "stability", "between"};

template <typename Int>
bool ParseInt(std::string_view text, Int* value) {
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, *value);
  return error == std::errc() && rest == end && !text.empty() && *value >= 0;
}

}  // namespace

std::span<const std::string_view> FaultStages() { return kStages; }

std::string_view FaultName(FaultKind kind) {
  for (const KindName& entry : kKinds) {
    if (entry.kind == kind) return entry.name;
  }
  return "?";
}

std::optional<FaultSpec> ParseFault(std::string_view text) {
  const size_t at = text.find('@');
  if (at == std::string_view::npos) return std::nullopt;
  const auto who = Split(text.substr(0, at), ':');
  const auto when = Split(text.substr(at + 1), ':');
  FaultSpec fault;
  const KindName* entry = nullptr;
  for (const KindName& candidate : kKinds) {
    if (candidate.name == who[0]) entry = &candidate;
  }
  if (entry == nullptr || who.size() != (entry->has_rank ? 2U : 1U)) return std::nullopt;
  fault.kind = entry->kind;
  if (entry->has_rank && !ParseInt(who[1], &fault.rank)) return std::nullopt;
  if (when.size() != (fault.kind == FaultKind::kDelay ? 2U : 1U)) return std::nullopt;
  if (!ParseInt(when[0], &fault.iteration)) return std::nullopt;
  if (when.size() == 2 && !ParseInt(when[1], &fault.delay_ms)) return std::nullopt;
  return fault;
}

std::string ToString(const FaultSpec& fault) {
  std::string text(FaultName(fault.kind));
  if (fault.rank >= 0) text += fmt::format(":{}", fault.rank);
  text += fmt::format("@{}", fault.iteration);
  if (fault.kind == FaultKind::kDelay) text += fmt::format(":{}", fault.delay_ms);
  return text;
}

bool StrikesBySignal(FaultKind kind) {
  return kind == FaultKind::kKill || kind == FaultKind::kStop;
}

bool StrikesByHook(FaultKind kind) {
  return kind == FaultKind::kReset || kind == FaultKind::kCorrupt || kind == FaultKind::kDrop ||
         kind == FaultKind::kExit;
}

bool StrikesAtStage(FaultKind kind) { return StrikesBySignal(kind) || StrikesByHook(kind); }

bool NeedsTcp(FaultKind kind) { return kind == FaultKind::kReset || kind == FaultKind::kCorrupt; }

bool RemovesVictim(FaultKind kind) {
  return kind == FaultKind::kKill || kind == FaultKind::kStop || kind == FaultKind::kLeave ||
         kind == FaultKind::kDrop || kind == FaultKind::kExit;
}

bool StrikesOneRank(FaultKind kind) {
  return kind == FaultKind::kLeave || kind == FaultKind::kDelay || kind == FaultKind::kJoin ||
         kind == FaultKind::kStart;
}

std::string HookText(const FaultSpec& fault, uint64_t seq, std::string_view stage, int chunk) {
  std::string text = fmt::format("{}@seq={},stage={}", FaultName(fault.kind), seq, stage);
  if (chunk >= 0) text += fmt::format(",chunk={}", chunk);
  return text;
}

Striker::Striker(BoardSlot* slot) : slot_(slot), thread_([this] { Main(); }) {}

Striker::~Striker() {
  {
    const std::lock_guard lock(mutex_);
    quit_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void Striker::Arm(FaultKind kind, int64_t delay_ns) {
  {
    const std::lock_guard lock(mutex_);
    kind_ = kind;
    due_ns_ = NowNs() + delay_ns;
    armed_ = true;
  }
  wake_.notify_one();
}

void Striker::Main() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return armed_ || quit_; });
    if (quit_) return;
    armed_ = false;
    // A sleep may overshoot an operation of some microseconds, so the last part is spun.
    while (NowNs() < due_ns_) {
      const int64_t left_ns = due_ns_ - NowNs();
      if (left_ns > 200'000) std::this_thread::sleep_for(std::chrono::nanoseconds(left_ns / 2));
    }
    const int signal = kind_ == FaultKind::kKill ? SIGKILL : SIGSTOP;
    slot_->strike_ns.store(NowNs(), std::memory_order_release);
    kill(getpid(), signal);
  }
}

}  // namespace ftar::perf
