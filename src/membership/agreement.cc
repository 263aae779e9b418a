#include "membership/agreement.h"

#include <map>
#include <string_view>
#include <utility>

#include "base/config.h"
#include "base/knob_value.h"
#include "wire/frame.h"

namespace ftar::membership {
namespace {

constexpr int32_t kPlaceMax = 65'535;

wire::Rejected Reject(Code code, std::string argument, std::string text) {
  return {code, std::move(argument), std::move(text)};
}

std::string_view NameOf(std::string_view pair) { return pair.substr(0, pair.find('=')); }
std::string ValueOf(std::string_view pair) {
  const size_t at = pair.find('=');
  return at == std::string_view::npos ? std::string() : std::string(pair.substr(at + 1));
}

std::map<std::string, std::string> AsMap(const std::vector<std::string>& pairs) {
  std::map<std::string, std::string> out;
  for (const std::string& pair : pairs) out[std::string(NameOf(pair))] = ValueOf(pair);
  return out;
}

// What to do about it.
std::string SetAlike(std::string_view name) {
  const Knob* const knob = FindKnob(name);
  return knob == nullptr ? "" : ": set " + KnobVariable(*knob) + " alike for all";
}

// What one member lacks the other has at its default; that is a difference too, since the two are
// not the same program.
std::string Shown(const std::string& value) { return value.empty() ? "not set" : value; }

}  // namespace

std::string Describe(const wire::MemberCard& card) {
  std::string text = "replica " + std::to_string(card.replica);
  if (card.shard != 0) text += ", shard " + std::to_string(card.shard);
  if (!card.host.empty()) text += " on " + card.host;
  return text + " (" + ToString(card.id) + ")";
}

wire::Rejected CheckHello(const wire::Hello& hello, const std::string& own_job,
                          const std::optional<Reference>& reference) {
  const std::string who = Describe(hello.card);
  if (hello.wire_version != wire::kWireVersion) {
    return Reject(Code::kVersion, "wire_version",
                  who + " speaks wire version " + std::to_string(hello.wire_version) +
                      ", this coordinator " + std::to_string(wire::kWireVersion) +
                      ": all of a job need the same release");
  }
  if (!hello.card.id.valid()) return Reject(Code::kConfig, "member", "the member has no id");
  const std::string& job = reference ? reference->job : own_job;
  if (!job.empty() && hello.job != job) {
    return Reject(Code::kConfig, "job",
                  who + " belongs to job '" + hello.job + "', this is job '" + job +
                      "': FTAR_JOB names it, alike for all");
  }
  if (hello.replicas < 1 || hello.replicas > kPlaceMax + 1 || hello.shards < 1 ||
      hello.shards > kPlaceMax + 1) {
    return Reject(Code::kConfig, "replicas",
                  who + " asks for " + std::to_string(hello.replicas) + " replicas of " +
                      std::to_string(hello.shards) + " shards");
  }
  if (hello.card.replica < 0 || hello.card.replica > kPlaceMax) {
    return Reject(Code::kConfig, "replica",
                  "replica " + std::to_string(hello.card.replica) + " is out of range");
  }
  if (hello.card.shard < 0 || hello.card.shard >= hello.shards) {
    return Reject(Code::kConfig, "shard",
                  who + ": a replica has " + std::to_string(hello.shards) + " shards");
  }
  if (!reference) return {Code::kOk, {}, {}};
  const auto differ = [&](const char* name, const std::string& theirs, const std::string& ours) {
    return Reject(Code::kConfig, name,
                  std::string(name) + " is " + theirs + " at " + who + " and " + ours + " at " +
                      reference->who + SetAlike(name));
  };
  const std::pair<const char*, std::pair<int32_t, int32_t>> numbers[] = {
      {"replicas", {hello.replicas, reference->replicas}},
      {"shards", {hello.shards, reference->shards}},
      {"min_replicas", {hello.min_replicas, reference->min_replicas}}};
  for (const auto& [name, values] : numbers) {
    if (values.first != values.second)
      return differ(name, std::to_string(values.first), std::to_string(values.second));
  }
  if (reference->relays == hello.roster.empty()) {
    return Reject(Code::kConfig, "relay",
                  "either all members of a job stand behind relays or nobody does: " + who +
                      (reference->relays ? " does not, " : " does, ") + reference->who +
                      (reference->relays ? " does" : " does not"));
  }
  std::map<std::string, std::string> theirs = AsMap(hello.agreed_config),
                                     ours = AsMap(reference->agreed_config);
  for (const auto& [name, value] : theirs) ours.insert({name, ""});
  for (const auto& [name, value] : ours) {
    if (theirs[name] != value) return differ(name.c_str(), Shown(theirs[name]), Shown(value));
  }
  return {Code::kOk, {}, {}};
}

Reference ReferenceOf(const wire::Hello& hello) {
  return {hello.job,          Describe(hello.card), hello.replicas,       hello.shards,
          hello.min_replicas, hello.agreed_config,  !hello.roster.empty()};
}

int64_t AgreedNumber(const Reference& reference, KnobId id, int64_t otherwise) {
  const std::map<std::string, std::string> agreed = AsMap(reference.agreed_config);
  const Knob& knob = KnobOf(id);
  const auto found = agreed.find(knob.name);
  if (found == agreed.end()) return otherwise;
  const Expected<KnobValue> value = ParseKnob(knob, found->second);
  return value.ok() ? value->number : otherwise;
}

}  // namespace ftar::membership
