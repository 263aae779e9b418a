// Whether a story came to the end that it expects.
#include <algorithm>
#include <sstream>

#include "story/director.h"

namespace ftar::sim {
namespace {

std::string Joined(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : " ") + name;
  return out;
}

std::string Is(const std::string& what, const std::string& have, const std::string& want) {
  return have == want ? "" : what + (have.empty() ? "nothing" : have) + ", expected " + want;
}

const char* StatusName(Code status) {
  switch (status) {
    case Code::kOk: return "ok";
    case Code::kMismatch: return "mismatch";
    case Code::kAbsent: return "absent";
    default: return CodeName(status);
  }
}

const char* EndOf(engine::Phase phase) {
  switch (phase) {
    case engine::Phase::kEvicted: return "evicted";
    case engine::Phase::kLeft: return "left";
    case engine::Phase::kAborted: return "aborted";
    case engine::Phase::kRejected: return "rejected";
    default: return "in";
  }
}

}  // namespace

bool Director::MayWait(const Node& node) const {
  return std::any_of(story_.expectations.begin(), story_.expectations.end(), [&](const auto& e) {
    return e.kind == Expectation::Kind::kWaits && Is(e.names[0], &node);
  });
}

bool Director::Done() const {
  if (!world_.begun_) return false;
  return std::all_of(world_.nodes_.begin(), world_.nodes_.end(), [this](const auto& node) {
    const bool out = !node->alive || node->over || node->stopped;
    return out || node->main.delivered_end >= static_cast<Seq>(story_.weather.ops) ||
           MayWait(*node);
  });
}

std::string Director::Judge() {
  for (size_t i = 0; i < story_.scenes.size(); ++i) {
    if (!progress_[i].fired)
      return "story: line " + std::to_string(story_.scenes[i].line) + ": never came";
  }
  std::string wrong = JudgeEnds();
  if (!wrong.empty()) return wrong;
  for (size_t i = 0; i < story_.expectations.size(); ++i) {
    const Expectation& expectation = story_.expectations[i];
    if (expectation.kind == Expectation::Kind::kNever && seen_[i] > 0) {
      wrong = "happened " + std::to_string(seen_[i]) + " times";
    } else if (expectation.kind == Expectation::Kind::kSeen && seen_[i] < expectation.moment.nth) {
      wrong = "happened " + std::to_string(seen_[i]) + " times";
    } else {
      wrong = JudgeOne(expectation);
    }
    if (!wrong.empty())
      return "story: line " + std::to_string(expectation.line) + ": " + Readable(wrong);
  }
  return "";
}

// Everybody who lives is in and through, or has ended in the way that the story names.
std::string Director::JudgeEnds() const {
  for (const auto& node : world_.nodes_) {
    if (!node->alive || node->stopped) continue;
    std::string want = "in";
    for (const Expectation& expectation : story_.expectations) {
      if (expectation.kind == Expectation::Kind::kEnd && Is(expectation.names[0], node.get()))
        want = expectation.text;
    }
    const std::string have = EndOf(node->engine->phase());
    if (want == "anyhow" && have != "in") continue;
    if (want == "anyhow") want = "in";
    if (have != want)
      return "story: " + NameOf(node.get()) + " is " + have + ", expected " + want + ": " +
             Readable(node->engine->phase_status().ToString());
    const bool through = node->main.delivered_end >= static_cast<Seq>(story_.weather.ops);
    if (want != "in" || through == !MayWait(*node)) continue;
    if (through) return "story: " + NameOf(node.get()) + " is through, and was to wait";
    return "liveness: " + NameOf(node.get()) +
           " is not through: " + Readable(world_.DescribeStuck(*node));
  }
  return "";
}

std::string Director::JudgeView(const std::vector<std::string>& names) const {
  bool any = false;
  for (const auto& node : world_.nodes_) {
    const auto view = node->engine->view();
    const bool in = node->alive && !node->over && !node->stopped && view;
    if (!in || MayWait(*node)) continue;
    any = true;
    std::string have;
    for (const wire::ViewEntry& entry : view->entries) {
      if (entry.leaves()) continue;  // it has its end
      have += (have.empty() ? "" : " ") + NameOf(world_.Find(entry.card.id));
    }
    if (have != Joined(names))
      return "the view of " + NameOf(node.get()) + " is " + have + ", expected " + Joined(names);
  }
  return any ? "" : "nobody is left who has a view";
}

// Of that name somebody lives, and runs: the others' ends are not looked at.
bool Director::IsLeft(const std::string& name) const {
  return std::ranges::any_of(NodesOf(name),
                             [](const Node* node) { return node->alive && !node->stopped; });
}

bool Director::Said(const std::string& text) const {
  return std::any_of(notes_.begin(), notes_.end(), [this, &text](const std::string& note) {
    return Readable(note).find(text) != std::string::npos;
  });
}

std::string Director::JudgeOne(const Expectation& expectation) const {
  using Kind = Expectation::Kind;
  switch (expectation.kind) {
    case Kind::kEnd:  // how is JudgeEnds' business
    case Kind::kWaits:
      return expectation.text == "anyhow" || IsLeft(expectation.names[0])
                 ? ""
                 : "nobody is left whose end it could be";
    case Kind::kAllFinish:  // JudgeEnds
    case Kind::kNever:
    case Kind::kSeen: return "";
    case Kind::kView: return JudgeView(expectation.names);
    case Kind::kEpoch:
      return sim::Is("the newest epoch is ", std::to_string(EpochCounter(world_.newest_)),
                     std::to_string(expectation.number));
    case Kind::kLost: {
      for (const Node* node : NodesOf(expectation.names[0])) {
        const std::string begin = "lost [" + expectation.text + "] ",
                          name = "(" + ToString(node->card.id) + ")";
        const auto says = [&](const std::string& note) {
          return note.starts_with(begin) && note.find(name) == note.find('(');
        };
        if (std::none_of(notes_.begin(), notes_.end(), says)) return "it was not lost so";
      }
      return "";
    }
    case Kind::kNote: return Said(expectation.text) ? "" : "the coordinator did not say that";
    case Kind::kUnsaid: return Said(expectation.text) ? "the coordinator said that" : "";
    default: break;
  }
  for (int shard = 0; shard < story_.weather.shards; ++shard) {
    const std::string wrong = JudgeOp(expectation, shard);
    if (!wrong.empty()) return wrong;
  }
  return "";
}

std::string Director::NamesOf(const std::vector<collective::Participant>& members,
                              bool weightless) const {
  std::vector<std::string> names;
  for (const collective::Participant& member : members) {
    if (weightless || member.weight > 0) names.push_back(NameOf(world_.Find(member.id)));
  }
  return Joined(names);
}

// Agreement between those who have delivered it is an invariant's business; all are looked at
// here.
std::string Director::JudgeOp(const Expectation& expectation, int shard) const {
  using Kind = Expectation::Kind;
  const std::string op = "op " + std::to_string(expectation.op);
  if (expectation.kind == Kind::kVerdicts) {
    static constexpr const char* kNames[] = {"?", "commit", "salvage", "retry", "fail"};
    std::vector<std::string> have;
    if (const auto found = verdicts_.find({shard, expectation.op}); found != verdicts_.end()) {
      for (const auto& [epoch, kind] : found->second)
        have.push_back(kNames[static_cast<int>(kind)]);
    }
    return sim::Is("the verdict on " + op + " is ", Joined(have), expectation.text);
  }
  const auto found = outcomes_.find({shard, expectation.op});
  if (found == outcomes_.end()) return "nobody delivers " + op;
  std::vector<std::string> delivered;
  for (const auto& [name, outcome] : found->second) {
    delivered.push_back(name);
    std::string wrong;
    if (expectation.kind == Kind::kStatus) {
      wrong = sim::Is(op + " ends as ", StatusName(outcome.status), expectation.text);
    } else if (expectation.kind == Kind::kAttempts) {
      wrong = sim::Is("attempts of " + op + ": ", std::to_string(outcome.attempts),
                      std::to_string(expectation.number));
    } else if (expectation.kind != Kind::kDeliveredBy) {
      wrong = sim::Is("of " + op + " are ",
                      NamesOf(outcome.members, expectation.kind == Kind::kMembers),
                      Joined(expectation.names));
    }
    if (!wrong.empty()) return name + " says: " + wrong;
  }
  if (expectation.kind != Kind::kDeliveredBy) return "";
  std::vector<std::string> want = expectation.names;
  std::sort(want.begin(), want.end());
  return sim::Is(op + " is delivered by ", Joined(delivered), Joined(want));
}

}  // namespace ftar::sim
