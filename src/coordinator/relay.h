// A relay as a process: Connections to the members behind it, a ControlConnection up for each unit
// of theirs, and membership::RelayLines between the two, pumped by one thread, that of Run
// (docs/scale.md). Above is the coordinator or another relay.
//
// It keeps nothing: started again at the same address it takes its members over as any other relay
// would. Stop may be called from any thread or signal handler. Owns its descriptors.
#ifndef FTAR_COORDINATOR_RELAY_H_
#define FTAR_COORDINATOR_RELAY_H_

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "coordinator/connections.h"
#include "coordinator/control_connection.h"
#include "coordinator/resolver.h"
#include "membership/relay_lines.h"

namespace ftar::coordinator {

struct RelaySettings : Connections::Settings {
  std::vector<HostPort> above;  // not empty; the first that answers
  membership::RelayConfig machine;
};

class Relay : private Connections::User {
 public:
  // Binds. Errors are kConfig or kSystem and name the address.
  static Expected<std::unique_ptr<Relay>> Open(const RelaySettings& settings, Logger log);
  ~Relay() override;
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  std::string address() const { return connections_.address(); }
  // Until Stop, or until it is deserted. An error: it does not know the token, or speaks another
  // version than the one above.
  Status Run();
  void Stop();

 private:
  using LineId = membership::LineId;
  using Lines = std::map<LineId, std::unique_ptr<ControlConnection>>;
  struct LastWords {  // on a line that is hung up
    std::unique_ptr<ControlConnection> line;
    TimeNs until_ns = 0;
  };

  Relay(const RelaySettings& settings, Logger log);
  void OnOpen(membership::ConnId, TimeNs) override {}
  void OnHello(membership::ConnId id, wire::Hello hello, TimeNs now) override;
  void OnMessage(membership::ConnId id, wire::Message message, TimeNs now) override;
  void OnGone(const membership::Disconnected& event, TimeNs now) override;
  void Step(TimeNs now, const membership::RelayLinesEvent& event);
  void Carry(TimeNs now);
  void OpenLine(const membership::OpenLine& line);
  void HangUp(LineId line, TimeNs now);
  void Sleep();
  void PumpLines(TimeNs now);
  void PumpLine(LineId id, TimeNs now);
  void PumpLastWords(TimeNs now);
  void Resolve(TimeNs now);
  ControlConnection* Find(LineId line);

  const RelaySettings settings_;
  const Logger log_;
  Connections connections_;
  membership::RelayLines machine_;
  TimeNs machine_deadline_ns_ = kNever;
  Lines lines_;
  std::vector<LastWords> last_words_;
  ControlConnection::Result heard_;  // scratch
  Resolver resolver_;
  std::atomic<bool> stop_asked_{false};
  Status failure_;
};

}  // namespace ftar::coordinator

#endif  // FTAR_COORDINATOR_RELAY_H_
