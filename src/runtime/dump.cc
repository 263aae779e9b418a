// Counters by name, and the flight recorder's dump: what this member knows, as JSON.
#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "collective/surroundings.h"
#include "runtime/job_impl.h"

namespace ftar::runtime {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kOutcomesShown = 32;  // of the newest, in each group

const char* PhaseName(engine::Phase phase) {
  switch (phase) {
    case engine::Phase::kJoining: return "joining";
    case engine::Phase::kMember: return "member";
    case engine::Phase::kLeaving: return "leaving";
    case engine::Phase::kLeft: return "left";
    case engine::Phase::kEvicted: return "evicted";
    case engine::Phase::kAborted: return "aborted";
    case engine::Phase::kRejected: return "rejected";
  }
  return "?";
}

const char* EventName(EventType type) {
  switch (type) {
    case EventType::kView: return "view";
    case EventType::kMemberJoined: return "member_joined";
    case EventType::kMemberLeft: return "member_left";
    case EventType::kMemberLost: return "member_lost";
    case EventType::kLate: return "late";
    case EventType::kSlow: return "slow";
    case EventType::kLinkDown: return "link_down";
    case EventType::kLinkUp: return "link_up";
    case EventType::kCorrupt: return "corrupt";
    case EventType::kCoordinatorDown: return "coordinator_down";
    case EventType::kCoordinatorUp: return "coordinator_up";
    case EventType::kEvicted: return "evicted";
    case EventType::kDrain: return "drain";
    case EventType::kLevel: return "level";
  }
  return "?";
}

Json WireJson(const wire::WireCosts& costs) {
  return {{"round_ns", costs.round_ns}, {"byte_ps", costs.byte_ps}};
}

Json MemberJson(const wire::ViewEntry& entry) {
  return {{"id", ToString(entry.card.id)}, {"replica", entry.card.replica},
          {"shard", entry.card.shard},     {"host", entry.card.host},
          {"pid", entry.card.pid},         {"joined_epoch", EpochCounter(entry.joined_epoch)},
          {"wire", WireJson(entry.card.wire)}};
}

// `wire` is what plans are chosen by, where members share no memory.
Json ViewJson(const wire::View& view, int32_t shard) {
  Json members = Json::array();
  for (const wire::ViewEntry& entry : view.entries) members.push_back(MemberJson(entry));
  return {{"epoch", EpochCounter(view.epoch)},
          {"wire", WireJson(collective::SurroundingsOf(view, shard).wire)},
          {"members", std::move(members)}};
}

Json CulpritJson(const Culprit& who) {
  return {{"code", CodeName(who.code)},
          {"id", ToString(who.member)},
          {"replica", who.replica},
          {"shard", who.shard},
          {"host", who.host},
          {"stage", who.stage},
          {"text", who.text}};
}

Json EventJson(const JobEvent& event) {
  Json out{{"time_ns", event.time_ns},
           {"type", EventName(event.type)},
           {"epoch", EpochCounter(event.epoch)}};
  if (event.seq != kNoSeq) out["seq"] = event.seq;
  if (event.who.member.valid()) out["who"] = CulpritJson(event.who);
  return out;
}

Json OutcomeJson(const collective::Outcome& outcome) {
  return {{"seq", outcome.seq},
          {"status", CodeName(outcome.status)},
          {"epoch", EpochCounter(outcome.epoch)},
          {"participants", outcome.participants},
          {"attempts", outcome.attempts},
          {"start_ns", outcome.start_ns},
          {"delivered_ns", outcome.delivered_ns}};
}

Json ConfigJson(const Config& config) {
  Json out = Json::object();
  for (const Knob& knob : Knobs()) {
    out[knob.name] = {{"value", config.ShownText(knob.id)}, {"origin", config.Origin(knob.id)}};
  }
  return out;
}

}  // namespace

std::vector<std::pair<const char*, uint64_t>> Job::Impl::Counters() const {
  const transport::Device::Counters device = driver_->device_counters();
  const EngineDriver::Counters engine = driver_->counters();
  const uint64_t sent = control_ ? control_->messages_sent() : 0;
  const uint64_t received = control_ ? control_->messages_received() : 0;
  return {
      {"links_opened", device.links_opened},
      {"links_closed", device.links_closed},
      {"links_kept", engine.links_kept},
      {"paths_lost", device.paths_lost},
      {"frames_sent", device.frames_sent},
      {"frames_received", device.frames_received},
      {"bytes_sent", device.bytes_sent},
      {"bytes_received", device.bytes_received},
      {"bytes_resent", device.bytes_resent},
      {"frames_corrupt", device.frames_corrupt},
      {"frames_unroutable", engine.frames_unroutable},
      {"peers_refused", device.peers_refused},
      {"control_messages_sent", sent},
      {"control_messages_received", received},
      {"control_messages", sent + received},
      {"ops_delivered", counts_.ops_delivered},
      {"view_changes", counts_.view_changes},
      {"staging_bytes", engine.staging_bytes},
      {"bytes_kept", device.bytes_kept},
      {"works", engine.works},
      {"bytes_moved", engine.bytes_moved + device.bytes_moved},
      {"lines", engine.lines},
      {"fast", engine.fast},
      {"again", counts_.ops_again},
      {"gpu_plans", engine.gpu_plans},
      {"gpu_block_us", engine.gpu_block_us},
      {"events_dropped", events_.dropped()},
      {"pumps", counts_.pumps},
      {"sleeps", counts_.sleeps},
  };
}

Status Job::Impl::GetCounter(const std::string& name, uint64_t* value) {
  if (forked()) return ForkedError();
  const JobLock lock(mutex_);
  if (!driver_) return Status(Code::kState, "job", "the job is not open");
  std::string known;
  for (const auto& [counter, count] : Counters()) {
    if (name == counter) {
      *value = count;
      return Status::Ok();
    }
    known += (known.empty() ? "" : ", ") + std::string(counter);
  }
  return Status(Code::kArg, "name", "there is no counter '" + name + "'; there are: " + known);
}

nlohmann::ordered_json Job::Impl::GroupsJson(TimeNs now) const {
  Json out = Json::array();
  for (const auto& [key, state] : groups_) {
    const engine::Engine& engine = driver_->engine();
    const auto info = engine.group_info(key).value_or(engine::Engine::GroupInfo{});
    Json ops = Json::array();
    for (const OpPtr& op : state.ops) {
      ops.push_back({{"seq", op->seq},
                     {"stage", engine.OpStage(key, op->seq)},
                     {"age_us", (now - op->start_ns) / kMicrosecond}});
    }
    Json last = Json::array();
    const Seq end = state.history.end();
    for (Seq seq = end - std::min<Seq>(end, kOutcomesShown); seq < end; ++seq) {
      if (const auto outcome = state.history.Find(seq))
        last.push_back(OutcomeJson(*outcome));
    }
    out.push_back({{"key", key},
                   {"called", info.called_end},
                   {"delivered", info.delivered_end},
                   {"in_flight", info.in_flight},
                   {"queued", info.queued},
                   {"ops", std::move(ops)},
                   {"last_outcomes", std::move(last)}});
  }
  return out;
}

// Text from peers (host names, error texts) may be any bytes: what is not UTF-8 is replaced.
std::string Job::Impl::DumpJson() {
  const JobLock lock(mutex_);
  const TimeNs now = Now();
  Json out{{"job", place_.job},
           {"id", ToString(self_)},
           {"replica", place_.replica},
           {"shard", place_.shard},
           {"host", host_},
           {"time_ns", now},
           {"created_ns", created_ns_},
           {"ended", ended_.ok() ? "" : ended_.ToString()}};
  out["events"] = Json::array();
  for (const JobEvent& event : recent_events_) out["events"].push_back(EventJson(event));
  if (culprits_.last().member.valid()) out["last_fault"] = CulpritJson(culprits_.last());
  if (!driver_) return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  const engine::Engine& engine = driver_->engine();
  out["phase"] = PhaseName(engine.phase());
  out["changing"] = engine.changing();
  out["coordinator_up"] = engine.coordinator_up();
  out["quorum_lost"] = engine.quorum_lost();
  if (const ViewPtr view = engine.view()) out["view"] = ViewJson(*view, place_.shard);
  out["groups"] = GroupsJson(now);
  out["waits_for"] = Json::array();
  for (const wire::GroupProgress& progress : engine.progress().groups) {
    for (const MemberId member : progress.waits_for) out["waits_for"].push_back(ToString(member));
  }
  out["links"] = Json::array();
  for (const EngineDriver::LinkReport& link : driver_->Links()) {
    out["links"].push_back({{"peer", ToString(link.peer)},
                            {"transport", link.transport},
                            {"up", link.up},
                            {"text", link.text}});
  }
  for (const auto& [counter, count] : Counters()) out["counters"][counter] = count;
  out["config"] = ConfigJson(config_);
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace ftar::runtime
