// One relay process: all units that its members bring, each with a line of its own up. Usually one
// unit; two while a replica's next members come before its last ones are gone, more where it stands
// in for another relay that was lost (rule Q7).
//
// Pure; the driver's contract is RelayMachine's, with lines where that has one connection up: open
// a line for each that `open` names, feed LineUp each time it stands and LineDown when it breaks,
// and open it again until `hang_up` names it. Single-threaded.
#ifndef FTAR_MEMBERSHIP_RELAY_LINES_H_
#define FTAR_MEMBERSHIP_RELAY_LINES_H_

#include <map>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "membership/relay_machine.h"

namespace ftar::membership {

using LineId = uint64_t;  // never reused

struct LineUp {
  LineId line = 0;
};
struct LineDown {
  LineId line = 0;
};
struct FromLine {
  LineId line = 0;
  wire::Message message;
};
using RelayLinesEvent =
    std::variant<Connected, Disconnected, Received, Timer, LineUp, LineDown, FromLine>;

struct OpenLine {
  LineId line = 0;
  MemberId unit;          // who says Hello on it
  TimeNs timeout_ns = 0;  // the job's
};
struct RelayLinesReady {
  std::vector<OpenLine> open;
  std::vector<std::pair<LineId, wire::Message>> up;
  std::vector<Outgoing> down;
  std::vector<ConnId> close;    // after the messages
  std::vector<LineId> hang_up;  // after the messages
  std::vector<Note> notes;
  TimeNs next_deadline = kNever;
};

class RelayLines {
 public:
  explicit RelayLines(RelayConfig config) : config_(config) {}

  void Step(TimeNs now, const RelayLinesEvent& event);
  RelayLinesReady TakeReady();

 private:
  struct Line {
    RelayMachine machine;
    bool open = false;
  };
  void On(const Connected& event);
  void On(const Disconnected& event);
  void On(const Received& event);
  void On(const Timer& event);
  void On(const LineUp& event) { StepLine(event.line, AboveUp{}); }
  void On(const LineDown& event) { StepLine(event.line, AboveDown{}); }
  void On(const FromLine& event) { StepLine(event.line, FromAbove{event.message}); }
  void StepLine(LineId id, const RelayEvent& event);

  const RelayConfig config_;
  TimeNs now_ = 0;
  LineId last_ = 0;
  std::map<LineId, Line> lines_;
  std::unordered_map<ConnId, LineId> conns_;
  std::map<LineId, TimeNs> deadlines_;
  RelayLinesReady ready_;
};

}  // namespace ftar::membership

#endif  // FTAR_MEMBERSHIP_RELAY_LINES_H_
