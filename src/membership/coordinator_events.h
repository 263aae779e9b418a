// What goes into the coordinator's machine and what comes out of it, for its driver, for relays
// (whose machine speaks the same words) and for the machine's parts. Values only.
#ifndef FTAR_MEMBERSHIP_COORDINATOR_EVENTS_H_
#define FTAR_MEMBERSHIP_COORDINATOR_EVENTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "base/log.h"
#include "membership/record.h"
#include "wire/messages.h"

namespace ftar::membership {

using ConnId = uint64_t;  // given by the driver, never reused

struct Connected {  // an authenticated connection has said Hello
  ConnId conn = 0;
  wire::Hello hello;
};
struct Disconnected {
  ConnId conn = 0;
  std::string text;    // "connection reset by peer"; empty: closed
  bool reset = false;  // by a packet, which something between its ends may have made
};
struct Received {
  ConnId conn = 0;
  wire::Message message;
};
struct Timer {};
// Hosted: its member is out, or its process goes. It hands over as soon as the others hold a view
// without that member, and stands down.
struct Retire {};
using CoordinatorEvent = std::variant<Connected, Disconnected, Received, Timer, Retire>;

struct Outgoing {  // one message to one or many: encode once
  std::vector<ConnId> to;
  wire::Message message;
};
struct Note {  // for people
  LogLevel level = LogLevel::kInfo;
  std::string text;
};
struct CoordinatorReady {
  // Replaces the one before. Nobody may be told of a view that is not in it: a successor without
  // those who know would let others go on from an older one (rule Q4).
  std::optional<CoordinatorRecord> record;
  std::vector<Outgoing> messages;
  std::vector<ConnId> close;  // after the messages
  std::vector<Note> notes;
  bool ended = false;  // the last member has left or is lost; newcomers may begin again
  // Hosted: it has been replaced, or cannot act. It says and hears nothing any more; the driver
  // closes its connections, and the members look for another one.
  bool stand_down = false;
  TimeNs next_deadline = kNever;
};

// Loss.stage of who is dead, of who gave up, and of who was not heard in time.
inline constexpr char kProofStage[] = "process watch";
inline constexpr char kSelfReportStage[] = "self-report";
inline constexpr char kSilenceStage[] = "silence";

}  // namespace ftar::membership

#endif  // FTAR_MEMBERSHIP_COORDINATOR_EVENTS_H_
