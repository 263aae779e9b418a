#include "perf/session.h"

#include <unistd.h>

#include "fmt/format.h"
#include "perf/clock.h"

namespace ftar::perf {

Session::Session(const Options& options, Reporter* reporter)
    : options_(options), reporter_(reporter) {}

Session::~Session() {
  ftarGroupClose(group_);
  ftarJobDestroy(job_);
}

ftarResult_t Session::Configure(ftarConfig_t config) {
  const std::pair<std::string, std::string> own[] = {
      {"transport", options_.transport},
      {"plan", options_.plan},
      {"ft", options_.fault_tolerance ? "on" : "off"},
      {"timeout", options_.timeout}};
  for (const auto& [name, value] : own) {
    // A choice that is left to the library is not set, so that its environment keeps its say.
    if (value.empty() || value == "auto" || (name == "ft" && value == "on")) continue;
    const ftarResult_t result = ftarConfigSet(config, name.c_str(), value.c_str());
    if (result != FTAR_OK) return result;
  }
  for (const auto& [name, value] : options_.knobs) {
    const ftarResult_t result = ftarConfigSet(config, name.c_str(), value.c_str());
    if (result != FTAR_OK) return result;
  }
  return FTAR_OK;
}

ftarResult_t Session::Join() {
  ftarConfig_t knobs = nullptr;
  ftarResult_t result = ftarConfigCreate(&knobs);
  if (result == FTAR_OK) result = Configure(knobs);
  if (result == FTAR_OK) {
    ftarJobConfig config = FTAR_JOB_CONFIG_INIT;
    config.flags = FTAR_JOB_NONBLOCKING;
    if (options_.role.index >= 0) {
      config.replica = options_.role.index;
      config.replicas = options_.role.world;
      config.shard = 0;
      config.shards = 1;
    }
    config.name = "ftar-perf";
    config.config = knobs;
    config.on_event = &Session::OnEvent;
    config.user = this;
    result = ftarJobJoin(&config, &job_);
  }
  ftarConfigDestroy(knobs);
  return result == FTAR_IN_PROGRESS ? FTAR_OK : result;
}

ftarResult_t Session::Enter(int window) {
  ftarResult_t result = ftarJobWaitReady(job_, options_.hang_timeout_s * kSecondNs);
  if (result != FTAR_OK) return result;
  ftarGroupConfig config = FTAR_GROUP_CONFIG_INIT;
  config.name = "perf";
  if (options_.window > 0) config.window = window;
  config.priority = options_.priority;
  result = ftarGroupOpen(job_, &config, &group_);
  if (result != FTAR_OK) return result;
  const ftarGroupInfo info = Info();
  first_seq_ = info.first_seq;
  const Layout layout = CurrentLayout();
  replica_ = options_.role.index;
  if (replica_ < 0 && layout.my_index >= 0) replica_ = layout.replicas[layout.my_index];
  char host[64] = {};
  gethostname(host, sizeof host - 1);
  reporter_->Send(
      HelloRecord{getpid(), host, info.my_rank, info.members, first_seq_, info.epoch, NowNs()});
  return FTAR_OK;
}

ftarResult_t Session::Leave() { return ftarJobLeave(job_, 10 * kSecondNs); }

ftarGroupInfo Session::Info() const {
  ftarGroupInfo info = FTAR_GROUP_INFO_INIT;
  ftarGroupGetInfo(group_, &info);
  return info;
}

Layout Session::CurrentLayout() const {
  Layout layout;
  ftarView_t view = nullptr;
  if (ftarGroupGetView(group_, &view) != FTAR_OK) return layout;
  ftarViewInfo info = FTAR_VIEW_INFO_INIT;
  ftarViewGetInfo(view, &info);
  layout.epoch = info.epoch;
  layout.my_index = info.my_rank;
  for (int32_t rank = 0; rank < info.members; ++rank) {
    ftarMemberInfo member = FTAR_MEMBER_INFO_INIT;
    if (ftarViewGetMember(view, rank, &member) == FTAR_OK)
      layout.replicas.push_back(member.replica);
  }
  ftarViewRelease(view);
  return layout;
}

// In the job, whether or not it is in an operation yet.
bool Session::HasReplica(int32_t replica) const {
  bool found = false;
  ftarView_t view = nullptr;
  if (ftarJobGetView(job_, &view) != FTAR_OK) return false;
  ftarViewInfo info = FTAR_VIEW_INFO_INIT;
  ftarViewGetInfo(view, &info);
  for (int32_t rank = 0; rank < info.members && !found; ++rank) {
    ftarMemberInfo member = FTAR_MEMBER_INFO_INIT;
    found = ftarViewGetMember(view, rank, &member) == FTAR_OK && member.replica == replica;
  }
  ftarViewRelease(view);
  return found;
}

void Session::SendCounters(uint64_t epoch) {
  CountersRecord record;
  record.epoch = epoch;
  record.time_ns = NowNs();
  for (size_t i = 0; i < kCounterNames.size(); ++i) {
    ftarJobGetCounter(job_, kCounterNames[i], &record.values[i]);
  }
  reporter_->Send(record);
}

uint64_t Session::Counter(const char* name) const {
  uint64_t value = 0;
  ftarJobGetCounter(job_, name, &value);
  return value;
}

std::string Session::LastError() {
  ftarErrorInfo info = FTAR_ERROR_INFO_INIT;
  if (ftarGetLastError(&info) != FTAR_OK && info.code == FTAR_OK) return "";
  return fmt::format("{}: {}", ftarResultString(info.code), info.text);
}

void Session::OnEvent(const ftarEvent* event, void* user) {
  auto* self = static_cast<Session*>(user);
  EventRecord record;
  record.type = event->type;
  record.cause = event->cause;
  record.epoch = event->epoch;
  record.time_ns = event->time_ns;
  record.replica = event->who.replica;
  record.text = event->who.text;
  self->reporter_->Send(record);
}

}  // namespace ftar::perf
