#include "invariants/result.h"

#include <algorithm>

#include "invariants/agreement.h"

namespace ftar::sim {
namespace {

using plan::Kind;

bool Segmented(const collective::OpSpec& spec) {
  return spec.kind == Kind::kReduceScatter || spec.kind == Kind::kAllGather;
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

std::string CheckResult(GroupKey group, const collective::OpSpec& spec, uint64_t segment_offset,
                        const collective::Outcome& outcome, const Buffer& recv) {
  if (outcome.status != Code::kOk || spec.kind == Kind::kBarrier) return "";
  const bool in_order = outcome.plan != plan::PlanKind::kRing;
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
      if (inside) want.Add(Contribution(member.replica, group, outcome.seq, position));
    }
    const Element& have = recv[i];
    if (have.who != want.who || have.where != want.where) {
      return "result: " + NameOf(outcome) + " element " + std::to_string(i) + " holds " +
             std::to_string(have.who) + " instead of " + std::to_string(want.who);
    }
    if (in_order && have.chain != want.chain)
      return "order: " + NameOf(outcome) + " was not added in the order of its members";
  }
  return "";
}

std::string CheckInput(GroupKey group, const collective::OpSpec& spec, int replica,
                       const collective::Outcome& outcome, const Memory::OpBuffers& buffers) {
  if (buffers.in_place && outcome.status == Code::kOk) return "";
  const Buffer want = MakeInput(group, spec, replica, outcome.seq);
  const Buffer& have = buffers.in_place ? buffers.recv : buffers.send;
  const bool untouched = outcome.status == Code::kMismatch || outcome.status == Code::kAbsent;
  if (untouched && !buffers.in_place &&
      std::any_of(buffers.recv.begin(), buffers.recv.end(),
                  [](const Element& element) { return !(element == kUntouched); })) {
    return "output: " + NameOf(outcome) + " left bytes in the output of replica " +
           std::to_string(replica);
  }
  if (have.size() >= want.size() && std::equal(want.begin(), want.end(), have.begin())) return "";
  return "input: " + NameOf(outcome) + " the input of replica " + std::to_string(replica) +
         " was changed";
}

std::string CheckMoment(const collective::Outcome& outcome) {
  const bool in_order =
      outcome.start_ns <= outcome.complete_ns && outcome.complete_ns <= outcome.delivered_ns;
  if (outcome.status != Code::kOk || in_order) return "";
  return "moments: " + NameOf(outcome) + " was called at " + std::to_string(outcome.start_ns) +
         ", complete at " + std::to_string(outcome.complete_ns) + " and delivered at " +
         std::to_string(outcome.delivered_ns);
}

}  // namespace ftar::sim
