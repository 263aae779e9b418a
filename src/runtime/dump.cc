// Counters by name, and the dump that a person reads when something went wrong.
#include <cinttypes>
#include <cstdio>

#include "runtime/job_impl.h"

namespace ftar::runtime {
namespace {

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

}  // namespace

Status Job::Impl::GetCounter(const std::string& name, uint64_t* value) {
  if (forked()) return Status(Code::kForked, "this job belongs to the parent process");
  Lock lock = TakeLock();
  if (!driver_) return Status(Code::kState, "job", "the job is not open");
  const transport::Device::Counters device = driver_->device_counters();
  const EngineDriver::Counters engine = driver_->counters();
  const struct {
    const char* name;
    uint64_t value;
  } counters[] = {
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
      {"control_messages_sent", control_ ? control_->messages_sent() : 0},
      {"control_messages_received", control_ ? control_->messages_received() : 0},
      {"control_messages",
       control_ ? control_->messages_sent() + control_->messages_received() : 0},
      {"ops_delivered", ops_delivered_},
      {"view_changes", view_changes_},
      {"staging_bytes", engine.staging_bytes},
      {"works", engine.works},
      {"events_dropped", events_.dropped()},
      {"pumps", pumps_},
      {"sleeps", sleeps_},
  };
  std::string known;
  for (const auto& counter : counters) {
    if (name == counter.name) {
      *value = counter.value;
      return Status::Ok();
    }
    known += (known.empty() ? "" : ", ") + std::string(counter.name);
  }
  return Status(Code::kArg, "name", "there is no counter '" + name + "'; there are: " + known);
}

std::string Job::Impl::DumpText() {
  Lock lock = TakeLock();
  std::string out = "job " + place_.job + " member " + ToString(self_) + " replica " +
                    std::to_string(place_.replica) + " shard " + std::to_string(place_.shard) +
                    " host " + host_ + "\n";
  if (!driver_) return out;
  const engine::Engine& engine = driver_->engine();
  out += std::string("phase ") + PhaseName(engine.phase()) +
         (engine.changing() ? ", changing" : "") +
         (engine.coordinator_up() ? ", coordinator up" : ", coordinator down") +
         (engine.quorum_lost() ? ", quorum lost" : "") + "\n";
  if (const ViewPtr view = engine.view()) {
    out += "view " + std::to_string(EpochCounter(view->epoch)) + ":\n";
    for (const wire::ViewEntry& entry : view->entries) {
      out += "  member " + ToString(entry.card.id) + " replica " +
             std::to_string(entry.card.replica) + " shard " + std::to_string(entry.card.shard) +
             " host " + entry.card.host + " pid " + std::to_string(entry.card.pid) + "\n";
    }
  }
  for (const auto& [key, state] : groups_) {
    const auto info = engine.group_info(key);
    char line[160];
    snprintf(line, sizeof line,
             "group %08x: called %" PRIu64 " delivered %" PRIu64 " in flight %zu queued %zu\n", key,
             info ? info->called_end : 0, info ? info->delivered_end : 0,
             info ? info->in_flight : 0, info ? info->queued : 0);
    out += line;
    for (const auto& [seq, op] : state.ops) {
      out += "  op " + std::to_string(seq) + " stage " + engine.OpStage(key, seq) + " since " +
             std::to_string((Now() - op->start_ns) / kMicrosecond) + " us\n";
    }
  }
  for (const wire::GroupProgress& progress : engine.progress().groups) {
    for (const MemberId member : progress.waits_for) out += "waits for " + ToString(member) + "\n";
  }
  out += driver_->Describe();
  if (!last_culprit_.text.empty()) out += "last fault: " + last_culprit_.text + "\n";
  if (!ended_.ok()) out += "ended: " + ended_.ToString() + "\n";
  return out;
}

}  // namespace ftar::runtime
