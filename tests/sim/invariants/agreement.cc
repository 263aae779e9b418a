#include "invariants/agreement.h"

#include <algorithm>

namespace ftar::sim {
namespace {

bool Same(const collective::Outcome& a, const collective::Outcome& b) {
  if (a.status != b.status) return false;
  if (a.status != Code::kOk && a.status != Code::kAbsent)
    return a.culprit == b.culprit && a.text == b.text;  // its members are nobody's participants
  if (a.epoch != b.epoch || a.members.size() != b.members.size() ||
      a.participants != b.participants || a.weight_sum != b.weight_sum) {
    return false;
  }
  for (size_t i = 0; i < a.members.size(); ++i) {
    if (a.members[i].id != b.members[i].id || a.members[i].weight != b.members[i].weight)
      return false;
  }
  return true;
}

bool AnyInBoth(const collective::Outcome& a, const collective::Outcome& b) {
  return std::ranges::any_of(a.members, [&b](const auto& one) {
    return std::ranges::any_of(b.members, [&one](const auto& two) { return one.id == two.id; });
  });
}

// Of a stand-in's the step is not known, but whose operation it was.
bool OneOperation(const collective::Outcome& a, const collective::Outcome& b) {
  return a.tag == b.tag || ((a.tag == 0 || b.tag == 0) && AnyInBoth(a, b));
}

uint64_t HashOf(const Buffer& result) {
  uint64_t hash = 1 + result.size();
  for (const Element& element : result)
    hash = (hash * 0x9e3779b97f4a7c15ull ^ element.where ^ element.who) + element.chain;
  return hash | 1;
}

}  // namespace

std::string NameOf(const collective::Outcome& outcome) {
  std::string out = "op " + std::to_string(outcome.seq) + " epoch " +
                    std::to_string(EpochCounter(outcome.epoch)) + " [";
  for (const auto& member : outcome.members)
    out += std::to_string(member.replica) + (member.weight > 0 ? " " : "o ");
  return out + "] status " + std::to_string(static_cast<int>(outcome.status));
}

std::string Agreement::Delivered(int shard, const collective::Outcome& outcome,
                                 const Buffer* result) {
  std::vector<Known>& known = known_[static_cast<uint64_t>(shard) << 48 | outcome.seq];
  const uint64_t bits = result && outcome.status == Code::kOk ? HashOf(*result) : 0;
  Known* same = nullptr;
  const collective::Outcome* other = nullptr;
  for (Known& one : known) {
    if (Same(one.outcome, outcome)) {
      same = &one;
    } else if (OneOperation(one.outcome, outcome)) {
      other = &one.outcome;  // also where it is not the first to say so: it may know the step
    }
  }
  std::string wrong = other ? "agreement: " + NameOf(*other) + " and " + NameOf(outcome) : "";
  if (!same) {
    known.push_back({outcome, bits});
    return wrong;
  }
  if (wrong.empty() && bits != 0 && same->bits != 0 && bits != same->bits)
    wrong = "agreement: other bits of " + NameOf(outcome);
  if (bits != 0) same->bits = bits;
  return wrong;
}

}  // namespace ftar::sim
