// From options and environment to a running job.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <system_error>

#include "base/config_os.h"
#include "base/signals_os.h"
#include "plan/grid.h"
#include "reduce/isa.h"
#include "runtime/coordinator_process.h"
#include "runtime/host.h"
#include "runtime/job_impl.h"
#include "runtime/logger.h"
#include "transport/fd.h"
#include "transport/shm/device.h"
#include "wire/addresses.h"

namespace ftar::runtime {
namespace {

// For what opens here, and the first links. A shortage that passes would leave this member without
// the lane or without shared memory for as long as it lives, and its whole column with it.
constexpr size_t kDescriptorsToJoin = 24;

Status SetIf(Config* config, bool given, const char* name, const std::string& value) {
  return given ? config->Set(Config::Layer::kProgram, name, value) : Status::Ok();
}

Status ApplyOptions(const JobOptions& options, Config* config) {
  for (const auto& [name, value] : options.knobs) {
    FTAR_RETURN_IF_ERROR(config->Set(Config::Layer::kProgram, name, value));
  }
  const struct {
    const char* name;
    int32_t value;
  } numbers[] = {{"replica", options.replica},
                 {"shard", options.shard},
                 {"replicas", options.replicas},
                 {"shards", options.shards},
                 {"min_replicas", options.min_replicas}};
  for (const auto& [name, value] : numbers) {
    FTAR_RETURN_IF_ERROR(SetIf(config, value >= 0, name, std::to_string(value)));
  }
  FTAR_RETURN_IF_ERROR(SetIf(config, !options.name.empty(), "job", options.name));
  FTAR_RETURN_IF_ERROR(
      SetIf(config, !options.coordinator.empty(), "coordinator", options.coordinator));
  FTAR_RETURN_IF_ERROR(SetIf(config, !options.host.empty(), "host", options.host));
  FTAR_RETURN_IF_ERROR(SetIf(config, !options.rack.empty(), "rack", options.rack));
  return SetIf(config, options.timeout_ns > 0, "timeout",
               std::to_string(options.timeout_ns) + "ns");
}

// As the knobs have them; 0: to be measured.
wire::WireCosts WireCostsOf(const Config& config) {
  constexpr int64_t kPicoseconds = 1'000 * kSecond;
  wire::WireCosts costs;
  costs.round_ns = static_cast<uint32_t>(config.duration_ns(KnobId::kWireRound));
  if (!config.is_word(KnobId::kWireRate))
    costs.byte_ps =
        static_cast<uint32_t>(std::max<int64_t>(kPicoseconds / config.bytes(KnobId::kWireRate), 1));
  return costs;
}

std::string PortsText(const Config& config) {
  const Config::Ports ports = config.ports(KnobId::kPorts);
  if (ports.first == 0) return {};
  return std::to_string(ports.first) + "-" + std::to_string(ports.last);
}

size_t BytesOrZero(int64_t bytes) { return bytes > 0 ? static_cast<size_t>(bytes) : 0; }

uint64_t LargestPiece(const Config& config) {
  return plan::PieceBytesMax(BytesOrZero(config.bytes(KnobId::kChunk)));
}

// 0: the device's own choice, which is made for the chunks that are chosen.
size_t RingBytes(const Config& config) {
  const size_t ring = BytesOrZero(config.bytes(KnobId::kShmRing));
  const uint64_t piece = LargestPiece(config);
  if (ring > 0 || piece <= plan::kChunkBytesMax) return ring;
  return 8 * piece;
}

// Better said now than by the first large operation.
Status RingHoldsChunks(const Config& config) {
  const size_t ring = RingBytes(config);
  const uint64_t piece = LargestPiece(config);
  if (transport::shm::ShmDevice::RingHolds(ring, piece)) return Status::Ok();
  return Status(Code::kConfig, "shm_ring",
                "a ring of " + std::to_string(ring) + " bytes does not hold frames of " +
                    std::to_string(piece) + " bytes, which chunks may need (knob chunk)");
}

plan::PlanKind PlanOf(const std::string& word) {
  for (plan::PlanKind kind :
       {plan::PlanKind::kOneShot, plan::PlanKind::kDirect, plan::PlanKind::kRing}) {
    if (word == plan::PlanName(kind)) return kind;
  }
  return plan::PlanKind::kAuto;
}

}  // namespace

Status Job::Impl::Configure(const JobOptions& options) {
  environment_ = ReadEnvironment();
  FTAR_RETURN_IF_ERROR(LoadConfig(environment_, &config_));
  FTAR_RETURN_IF_ERROR(ApplyOptions(options, &config_));
  FTAR_RETURN_IF_ERROR(CheckTogether(config_));
  Expected<std::string> token = ReadToken(config_);
  if (!token.ok()) return token.status();
  token_ = std::move(token.value());
  Expected<Place> place = FindPlace(config_, environment_, !token_.empty(), getppid());
  if (!place.ok()) return place.status();
  place_ = std::move(place.value());
  for (const HostPort& meeting : place_.meeting) {
    if (!token_.empty() || IsLoopbackText(meeting.host)) continue;
    return Status(Code::kConfig, "token",
                  "the coordinator is at " + ShownAddress(meeting) +
                      ", not at localhost, 127.0.0.1 or ::1: beyond loopback every member must "
                      "know the job's token, before any name is looked up: set FTAR_TOKEN or "
                      "FTAR_TOKEN_FILE");
  }
  const Expected<MemberId> id = RandomMemberId();
  if (!id.ok()) return id.status();
  self_ = *id;
  host_ = config_.text(KnobId::kHost);
  if (host_.empty()) host_ = HostName();
  Expected<std::string> key = HostKey();
  if (!key.ok()) return key.status();
  host_key_ = std::move(*key);
  FTAR_RETURN_IF_ERROR(RingHoldsChunks(config_));
  FTAR_RETURN_IF_ERROR(reduce::SetIsa(config_.text(KnobId::kIsa)));
  timeout_ns_ = config_.duration_ns(KnobId::kTimeout);
  cores_ = UsableCores();
  log_ = MakeLogger(config_, place_.job + "/" + ToString(self_));
  if (PlanOf(config_.text(KnobId::kPlan)) == plan::PlanKind::kRing) SayIfNoRing();
  return Status::Ok();
}

void Job::Impl::OpenLane() {
  const int64_t most = config_.bytes(KnobId::kLaneMax);
  if (most <= 0 || config_.text(KnobId::kTransport) == "tcp" || !config_.on(KnobId::kFt)) return;
  auto memory = transport::LaneMemory::Create(self_);
  if (memory.ok()) {
    lane_.emplace(std::move(*memory), static_cast<uint64_t>(most));
  } else {
    log_.Info("runtime", "no lane for small operations: " + memory.status().text());
  }
}

Expected<std::vector<std::string>> Job::Impl::AwaitAnswer(const HostPort& name, TimeNs end) {
  for (;;) {
    if (auto answer = resolver_.Ask(name)) return std::move(*answer);
    if (Now() >= end) {
      return Status(Code::kCoordinator, "coordinator",
                    "the name of the coordinator's host " + name.host +
                        " has been looked up all of join_timeout, without an answer");
    }
    progress_.WaitUntil(mutex_, Now() + coordinator::Resolver::kLookNs);
  }
}

// Where to listen follows from the way to a meeting point, whose name may be known only a while
// after this process has started, as those of pods are. Once a job runs, who dials asks again.
Expected<std::vector<std::string>> Job::Impl::AwaitAWay() {
  constexpr TimeNs kPauseNs = 100 * kMillisecond;
  const TimeNs end = created_ns_ + config_.duration_ns(KnobId::kJoinTimeout);
  const JobLock lock(mutex_);
  for (bool said = false;; said = true) {
    Status unknown;
    for (const HostPort& name : place_.meeting) {
      auto found = AwaitAnswer(name, end);
      if (found.ok()) return found;
      unknown = found.status();
    }
    if (Now() >= end) return unknown;
    if (!said) log_.Warn("runtime", unknown.text() + "; asking again until join_timeout is over");
    progress_.WaitUntil(mutex_, Now() + kPauseNs);
  }
}

Expected<Devices> Job::Impl::OpenDevices(std::vector<std::string> ways) {
  transport::DeviceConfig device;
  device.self = self_;
  device.job = place_.job;
  device.token = token_;
  device.host_key = host_key_;
  device.interface_name = config_.text(KnobId::kInterface);
  device.routes_to = std::move(ways);
  device.ports = PortsText(config_);
  device.tcp_streams = std::max(static_cast<int>(config_.integer(KnobId::kTcpStreams)), 0);
  device.wire = WireCostsOf(config_);
  device.tcp_congestion = config_.text(KnobId::kTcpCongestion);
  device.tcp_crc = config_.on(KnobId::kTcpCrc);
  device.allow_wildcard = config_.on(KnobId::kAllowWildcard);
  if (const size_t credit = BytesOrZero(config_.bytes(KnobId::kCredit)); credit > 0)
    device.credit_bytes = credit;
  device.exports = exports_;
  device.priorities = priorities_;
  if (lane_) device.lanes = lane_->shared();
  device.shm_ring_bytes = RingBytes(config_);
  device.payload_bytes_max = LargestPiece(config_);
  // Together less than the time after which silence evicts: the link's verdict should come before
  // that of the clock.
  device.path_silence_ns = timeout_ns_ * 2 / 5;
  device.path_retry_ns = timeout_ns_ / 2;
  device.handshake_timeout_ns = std::max<TimeNs>(timeout_ns_ / 2, kSecond);
  const std::string& wanted = config_.text(KnobId::kTransport);
  Devices out;
  Status last;
  for (const char* name : {"shm", "tcp"}) {
    if (wanted != "auto" && wanted != name) continue;
    Expected<std::unique_ptr<transport::Device>> opened = transport::OpenDevice(name, device);
    if (opened.ok()) {
      out.push_back(std::move(opened.value()));
    } else {
      last = opened.status();
      log_.Info("runtime", std::string(name) + " is not used: " + last.text());
      // tcp reaches everybody, so that only its loss is one.
      if (wanted == name || std::string(name) == "tcp") return last;
    }
  }
  return out;
}

engine::Config Job::Impl::MakeEngineConfig(const Devices& devices) {
  engine::Config out;
  out.job = place_.job;
  out.self.id = self_;
  out.self.replica = place_.replica;
  out.self.shard = place_.shard;
  out.self.pid = getpid();
  out.self.host = host_;
  out.self.host_key = host_key_;
  out.self.rack = config_.text(KnobId::kRack);
  out.self.cores = cores_.count;
  out.self.core_set = cores_.set;
  out.self.lane = lane_.has_value();
  for (const auto& device : devices) {
    out.self.addresses += (out.self.addresses.empty() ? "" : ";") + device->address();
  }
  if (hosting_) out.self.addresses += ";" + hosting_->address();
  out.replicas = place_.replicas;
  out.shards = place_.shards;
  out.min_replicas = place_.min_replicas;
  out.agreed_config = config_.AgreedList();
  out.timeout_ns = timeout_ns_;
  out.heartbeat_ns = config_.duration_ns(KnobId::kHeartbeat);
  out.solo = place_.solo();
  out.group.window = static_cast<Seq>(config_.integer(KnobId::kWindow));
  out.group.fault_tolerant = config_.on(KnobId::kFt);
  out.group.deterministic = config_.on(KnobId::kDeterministic);
  out.group.plan = PlanOf(config_.text(KnobId::kPlan));
  out.group.chunk_bytes = BytesOrZero(config_.bytes(KnobId::kChunk));
  if (!config_.is_word(KnobId::kOneshotMax))
    out.group.oneshot_max_bytes = static_cast<uint64_t>(config_.bytes(KnobId::kOneshotMax));
  return out;
}

Status Job::Impl::OpenControl(const Devices& devices) {
  ControlConnection::Settings settings;
  settings.names = place_.meeting;
  settings.token = token_;
  settings.self = self_;
  settings.SetPatience(timeout_ns_);
  settings.hosted = config_.text(KnobId::kCoordinatorKind) == "hosted";
  if (settings.hosted) {
    settings.handshake_timeout_ns = Hosting::DialTimeOf(timeout_ns_);
    Hosting::Settings hosting;
    hosting.self = self_;
    hosting.job = place_.job;
    hosting.token = token_;
    hosting.meeting = place_.meeting;
    hosting.number = place_.number();
    hosting.host = "127.0.0.1";
    for (const auto& device : devices) {
      const std::string data = wire::FindAddress(device->address(), "tcp");
      if (const auto own = ParseHostPort(data, "tcp"); own.ok()) hosting.host = own->host;
    }
    hosting.ports = config_.ports(KnobId::kPorts);
    hosting.allow_wildcard = config_.on(KnobId::kAllowWildcard);
    hosting.timeout_ns = timeout_ns_;
    hosting.join_timeout_ns = config_.duration_ns(KnobId::kJoinTimeout);
    Expected<std::unique_ptr<Hosting>> opened = Hosting::Open(hosting, log_);
    if (!opened.ok()) return opened.status();
    hosting_ = std::move(*opened);
  }
  control_.emplace(std::move(settings), &log_);
  return Status::Ok();
}

void Job::Impl::ArmTestHook() {
#ifdef FTAR_TEST_HOOKS
  const std::string fault = FindVariable(environment_, "FTAR_TEST_FAULT");
  if (!fault.empty()) {
    const Expected<FaultPlan> plan = ParseFaultPlan(fault);
    if (plan.ok()) {
      driver_->hook() = TestHook(*plan);
    } else {
      log_.Error("runtime", plan.status().text());
    }
  }
  const std::string allowed = FindVariable(environment_, "FTAR_TEST_MALLOC");
  if (!allowed.empty()) driver_->staging().FailAfter(atoll(allowed.c_str()));
#endif
}

Status Job::Impl::Open(const JobOptions& options, std::function<void(const JobEvent&)> on_event) {
  created_ns_ = Now();
  on_event_ = std::move(on_event);
  FTAR_RETURN_IF_ERROR(Configure(options));
  FTAR_RETURN_IF_ERROR(wheel_.Open());
  Devices devices;
  if (!place_.solo()) {
    std::vector<std::string> ways;
    if (options.may_wait) {
      auto found = AwaitAWay();
      if (!found.ok()) return found.status();
      ways = std::move(*found);
    } else {
      for (const HostPort& name : place_.meeting) ways.push_back(ShownAddress(name));
    }
    if (transport::Duplicates(wheel_.user_wake_fd(), kDescriptorsToJoin).empty())
      return Status::System("no descriptors for a join", errno);
    OpenLane();
    Expected<Devices> opened = OpenDevices(std::move(ways));
    if (!opened.ok()) return opened.status();
    devices = std::move(opened.value());
    FTAR_RETURN_IF_ERROR(OpenControl(devices));
  }
  engine::Config engine_config = MakeEngineConfig(devices);
  HostLane* const lane = lane_ ? &*lane_ : nullptr;
  engine_config.group.lane = lane;
  driver_ = std::make_unique<EngineDriver>(std::move(engine_config), std::move(devices), exports_,
                                           lane, this, &log_);
  ArmTestHook();
  RegisterForkAware(this);
  if (place_.starts_coordinator) {
    const Status started = StartCoordinatorProcess(
        {place_.meeting.front().host, place_.meeting.front().port, place_.job, token_},
        environment_);
    if (!started.ok()) return started;
  }
  try {
    const SignalsBlocked quiet;
    thread_ = std::thread([this] { ProgressMain(); });
  } catch (const std::system_error& error) {
    return Status(Code::kSystem, std::string("cannot start the progress thread: ") + error.what());
  }
  return Status::Ok();
}

}  // namespace ftar::runtime
