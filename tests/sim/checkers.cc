#include "checkers.h"

#include <algorithm>

namespace ftar::sim {
namespace {

using plan::Kind;

bool Segmented(const collective::OpSpec& spec) {
  return spec.kind == Kind::kReduceScatter || spec.kind == Kind::kAllGather;
}

std::string Name(Seq seq, const collective::Outcome& outcome) {
  std::string out =
      "op " + std::to_string(seq) + " epoch " + std::to_string(EpochCounter(outcome.epoch)) + " [";
  for (const auto& member : outcome.members)
    out += std::to_string(member.replica) + (member.weight > 0 ? " " : "o ");
  return out + "] status " + std::to_string(static_cast<int>(outcome.status));
}

bool Same(const collective::Outcome& a, const collective::Outcome& b) {
  if (a.status != b.status) return false;
  if (a.status != Code::kOk && a.status != Code::kAbsent)
    return true;  // a failed op's members are nobody's participants
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

}  // namespace

Buffer MakeInput(GroupKey group, const collective::OpSpec& spec, int replica, Seq seq) {
  const uint64_t segments =
      spec.kind == Kind::kReduceScatter ? std::max<size_t>(spec.layout_members.size(), 1) : 1;
  Buffer input(spec.count * segments);
  for (uint64_t i = 0; i < input.size(); ++i) input[i] = Contribution(replica, group, seq, i);
  return input;
}

uint64_t OutputElements(const collective::OpSpec& spec) {
  return spec.count *
         (spec.kind == Kind::kAllGather ? std::max<size_t>(spec.layout_members.size(), 1) : 1);
}

std::string Checkers::Agreement(int shard, const collective::Outcome& outcome) {
  std::vector<collective::Outcome>& known = outcomes_[{shard, outcome.seq}];
  const collective::Outcome* other = nullptr;
  for (const collective::Outcome& one : known) {
    if (Same(one, outcome)) return "";
    if (one.tag == outcome.tag || one.tag == 0 || outcome.tag == 0) other = &one;
  }
  const std::string wrong =
      other ? "agreement: " + Name(outcome.seq, *other) + " and " + Name(outcome.seq, outcome) : "";
  known.push_back(outcome);
  return wrong;
}

std::string Checkers::Result(GroupKey group, const collective::OpSpec& spec,
                             uint64_t segment_offset, const collective::Outcome& outcome,
                             const Buffer& recv) {
  if (outcome.status != Code::kOk || spec.kind == Kind::kBarrier) return "";
  for (uint64_t i = 0; i < recv.size(); ++i) {
    Element want;
    const uint64_t segment = Segmented(spec) && spec.count > 0 ? i / spec.count : 0;
    const uint64_t position =
        spec.kind == Kind::kAllGather && spec.count > 0 ? i % spec.count : segment_offset + i;
    for (const auto& member : outcome.members) {
      if (member.weight == 0) continue;
      const bool inside = spec.kind == Kind::kAllGather ? spec.layout_members[segment] == member.id
                          : spec.kind == Kind::kBroadcast ? spec.root == member.id
                                                          : true;
      if (!inside) continue;
      const Element one = Contribution(member.replica, group, outcome.seq, position);
      want.who += one.who;
      want.where += one.where;
    }
    if (!(recv[i] == want)) {
      return "result: " + Name(outcome.seq, outcome) + " element " + std::to_string(i) + " holds " +
             std::to_string(recv[i].who) + " instead of " + std::to_string(want.who);
    }
  }
  return "";
}

std::string Checkers::Input(GroupKey group, const collective::OpSpec& spec, int replica,
                            const collective::Outcome& outcome, const Memory::OpBuffers& buffers) {
  if (buffers.in_place && outcome.status == Code::kOk) return "";
  const Buffer want = MakeInput(group, spec, replica, outcome.seq);
  const Buffer& have = buffers.in_place ? buffers.recv : buffers.send;
  const bool untouched = outcome.status == Code::kMismatch || outcome.status == Code::kAbsent;
  if (untouched && !buffers.in_place &&
      std::any_of(buffers.recv.begin(), buffers.recv.end(),
                  [](const Element& element) { return !(element == Element{}); })) {
    return "output: " + Name(outcome.seq, outcome) + " left bytes in the output of replica " +
           std::to_string(replica);
  }
  if (have.size() >= want.size() && std::equal(want.begin(), want.end(), have.begin())) return "";
  return "input: " + Name(outcome.seq, outcome) + " the input of replica " +
         std::to_string(replica) + " was changed";
}

std::string Checkers::ViewSeen(MemberId member, const wire::View& view) {
  const auto [known, first] = views_.insert({view.epoch, view});
  if (!first && !(known->second == view))
    return "views: two views of epoch " + std::to_string(EpochCounter(view.epoch));
  Epoch& last = last_epoch_[member];
  if (view.epoch < last) return "views: the epoch of " + ToString(member) + " went back";
  last = view.epoch;
  return "";
}

std::string Checkers::Fencing(MemberId member, int shard, const collective::Outcome& outcome) {
  (void)shard;
  if (!delivered_.insert({member, outcome.seq}).second)
    return "fencing: delivered twice: " + Name(outcome.seq, outcome);
  if (outcome.status != Code::kOk) return "";
  const bool inside = std::any_of(outcome.members.begin(), outcome.members.end(),
                                  [member](const auto& m) { return m.id == member; });
  return inside ? ""
                : "fencing: " + ToString(member) +
                      " delivered without being a member: " + Name(outcome.seq, outcome);
}

}  // namespace ftar::sim
