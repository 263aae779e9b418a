#include "invariants/behind.h"

#include <algorithm>
#include <span>
#include <variant>

#include "wire/codec.h"

namespace ftar::sim {

std::vector<MemberId> NamesIn(const std::string& roster) {
  std::vector<MemberId> names;
  Expected<wire::Message> read = wire::Decode(std::as_bytes(std::span(roster)));
  const auto* behind = read.ok() ? std::get_if<wire::Behind>(&*read) : nullptr;
  if (behind == nullptr) return names;
  for (const wire::MemberCard& card : behind->cards) names.push_back(card.id);
  return names;
}

const Behind::Member& Behind::Of(MemberId id) const {
  static const Member unheard;
  const auto found = members_.find(id);
  return found == members_.end() ? unheard : found->second;
}

void Behind::Hears(MemberId from, const wire::Message& message) {
  Member& member = members_[from];
  if (const auto* hello = std::get_if<wire::Hello>(&message)) {
    member.installed = std::max(member.installed, hello->report.installed_by_all());
    member.broken.clear();  // what still is it says again
  } else if (const auto* installed = std::get_if<wire::Installed>(&message)) {
    member.installed = std::max(member.installed, installed->epoch);
  } else if (const auto* beat = std::get_if<wire::Heartbeat>(&message)) {
    member.installed = std::max(member.installed, beat->installed);
  } else if (const auto* decided = std::get_if<wire::Decided>(&message)) {
    member.decided.insert(decided->epoch);
  } else if (const auto* goodbye = std::get_if<wire::Goodbye>(&message)) {
    member.gone = member.gone || goodbye->code == Code::kLeft;
  } else if (const auto* evidence = std::get_if<wire::Evidence>(&message)) {
    if (evidence->kind == wire::EvidenceKind::kLinkLost) member.broken.insert(evidence->subject);
    if (evidence->kind == wire::EvidenceKind::kLinkRestored) member.broken.erase(evidence->subject);
  }
}

void Behind::Learns(const wire::Roster& roster) { units_[roster.unit] = NamesIn(roster.bytes); }

std::string Behind::LinkIsBack(const std::vector<MemberId>& own, MemberId unit) const {
  const auto found = units_.find(unit);
  if (found == units_.end() || found->second.size() != own.size()) return "";
  for (size_t i = 0; i < own.size(); ++i) {
    if (Of(own[i]).broken.contains(found->second[i]))
      return "behind: a relay says that a link is back, and " + ToString(own[i]) + " lacks it";
  }
  return "";
}

std::string Behind::Says(uint64_t line, const wire::Message& message) {
  if (const auto* hello = std::get_if<wire::Hello>(&message)) own_[line] = NamesIn(hello->roster);
  const std::vector<MemberId>& own = own_[line];
  if (const auto* evidence = std::get_if<wire::Evidence>(&message)) {
    return evidence->kind == wire::EvidenceKind::kLinkRestored ? LinkIsBack(own, evidence->subject)
                                                               : "";
  }
  const auto* installed = std::get_if<wire::Installed>(&message);
  const auto* decided = std::get_if<wire::Decided>(&message);
  for (const MemberId id : own) {
    const Member& member = Of(id);
    if (installed && !member.gone && member.installed < installed->epoch)
      return "behind: a relay says that all hold a view, and " + ToString(id) + " does not";
    if (decided && !member.decided.contains(decided->epoch))
      return "behind: a relay says that all columns have decided, and that of " + ToString(id) +
             " has not";
  }
  return "";
}

}  // namespace ftar::sim
