#include "story/director.h"

#include <algorithm>

#include "story/explorer.h"
#include "wire/codec.h"

namespace ftar::sim {
namespace {

constexpr TimeNs kTail = 300 * kMillisecond;       // after all are through: three timeouts
constexpr TimeNs kPatience = 1500 * kMillisecond;  // for scenes that have not come

template <typename T>
void ReadNumbers(const T& message, Happening* out) {
  if constexpr (requires { message.epoch; }) out->epoch = EpochCounter(message.epoch);
  if constexpr (requires { message.era; }) out->epoch = EpochCounter(message.era);
  if constexpr (requires { message.view.epoch; }) out->epoch = EpochCounter(message.view.epoch);
  if constexpr (requires { message.seq; }) out->op = message.seq;
  if constexpr (requires { message.step; }) out->step = message.step;
}

}  // namespace

// ---- what is seen ----

void Director::SawMessage(Moment::Verb verb, const Node* who, const Node* peer,
                          const wire::Message& message,
                          std::shared_ptr<const wire::Message> order) {
  if (const auto* verdicts = std::get_if<wire::ColumnVerdicts>(&message)) {
    for (const wire::GroupVerdicts& group : verdicts->groups) {
      for (const wire::Verdict& verdict : group.verdicts)
        verdicts_[{who->card.shard, verdict.seq}][verdicts->epoch] = verdict.kind;
    }
  }
  Happening happening;
  happening.verb = verb;
  happening.who = who;
  happening.peer = peer;
  happening.what = wire::MessageName(message);
  std::visit([&](const auto& concrete) { ReadNumbers(concrete, &happening); }, message);
  // Steps are the user's here; on the wire 0 is "none".
  if (happening.step && *happening.step > 0) --*happening.step;
  happening.order = std::move(order);
  See(std::move(happening));
}

void Director::SawFrame(Moment::Verb verb, const Node& who, const Node& peer,
                        const wire::FrameHeader& header) {
  static constexpr const char* kNames[] = {"?", "control", "ack", "raw", "partial", "final"};
  Happening happening;
  happening.verb = verb;
  happening.who = &who;
  happening.peer = &peer;
  happening.what = kNames[static_cast<int>(header.kind)];
  // An ack is of the last operation that it covers.
  const bool ack = header.kind == wire::FrameKind::kAck;
  happening.op = ack ? header.complete_end - 1 : header.seq;
  happening.epoch = EpochCounter(ack ? header.era : header.attempt);
  if (!ack) happening.chunk = header.chunk;
  See(std::move(happening));
}

void Director::Saw(Moment::Verb verb, const Node& who, std::optional<uint64_t> number) {
  Happening happening;
  happening.verb = verb;
  happening.who = &who;
  if (verb == Moment::Verb::kInstalls) {
    happening.epoch = number;
  } else if (verb == Moment::Verb::kBegins) {
    happening.step = number;
  } else {
    happening.op = number;
  }
  See(std::move(happening));
}

void Director::SawStages(const Node& node) {
  const auto info = node.engine->group_info(kGroup);
  if (!info) return;
  for (Seq seq = info->delivered_end; seq < info->called_end; ++seq) {
    if (std::string(node.engine->OpStage(kGroup, seq)) != "stability") continue;
    if (completed_.insert({&node, seq}).second) Saw(Moment::Verb::kCompletes, node, seq);
  }
}

void Director::SawOutcome(const Node& node, const collective::Outcome& outcome) {
  outcomes_[{node.card.shard, outcome.seq}].insert({NameOf(&node), outcome});
  Saw(Moment::Verb::kDelivers, node, outcome.seq);
}

bool Director::Is(const std::string& name, const void* node) const {
  if (name == kAnybody) return true;
  if (node == nullptr) return name == kCoordinatorName;
  const auto found = names_.find(node);
  return found != names_.end() && (found->second == name || found->second.starts_with(name + "."));
}

bool Director::Matches(const Moment& moment, const Happening& happening) const {
  const auto fits = [](const std::optional<uint64_t>& want, const std::optional<uint64_t>& have) {
    return !want || want == have;
  };
  if (moment.verb != happening.verb || !Is(moment.who, happening.who)) return false;
  const bool message = moment.verb == Moment::Verb::kSends || moment.verb == Moment::Verb::kHears;
  if (message && (moment.what != happening.what || !Is(moment.peer, happening.peer))) return false;
  return fits(moment.op, happening.op) && fits(moment.epoch, happening.epoch) &&
         fits(moment.chunk, happening.chunk) && fits(moment.step, happening.step);
}

void Director::See(Happening happening) {
  for (size_t i = 0; i < story_.expectations.size(); ++i) {
    const Expectation& expectation = story_.expectations[i];
    const bool watches = expectation.kind == Expectation::Kind::kNever ||
                         expectation.kind == Expectation::Kind::kSeen;
    if (watches && Matches(expectation.moment, happening)) ++seen_[i];
  }
  std::vector<size_t> due;
  for (size_t i = 0; i < story_.scenes.size(); ++i) {
    const Scene& scene = story_.scenes[i];
    if (progress_[i].fired || (scene.then && !progress_[i - 1].fired)) continue;
    if (Matches(scene.moment, happening) && ++progress_[i].seen == scene.moment.nth)
      due.push_back(i);
  }
  for (const size_t i : due) Fire(i, happening);
}

// Deaths strike on the spot, in the middle of what is being sent. Everything else has to wait until
// the machine that is at work has been left.
void Director::Fire(size_t index, const Happening& happening) {
  const Scene& scene = story_.scenes[index];
  progress_[index].fired = true;
  for (const Deed& deed : scene.deeds) {
    const bool at_once =
        (deed.kind == Deed::Kind::kKill || deed.kind == Deed::Kind::kRestart) && scene.later == 0;
    if (at_once) {
      Do(deed, happening);
      continue;
    }
    ++deeds_ahead_;
    auto held = std::make_unique<Happening>(happening);
    world_.After(scene.later, [this, &deed, held = std::move(held)] {
      --deeds_ahead_;
      Do(deed, *held);
    });
  }
}

// ---- what is asked ----

void Director::Placed(Node& node) {
  std::string name = arriving_.empty() ? std::to_string(node.card.replica) : arriving_;
  if (story_.weather.shards > 1) name += "." + std::to_string(node.card.shard);
  names_[&node] = name;
  // Who is to be evicted is no innocent, whatever the reason.
  for (const Expectation& expectation : story_.expectations) {
    const bool ends = expectation.kind == Expectation::Kind::kEnd && expectation.text == "evicted";
    node.struck = node.struck || (ends && Is(expectation.names[0], &node));
  }
}

TimeNs Director::WireTime(uint64_t from, uint64_t to) const {
  const auto end = [this](uint64_t index) -> const Node* {
    if (index == 0) return nullptr;
    if (index <= world_.nodes_.size()) return world_.nodes_[index - 1].get();
    return world_.NodeOf(index - World::kConnectionBase);
  };
  const TimeNs usual = story_.weather.delay_max_us * kMicrosecond;
  const bool dials = to == 0 && from <= world_.nodes_.size();
  if (slow_.empty() || dials) return usual;
  const auto slow = slow_.find({end(from), end(to)});
  return slow == slow_.end() ? usual : usual + slow->second;
}

bool Director::MayCall(const Node& node, Seq seq) const {
  if (seq >= static_cast<Seq>(story_.weather.ops)) return false;
  if (world_.explorer_ && !world_.explorer_->Awake(&node)) return false;
  return std::none_of(story_.gates.begin(), story_.gates.end(), [&](const Gate& gate) {
    return Is(gate.who, &node) && seq >= gate.op && !free_.contains(gate.who);
  });
}

collective::OpSpec Director::SpecOf(const Node& node, Seq seq) const {
  using Kind = OpDetail::Kind;
  collective::OpSpec spec;
  spec.element_bytes = spec.accumulator_bytes = kElementBytes;
  spec.count = story_.count;
  spec.plan = story_.plan;
  spec.in_place = story_.weather.in_place != 0;
  for (const OpDetail& detail : story_.details) {
    if (detail.op != seq || (!detail.by.empty() && !Is(detail.by, &node))) continue;
    switch (detail.kind) {
      case Kind::kCount: spec.count = detail.number; break;
      case Kind::kWeight: spec.weight = static_cast<double>(detail.number); break;
      case Kind::kDeadline: spec.timeout_ns = static_cast<TimeNs>(detail.number); break;
      case Kind::kInPlace: spec.in_place = true; break;
      case Kind::kPlan: spec.plan = detail.plan; break;
      case Kind::kKind:
        spec.kind = detail.collective;
        for (const Node* root : NodesOf(detail.root)) {
          if (root->card.shard == node.card.shard) spec.root = root->card.id;
        }
    }
  }
  if (spec.kind == plan::Kind::kBarrier) spec.count = 0;
  const auto view = node.engine->group_view(kGroup);
  const bool segmented =
      spec.kind == plan::Kind::kAllGather || spec.kind == plan::Kind::kReduceScatter;
  if (!segmented || !view) return spec;
  spec.layout = view->epoch;
  for (const wire::ViewEntry& entry : view->entries) spec.layout_members.push_back(entry.card.id);
  return spec;
}

// Names instead of ids.
std::string Director::Readable(std::string line) const {
  for (const auto& node : world_.nodes_) {
    const std::string id = ToString(node->card.id), name = "<" + NameOf(node.get()) + ">";
    for (size_t at = line.find(id); at != std::string::npos; at = line.find(id, at + name.size()))
      line.replace(at, id.size(), name);
  }
  return line;
}

std::string Director::NameOf(const Node* node) const {
  if (node == nullptr) return kCoordinatorName;
  const auto found = names_.find(node);
  return found == names_.end() ? "?" : found->second;
}

std::vector<Director::Node*> Director::NodesOf(const std::string& name) const {
  std::vector<Node*> nodes;
  for (const auto& node : world_.nodes_) {
    if (!name.empty() && Is(name, node.get())) nodes.push_back(node.get());
  }
  return nodes;
}

// ---- the run ----

bool Director::AllFired() const {
  return std::all_of(progress_.begin(), progress_.end(),
                     [](const Progress& progress) { return progress.fired; });
}

std::string Director::Play() {
  progress_.resize(story_.scenes.size());
  seen_.resize(story_.expectations.size());
  world_.calm_ = false;
  world_.StartCoordinator();
  const Weather& weather = story_.weather;
  for (int replica = 0; replica < weather.replicas; ++replica) {
    for (int shard = 0; shard < weather.shards; ++shard) world_.AddNode(replica, shard);
  }
  for (size_t i = 0; i < story_.scenes.size(); ++i) {
    const Moment& moment = story_.scenes[i].moment;
    if (moment.verb == Moment::Verb::kAt) world_.At(moment.at, [this, i] { Fire(i, {}); });
  }
  TimeNs done_since = kNever;
  while (world_.failure_.empty() && world_.RunNext()) {
    const TimeNs now = world_.now_;
    if (world_.explorer_ && world_.explorer_->redundant()) return "";
    if (world_.ended_ && AllFired() && deeds_ahead_ == 0) break;
    done_since = Done() ? std::min(done_since, now) : kNever;
    const bool played = AllFired() && deeds_ahead_ == 0;
    if (world_.events_done_ > World::kEventsMax || now > World::kTimeMax) break;
    if (done_since == kNever) continue;
    const bool explored = world_.explorer_ && !world_.explorer_->exploring();
    if (explored && Judge().empty()) break;  // there are many to come
    if (now - done_since > (played ? kTail : kPatience)) break;
  }
  const std::string failure = Readable(world_.failure_);
  if (story_.fails.empty()) return failure.empty() ? Judge() : failure;
  if (failure.starts_with(story_.fails + ":")) return "";
  return "story: is known to fail by " + story_.fails + ", and " +
         (failure.empty() ? "does not" : "fails by " + failure);
}

}  // namespace ftar::sim
