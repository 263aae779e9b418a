#include "runtime/test_hook.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <string_view>

namespace ftar::runtime {
namespace {

constexpr const char* kKinds[] = {"kill", "stop", "reset", "drop", "exit", "corrupt"};
constexpr const char* kStages[] = {"before",    "sending",   "reducing",
                                   "gathering", "stability", "between"};

template <size_t N>
int IndexOf(const char* const (&words)[N], std::string_view word) {
  for (size_t i = 0; i < N; ++i) {
    if (word == words[i]) return static_cast<int>(i);
  }
  return -1;
}

template <typename T>
bool ToNumber(std::string_view text, T* out) {
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return error == std::errc() && stop == text.data() + text.size();
}

bool SetField(std::string_view field, FaultPlan* plan) {
  const size_t equals = field.find('=');
  if (equals == std::string_view::npos) return false;
  const std::string_view name = field.substr(0, equals), value = field.substr(equals + 1);
  if (name == "seq") return ToNumber(value, &plan->seq);
  if (name == "chunk") return ToNumber(value, &plan->chunk);
  if (name != "stage") return false;
  const int stage = IndexOf(kStages, value);
  plan->stage = static_cast<FaultStage>(stage);
  return stage >= 0;
}

}  // namespace

Expected<FaultPlan> ParseFaultPlan(const std::string& text) {
  const Status bad(Code::kConfig, "FTAR_TEST_FAULT",
                   "FTAR_TEST_FAULT is '" + text + "'; it must be KIND@seq=S,stage=STAGE,chunk=C");
  const size_t at = text.find('@');
  const int kind = IndexOf(kKinds, std::string_view(text).substr(0, at));
  if (at == std::string::npos || kind < 0) return bad;
  FaultPlan plan;
  plan.kind = static_cast<FaultKind>(kind);
  const std::string_view fields = std::string_view(text).substr(at + 1);
  for (size_t begin = 0; begin <= fields.size();) {
    const size_t comma = std::min(fields.find(',', begin), fields.size());
    if (!SetField(fields.substr(begin, comma - begin), &plan)) return bad;
    begin = comma + 1;
  }
  // A fault without its point would strike somewhere else than was meant.
  const bool whole = fields.find("seq=") != fields.npos && fields.find("stage=") != fields.npos;
  return whole ? Expected<FaultPlan>(plan) : bad;
}

std::optional<FaultKind> TestHook::At(FaultStage stage, Seq seq, int64_t chunk) {
  if (!plan_ || plan_->stage != stage || plan_->seq != seq) return std::nullopt;
  const bool here = plan_->chunk < 0 || (chunk >= 0 ? chunk : seen_++) == plan_->chunk;
  if (!here) return std::nullopt;
  const FaultKind kind = plan_->kind;
  plan_.reset();
  if (kind == FaultKind::kKill) kill(getpid(), SIGKILL);
  if (kind == FaultKind::kStop) raise(SIGSTOP);  // this thread stops at once
  if (kind == FaultKind::kExit) _exit(3);
  return kind;
}

}  // namespace ftar::runtime
