// The table of knobs: everything that can be configured, once. docs/knobs.md, the parser, the
// FTAR_* variables, ftar.conf and ftarConfigSet all come from this table, so a new knob is one row
// and one enumerator. Constant data; any thread.
#ifndef FTAR_BASE_KNOBS_H_
#define FTAR_BASE_KNOBS_H_

#include <cstdint>
#include <span>
#include <string_view>

namespace ftar {

// In the order of the table, which is the order of the documentation.
enum class KnobId : uint8_t {
  kTimeout,
  kLateTimeout,
  kJoinTimeout,
  kHeartbeat,
  kJob,
  kReplica,
  kShard,
  kReplicas,
  kShards,
  kMinReplicas,
  kHost,
  kRack,
  kCoordinator,
  kCoordinatorKind,
  kToken,
  kTokenFile,
  kTransport,
  kInterface,
  kPorts,
  kAllowWildcard,
  kFt,
  kPlan,
  kDeterministic,
  kWindow,
  kChunk,
  kOneshotMax,
  kLaneMax,
  kCredit,
  kIsa,
  kShmRing,
  kWireRound,
  kWireRate,
  kTcpStreams,
  kTcpCongestion,
  kTcpCrc,
  kGpu,
  kGpuExecutor,
  kGpuBlocks,
  kLog,
  kLogFile,
  kCount
};

enum class KnobType : uint8_t {
  kDuration,   // "10s", "250ms", "5min"; a unit is required
  kBytes,      // "65536", "64KiB", "1MiB" (K, M, G alone mean the same)
  kInteger,    // decimal
  kEnum,       // one of `words`
  kFlag,       // on or off
  kString,     // any text
  kPortRange,  // "4000-4100" or "4000"
};

struct Knob {
  KnobId id;
  const char*
      name;  // in ftar.conf and ftarConfigSet; the variable is FTAR_ and the name in capitals
  KnobType type;
  const char* default_text;  // parsed by the same parser as everything else
  // kEnum: all words, "a|b|c". Other types: at most one word accepted beside a value ("auto",
  // "off"), or "".
  const char* words;
  int64_t min, max;  // of the parsed value: ns, bytes or integer
  bool agreed;       // members of a job must have the same value; checked at join
  bool secret;       // never shown
  const char* help;  // one sentence for the documentation
};

std::span<const Knob> Knobs();
const Knob& KnobOf(KnobId id);
// Null if there is none.
const Knob* FindKnob(std::string_view name);
const char* KnobTypeName(KnobType type);

}  // namespace ftar

#endif  // FTAR_BASE_KNOBS_H_
