#include "runtime/rendezvous.h"

#include <charconv>
#include <optional>
#include <string_view>

#include "base/config_os.h"

namespace ftar::runtime {
namespace {

// What one launcher says about this process; absent fields are empty or -1.
struct Launcher {
  std::string name;
  int64_t rank = -1, world = -1;
  bool one_host = false;
  std::string job;  // the launcher's own name of the job
  std::string master_host;
  int64_t master_port = 0;   // already the coordinator's, not the launcher's
  std::string lacking, has;  // none: of torchrun's rank and world only one is there
};

using Environment = std::vector<std::string>;

std::optional<int64_t> ToInteger(const std::string& text) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || text.empty()) return std::nullopt;
  return value;
}

constexpr int64_t kReplicasMax = 65'536;  // as the knob's

// A whole number of at least 0, -1 if the variable is absent.
Expected<int64_t> Number(const Environment& env, const std::string& name) {
  const std::string text = FindVariable(env, name);
  if (text.empty()) return int64_t{-1};
  const std::optional<int64_t> value = ToInteger(text);
  if (!value || *value < 0) {
    return Status(Code::kConfig, name, name + " is '" + text + "', which is no whole number");
  }
  return *value;
}

// FNV-1a: any fixed mixing does, all processes of the job only have to agree.
uint32_t Mix(std::string_view text) {
  uint32_t hash = 2166136261u;
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 16777619u;
  return hash ^ (hash >> 15);
}

// A port below the range that systems give to outgoing connections.
int64_t DerivedPort(std::string_view job) { return 20000 + Mix(job) % 12000; }

struct Names {
  const char* launcher;
  const char* rank;
  const char* world;
  const char* local_world;
  const char* job;
};
constexpr Names kLaunchers[] = {
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "TORCHELASTIC_RUN_ID"},
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE",
     "PMIX_NAMESPACE"},
    {"MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", "PMI_JOBID"},
    {"Slurm", "SLURM_PROCID", "SLURM_NTASKS", "", "SLURM_JOB_ID"},
};

// What srun's PMI plugins set: mpiexec inside an allocation says how many are on its host.
bool IsSlurmsOwn(const Environment& env, const Names& names) {
  return std::string_view(names.rank) == "PMI_RANK" &&
         FindVariable(env, names.local_world).empty() &&
         !FindVariable(env, "SLURM_PROCID").empty() &&
         FindVariable(env, "SLURM_PROCID") == FindVariable(env, names.rank) &&
         FindVariable(env, "SLURM_NTASKS") == FindVariable(env, names.world);
}

Status FillSlurm(const Environment& env, Launcher* out) {
  std::string list = FindVariable(env, "SLURM_STEP_NODELIST");
  if (list.empty()) list = FindVariable(env, "SLURM_JOB_NODELIST");
  out->master_host = FirstSlurmHost(list);
  out->job += "." + FindVariable(env, "SLURM_STEP_ID");
  Expected<int64_t> nodes = Number(env, "SLURM_STEP_NUM_NODES");
  if (!nodes.ok()) return nodes.status();
  if (*nodes < 0) nodes = Number(env, "SLURM_NNODES");
  if (!nodes.ok()) return nodes.status();
  out->one_host = *nodes == 1;
  out->master_port = DerivedPort("slurm" + out->job);
  return Status::Ok();
}

Status FillMaster(const Environment& env, int64_t parent_pid, Launcher* out) {
  const std::string host = FindVariable(env, "MASTER_ADDR");
  if (!host.empty()) {
    const Expected<int64_t> port = Number(env, "MASTER_PORT");
    if (!port.ok()) return port.status();
    if (*port > 65534) return Status(Code::kConfig, "MASTER_PORT", "MASTER_PORT is above 65534");
    out->master_host = host;
    out->master_port = *port > 0 ? *port + 1 : DerivedPort(out->job);
    return Status::Ok();
  }
  if (out->name == "Slurm") return Status::Ok();
  if (out->one_host) {
    out->master_host = "127.0.0.1";
    out->master_port =
        DerivedPort(out->job.empty() ? "parent" + std::to_string(parent_pid) : out->job);
  }
  return Status::Ok();
}

// Of a launcher by hand, beside a meeting point: whoever goes on alone trains something of its own.
// A world of one has no other rank.
void NoteHalf(const Environment& env, int64_t rank, int64_t world, Launcher* none) {
  const Names& names = kLaunchers[0];
  if ((rank < 0) == (world < 0) || world == 1 || FindVariable(env, "MASTER_ADDR").empty()) return;
  none->lacking = rank < 0 ? names.rank : names.world;
  none->has = rank < 0 ? names.world : names.rank;
}

Expected<Launcher> FindLauncher(const Environment& env, int64_t parent_pid) {
  Launcher none;
  none.name = "configuration";
  for (const Names& names : kLaunchers) {
    if (IsSlurmsOwn(env, names)) continue;
    Launcher out;
    const Expected<int64_t> rank = Number(env, names.rank);
    if (!rank.ok()) return rank.status();
    const Expected<int64_t> world = Number(env, names.world);
    if (!world.ok()) return world.status();
    if (&names == &kLaunchers[0]) NoteHalf(env, *rank, *world, &none);
    if (*rank < 0 || *world < 0) continue;
    if (*rank >= *world) {
      return Status(Code::kConfig, names.rank,
                    std::string(names.rank) + " is " + std::to_string(*rank) + ", but " +
                        names.world + " is " + std::to_string(*world));
    }
    out.name = names.launcher;
    out.rank = *rank;
    out.world = *world;
    out.job = FindVariable(env, names.job);
    if (*names.local_world != '\0') {
      const Expected<int64_t> local = Number(env, names.local_world);
      if (!local.ok()) return local.status();
      out.one_host = *local == *world;
    } else if (Status slurm = FillSlurm(env, &out); !slurm.ok()) {
      return slurm;
    }
    if (Status master = FillMaster(env, parent_pid, &out); !master.ok()) return master;
    return out;
  }
  return none;
}

Status Bad(const char* argument, std::string text) {
  return Status(Code::kConfig, argument, std::move(text));
}

// Replica and shard: the configuration's, else from the rank.
Status FillPlace(const Config& config, const Launcher& launcher, Place* out) {
  const int64_t shards = config.integer(KnobId::kShards);
  out->shards = static_cast<int32_t>(shards < 0 ? 1 : shards);
  int64_t replica = config.integer(KnobId::kReplica), shard = config.integer(KnobId::kShard);
  int64_t replicas = config.integer(KnobId::kReplicas);
  if (launcher.world >= 0) {
    if (replicas < 0 && launcher.world % out->shards != 0) {
      return Bad("shards", launcher.name + " started " + std::to_string(launcher.world) +
                               " processes, which is no multiple of shards " +
                               std::to_string(out->shards));
    }
    if (replica < 0) replica = launcher.rank / out->shards;
    if (shard < 0) shard = launcher.rank % out->shards;
    if (replicas < 0) replicas = launcher.world / out->shards;
  }
  if (replicas < 0 && !launcher.lacking.empty()) {
    return Bad(launcher.lacking.c_str(), launcher.has + " and MASTER_ADDR are set, but not " +
                                             launcher.lacking +
                                             ": set it, or FTAR_REPLICA and FTAR_REPLICAS");
  }
  if (replicas < 0) replicas = 1;
  if (replicas > kReplicasMax) {
    return Bad("replicas", launcher.name + " started " + std::to_string(launcher.world) +
                               " processes, more than " + std::to_string(kReplicasMax) +
                               " replicas");
  }
  if (replica < 0 && replicas > 1) {
    return Bad("replica", "replica is not known: set FTAR_REPLICA or start by a launcher");
  }
  if (shard < 0 && out->shards > 1) {
    return Bad("shard", "shard is not known: set FTAR_SHARD or start by a launcher");
  }
  out->replica = static_cast<int32_t>(replica < 0 ? 0 : replica);
  out->shard = static_cast<int32_t>(shard < 0 ? 0 : shard);
  out->replicas = static_cast<int32_t>(replicas);
  if (out->shard >= out->shards) {
    return Bad("shard", "shard is " + std::to_string(out->shard) +
                            "; with shards=" + std::to_string(out->shards) +
                            " they count from 0 to " + std::to_string(out->shards - 1));
  }
  const int64_t least = config.integer(KnobId::kMinReplicas);
  out->min_replicas = static_cast<int32_t>(least < 0 ? 1 : least);
  if (out->min_replicas > out->replicas) {
    return Bad("min_replicas", "min_replicas is " + std::to_string(out->min_replicas) +
                                   ", more than the " + std::to_string(out->replicas) +
                                   " that the first view waits for (replicas): until more have "
                                   "joined nobody's loss could be decided");
  }
  return Status::Ok();
}

Status FillCoordinator(const Config& config, const Launcher& launcher, bool have_token,
                       Place* out) {
  const bool hosted = config.text(KnobId::kCoordinatorKind) == "hosted";
  const std::string& named = config.text(KnobId::kCoordinator);
  Expected<std::vector<HostPort>> meeting = coordinator::ParseHostPorts(named, "coordinator");
  if (!meeting.ok()) return meeting.status();
  out->meeting = std::move(*meeting);
  for (const HostPort& address : out->meeting) {
    if (address.port == 0)
      return Bad("coordinator", ShownAddress(address) + ": nobody can be reached at port 0");
  }
  if (!named.empty()) return Status::Ok();
  if (out->replicas == 1 && out->shards == 1 && out->replica == 0) return Status::Ok();
  if (launcher.master_host.empty()) {
    return Bad("coordinator", launcher.rank < 0
                                  ? "no coordinator is known: set FTAR_COORDINATOR=HOST:PORT"
                                  : launcher.name +
                                        " says nothing about a common host: set "
                                        "FTAR_COORDINATOR=HOST:PORT or MASTER_ADDR");
  }
  out->meeting = {{launcher.one_host && !have_token ? "127.0.0.1" : launcher.master_host,
                   static_cast<uint16_t>(launcher.master_port)}};
  out->starts_coordinator = launcher.rank == 0 && !hosted;
  return Status::Ok();
}

}  // namespace

Expected<Place> FindPlace(const Config& config, const std::vector<std::string>& environment,
                          bool have_token, int64_t parent_pid) {
  const Expected<Launcher> launcher = FindLauncher(environment, parent_pid);
  if (!launcher.ok()) return launcher.status();
  Place out;
  out.launcher = launcher->name;
  FTAR_RETURN_IF_ERROR(FillPlace(config, *launcher, &out));
  FTAR_RETURN_IF_ERROR(FillCoordinator(config, *launcher, have_token, &out));
  out.job = config.text(KnobId::kJob);
  if (out.job.empty()) out.job = launcher->job.empty() ? "default" : launcher->job;
  return out;
}

std::string FirstSlurmHost(const std::string& list) {
  const size_t end = list.find_first_of(",[");
  if (end == std::string::npos) return list;
  std::string out = list.substr(0, end);
  if (list[end] == ',') return out;
  const size_t stop = list.find_first_of(",-]", end + 1);
  return out + list.substr(end + 1, stop == std::string::npos ? stop : stop - end - 1);
}

bool IsLoopbackText(const std::string& host) {
  // A name may begin so and lead anywhere.
  const bool number = host.find_first_not_of("0123456789.") == std::string::npos;
  return host == "localhost" || host == "::1" || (number && host.starts_with("127."));
}

}  // namespace ftar::runtime
