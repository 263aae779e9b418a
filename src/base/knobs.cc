#include "base/knobs.h"

#include <iterator>

#include "base/ids.h"

namespace ftar {
namespace {

constexpr int64_t kDay = 86'400 * kSecond;
constexpr int64_t kGiB = int64_t{1} << 30;
constexpr int64_t kPlaceMax = 65'535;  // replica and shard numbers

// Short names keep the rows of the table readable.
constexpr KnobType D = KnobType::kDuration, B = KnobType::kBytes, I = KnobType::kInteger,
                   E = KnobType::kEnum, F = KnobType::kFlag, S = KnobType::kString,
                   P = KnobType::kPortRange;
constexpr bool kAgreed = true, kOwn = false, kSecret = true, kShown = false;
using K = KnobId;

constexpr Knob kKnobs[] = {
    {K::kTimeout, "timeout", D, "10s", "", kMillisecond, kDay, kAgreed, kShown,
     "A member that is silent, or stuck inside an operation, for this long is evicted. A wait "
     "that needs a coordinator which is away ends after it, with FTAR_ERR_COORDINATOR."},
    {K::kLateTimeout, "late_timeout", D, "off", "off", kMillisecond, 30 * kDay, kAgreed, kShown,
     "A member that is alive but has not entered an operation that others wait in is evicted after "
     "this long."},
    {K::kJoinTimeout, "join_timeout", D, "5min", "", kMillisecond, 30 * kDay, kOwn, kShown,
     "How long joining may take: reaching the coordinator, waiting for a place that is still held, "
     "for the first view."},
    {K::kHeartbeat, "heartbeat", D, "auto", "auto", kMillisecond, kDay, kOwn, kShown,
     "Time between two heartbeats; auto is a tenth of timeout, and a quarter is the most."},
    {K::kJob, "job", S, "", "", 0, 0, kOwn, kShown,
     "Name of the job; members of others are refused while anybody of it is there. Empty: the "
     "launcher's job id, else default."},
    {K::kReplica, "replica", I, "auto", "auto", 0, kPlaceMax, kOwn, kShown,
     "Which copy of the model this process belongs to; auto takes it from the launcher's rank."},
    {K::kShard, "shard", I, "auto", "auto", 0, kPlaceMax, kOwn, kShown,
     "Index of this process inside its replica."},
    {K::kReplicas, "replicas", I, "auto", "auto", 1, kPlaceMax + 1, kOwn, kShown,
     "How many replicas the first view waits for; auto takes the launcher's world size. The same "
     "on all members."},
    {K::kShards, "shards", I, "auto", "auto", 1, kPlaceMax + 1, kOwn, kShown,
     "Processes in a replica; auto is 1. The same on all members."},
    {K::kMinReplicas, "min_replicas", I, "auto", "auto", 1, kPlaceMax + 1, kOwn, kShown,
     "Fewer replicas than this do not go on without the others; auto is 1, replicas the most. The "
     "same on all members."},
    {K::kHost, "host", S, "", "", 0, 0, kOwn, kShown,
     "Name of this host in reports; empty: the system's host name."},
    {K::kRack, "rack", S, "", "", 0, 0, kOwn, kShown,
     "Name of this host's rack, for the topology."},
    {K::kCoordinator, "coordinator", S, "", "", 0, 0, kOwn, kShown,
     "HOST:PORT of the coordinator; empty: from the launcher's variables. Several, with commas: of "
     "relays, this process's own first; with coordinator_kind hosted of the first members."},
    {K::kCoordinatorKind, "coordinator_kind", E, "fixed", "fixed|hosted", 0, 0, kAgreed, kShown,
     "fixed: a process of its own coordinates; hosted: a member does, and when it dies another one "
     "takes over."},
    {K::kToken, "token", S, "", "", 0, 0, kOwn, kSecret,
     "Secret of the job that every connection must prove to know; without one only loopback is "
     "served."},
    {K::kTokenFile, "token_file", S, "", "", 0, 0, kOwn, kShown,
     "File that holds the token; its first line counts."},
    {K::kTransport, "transport", E, "auto", "auto|shm|tcp", 0, 0, kAgreed, kShown,
     "auto uses shared memory inside a host and tcp between hosts."},
    {K::kInterface, "interface", S, "", "", 0, 0, kOwn, kShown,
     "Network for data: an interface's name, an address, or a CIDR like 10.0.0.0/8; empty: the "
     "route to the coordinator."},
    {K::kPorts, "ports", P, "", "", 1, 65'535, kOwn, kShown,
     "Range of ports to listen on, like 4000-4100; empty: any."},
    {K::kAllowWildcard, "allow_wildcard", F, "off", "", 0, 0, kOwn, kShown,
     "Permit listening on a wildcard address."},
    {K::kFt, "ft", F, "on", "", 0, 0, kAgreed, kShown,
     "off: no fault tolerance at all, an operation is delivered as soon as it is complete; for "
     "comparison only."},
    {K::kPlan, "plan", E, "auto", "auto|oneshot|direct|ring", 0, 0, kAgreed, kShown,
     "How operations are carried out."},
    {K::kDeterministic, "deterministic", F, "off", "", 0, 0, kAgreed, kShown,
     "Only plans that add in member order, so that the result's bits do not depend on the plan: "
     "direct instead of ring."},
    {K::kWindow, "window", I, "16", "", 1, 1024, kAgreed, kShown,
     "Operations of a group that may be in flight; more starts are queued."},
    {K::kChunk, "chunk", B, "auto", "auto", 1024, 8 << 20, kAgreed, kShown,
     "Bytes of a shard that travel and are reduced as one piece, 8 MiB at most; auto follows the "
     "operation's size and the number of members up to 512 KiB."},
    {K::kOneshotMax, "oneshot_max", B, "auto", "auto", 0, 16 << 20, kAgreed, kShown,
     "Operations of at most this many bytes use the oneshot plan when plan is auto."},
    {K::kLaneMax, "lane_max", B, "256MiB", "", 0, 256 << 20, kOwn, kShown,
     "All-reduces of at most this many bytes, and barriers, between members of one host go through "
     "shared memory without messages: those of the oneshot plan in one pass, those of the direct "
     "plan shared, where nothing else of their group is under way; 0: none do."},
    {K::kCredit, "credit", B, "auto", "auto", 65'536, 64 * kGiB, kAgreed, kShown,
     "Bytes that may be on the way to one peer unacknowledged, over TCP; auto is 64 MiB."},
    {K::kIsa, "isa", E, "auto", "auto|scalar|avx2|avx512|avx512bf16", 0, 0, kOwn, kShown,
     "Instruction set of the reduction; the result's bits are the same with each."},
    {K::kShmRing, "shm_ring", B, "auto", "auto", 4096, 16 * kGiB, kOwn, kShown,
     "Bytes of the shared-memory ring towards one peer; auto is 4 MiB, or eight pieces where the "
     "knob chunk makes these larger than 512 KiB."},
    {K::kWireRound, "wire_round", D, "auto", "auto", 100, kSecond, kOwn, kShown,
     "Time until a short message between hosts has been read, by which plans are chosen; auto is "
     "measured when links come up. The median of all members counts."},
    {K::kWireRate, "wire_rate", B, "auto", "auto", 1'000'000, 10'000 * kGiB, kOwn, kShown,
     "Bytes a second that this member sends to other hosts, by which plans are chosen; auto is the "
     "network card's speed, where it states one. The median of all members counts."},
    {K::kTcpStreams, "tcp_streams", I, "auto", "auto", 1, 16, kOwn, kShown,
     "TCP connections in a link; the dialling side's value counts. auto: one for each 20 Gbit/s of "
     "the network card, 2 at least, 8 at most."},
    {K::kTcpCongestion, "tcp_congestion", S, "auto", "auto", 0, 0, kOwn, kShown,
     "Congestion control of data connections; auto takes cubic where the system has it, system "
     "leaves it alone."},
    {K::kTcpCrc, "tcp_crc", F, "on", "", 0, 0, kAgreed, kShown,
     "Check every frame on a TCP link by CRC32C."},
    {K::kGpu, "gpu", S, "auto", "", 0, 0, kOwn, kShown,
     "Library that drives this member's GPU; auto takes libftar-cuda.so when a call needs one, off "
     "none."},
    {K::kGpuExecutor, "gpu_executor", E, "bounded", "bounded|resident", 0, 0, kOwn, kShown,
     "bounded launches a kernel a piece, resident keeps one running that waits for pieces: "
     "quicker, "
     "for a GPU that is not shared."},
    {K::kGpuBlocks, "gpu_blocks", I, "2", "", 1, 1024, kOwn, kShown,
     "Blocks of 512 threads of a kernel; the resident one has 4 at most."},
    {K::kLog, "log", E, "warn", "off|error|warn|info|debug|trace", 0, 0, kOwn, kShown,
     "How much is logged."},
    {K::kLogFile, "log_file", S, "", "", 0, 0, kOwn, kShown,
     "File for log lines; %p becomes the process id; empty: standard error."},
};
static_assert(std::size(kKnobs) == static_cast<size_t>(KnobId::kCount));

constexpr bool InOrder() {
  for (size_t i = 0; i < std::size(kKnobs); ++i) {
    if (static_cast<size_t>(kKnobs[i].id) != i) return false;
  }
  return true;
}
static_assert(InOrder(), "KnobOf indexes the table by KnobId");

}  // namespace

std::span<const Knob> Knobs() { return kKnobs; }

const Knob& KnobOf(KnobId id) { return kKnobs[static_cast<size_t>(id)]; }

const Knob* FindKnob(std::string_view name) {
  for (const Knob& knob : kKnobs) {
    if (name == knob.name) return &knob;
  }
  return nullptr;
}

const char* KnobTypeName(KnobType type) {
  switch (type) {
    case KnobType::kDuration: return "duration";
    case KnobType::kBytes: return "bytes";
    case KnobType::kInteger: return "integer";
    case KnobType::kEnum: return "word";
    case KnobType::kFlag: return "on or off";
    case KnobType::kString: return "text";
    case KnobType::kPortRange: return "ports";
  }
  return "?";
}

}  // namespace ftar
