// A story: a small job with named members, in which chosen things happen at chosen moments, and
// what must have come of it. Random weather meets such moments rarely; a story meets its own every
// time. README.md in stories/ has the language; parse.cc reads it, director.h plays it.
#ifndef FTAR_TESTS_SIM_STORY_STORY_H_
#define FTAR_TESTS_SIM_STORY_STORY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "collective/types.h"
#include "weather.h"

namespace ftar::sim {

// Names of members are "2", with shards "2.1"; a newcomer's is the story's choice. "2" with shards
// is the whole replica.
inline constexpr char kCoordinatorName[] = "coordinator";
inline constexpr char kAnybody[] = "anybody";

// A pattern for something that happens.
struct Moment {
  enum class Verb {
    kAt,
    kWhenever,  // explored: at every moment that there is
    kSends,
    kHears,
    kCalls,
    kCompletes,
    kDelivers,
    kInstalls,
    kBegins,
    kEnds
  };
  Verb verb = Verb::kAt;
  TimeNs at = 0;          // kAt
  std::string who, what;  // what: the name of a message or of a kind of frame
  std::string peer = kAnybody;
  std::optional<uint64_t> op, epoch, chunk, step;
  int nth = 1;
};

struct Deed {
  enum class Kind {
    kNothing,
    kKill,
    kStop,
    kContinue,
    kCut,
    kPart,
    kMend,
    kFlap,
    kHiccup,
    kOrphan,
    kSlow,
    kJoin,
    kLeave,
    kAbort,
    kEvict,
    kRestart,
    kLetGo,
    kRepeat
  };
  Kind kind = Kind::kNothing;
  std::string who, peer;            // kJoin: who is the newcomer
  std::vector<std::string> others;  // kPart: this side and that
  std::vector<std::string> side;
  int replica = 0;         // kJoin
  TimeNs time = 0;         // kFlap, kHiccup, kSlow, kRestart, kRepeat
  bool one_way = false;    // kCut
  bool unnoticed = false;  // kKill: no connection closes, as of a host without power
  bool proven = false;     // kKill: its mates see that the process has exited
};

// "when MOMENT: DEEDS"; with `then` it waits for the scene above it.
struct Scene {
  int line = 0;
  bool then = false;
  Moment moment;
  TimeNs later = 0;
  std::vector<Deed> deeds;
};

struct Expectation {
  enum class Kind {
    kAllFinish,
    kParticipants,
    kMembers,
    kStatus,
    kVerdicts,
    kAttempts,
    kDeliveredBy,
    kView,
    kEpoch,
    kEnd,    // how a member's run ends: "evicted"
    kWaits,  // it lives and is not through
    kLost,
    kNote,
    kUnsaid,  // no such note
    kNever,
    kSeen
  };
  Kind kind = Kind::kAllFinish;
  int line = 0;
  Seq op = 0;
  uint64_t number = 0;
  std::vector<std::string> names;
  std::string text;
  Moment moment;
};

// What one operation has of its own, for all or for one member.
struct OpDetail {
  enum class Kind { kKind, kCount, kWeight, kDeadline, kInPlace, kPlan };
  Kind kind = Kind::kKind;
  Seq op = 0;
  std::string by, root;
  plan::Kind collective = plan::Kind::kAllReduce;
  plan::PlanKind plan = plan::PlanKind::kAuto;
  uint64_t number = 0;
};

struct Gate {  // a member that does not call this operation, nor what follows, until it may go
  std::string who;
  Seq op = 0;
};

struct Story {
  std::string title;  // the first comment
  std::string rule;
  Weather weather;
  uint64_t count = 12;
  plan::PlanKind plan = plan::PlanKind::kDirect;
  TimeNs pause = 0;              // between a member's calls
  TimeNs notice = kMillisecond;  // until others see that somebody is dead
  TimeNs late_timeout = 0;
  std::string fails;  // known to: the invariant
  // Explored: all have called before anything else happens; how often one may be overtaken, -1
  // without bound.
  bool all_call = false;
  int overtakings = -1;
  std::vector<OpDetail> details;
  std::vector<Gate> gates;
  std::vector<Scene> scenes;
  std::vector<Expectation> expectations;
};

// An error text, "line 7: ...", if it is not understood.
std::string ParseStory(const std::string& text, Story* story);

}  // namespace ftar::sim

#endif  // FTAR_TESTS_SIM_STORY_STORY_H_
