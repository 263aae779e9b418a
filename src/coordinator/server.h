// The coordinator as a server: listening sockets, authenticated connections, and
// membership::CoordinatorMachine pumped by one thread, that of Run.
//
// Who has not proved the token costs one descriptor and little memory, for a bounded time, and
// there are at most `unauthenticated_max` of them: one more pushes the oldest out, so that idle
// connections never lock members out.
//
// With a state file nothing goes out before what it may tell of is recorded. While that cannot be
// written (a full disk) the whole server stands still, says so once, and tries again every 100 ms;
// to members it is as if the coordinator were away. Stop may be called from any thread or signal
// handler; everything else from the owner's. Owns its descriptors.
#ifndef FTAR_COORDINATOR_SERVER_H_
#define FTAR_COORDINATOR_SERVER_H_

#include <list>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/log.h"
#include "coordinator/message_stream.h"
#include "membership/coordinator_machine.h"
#include "transport/fd.h"

namespace ftar::coordinator {

struct ServerSettings {
  std::string host = "127.0.0.1";
  uint16_t port = 0;  // 0: any
  std::string token;  // empty: only loopback is served
  std::string state;  // file for membership::CoordinatorRecord; empty: none is kept
  bool allow_wildcard = false;
  membership::CoordinatorConfig machine;
  TimeNs handshake_timeout_ns = 5 * kSecond;
  size_t unauthenticated_max = 256;
  size_t connections_max = 65536;
  TimeNs exit_when_empty_ns = kNever;  // Run returns after so long without any member
};

class Server {
 public:
  // Binds, and reads the state. Errors are kConfig or kSystem and name the address or the file.
  static Expected<std::unique_ptr<Server>> Open(const ServerSettings& settings, Logger log);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  std::string address() const { return address_; }  // "host:port" of the first listening socket
  void Run();
  void Stop();

 private:
  struct Connection {
    membership::ConnId id = 0;
    std::unique_ptr<MessageStream> stream;
    bool introduced = false;  // said Hello: the machine knows it
    bool closing = false;     // goes when all is written, or after a while
    TimeNs close_by_ns = kNever;
    bool write_armed = false;
    std::list<membership::ConnId>::iterator waiting;  // place among the unauthenticated
    bool in_waiting = false;
  };

  Server(const ServerSettings& settings, Logger log);
  Status Bind();
  Status Restore();
  Status ListenAt(const std::string& address);
  void Accept(int listener, TimeNs now);
  void AcceptOne(transport::UniqueFd fd, TimeNs now);
  void Serve(membership::ConnId id, TimeNs now);
  void OnMessage(Connection& connection, wire::Message message, TimeNs now);
  void Authenticated(Connection& connection);
  void StepMachine(TimeNs now, const membership::CoordinatorEvent& event);
  void Carry(TimeNs now);
  bool Record(const membership::CoordinatorRecord& record);
  void Drop(membership::ConnId id, TimeNs now, const std::string& why);
  void ArmWrite(Connection& connection);
  void Expire(TimeNs now);
  TimeNs NextDeadline() const;
  Connection* Find(membership::ConnId id);

  const ServerSettings settings_;
  const Logger log_;
  std::optional<membership::CoordinatorMachine> machine_;
  std::string address_;
  transport::UniqueFd epoll_, stop_, spare_;
  std::vector<transport::UniqueFd> listeners_;
  std::unordered_map<membership::ConnId, Connection> connections_;
  std::list<membership::ConnId> unauthenticated_;  // oldest first
  std::vector<wire::Message> messages_;            // scratch
  std::vector<membership::ConnId> broken_;         // found while sending
  membership::ConnId next_id_ = 1;
  size_t introduced_ = 0;
  TimeNs empty_since_ns_ = 0;
  TimeNs machine_deadline_ns_ = kNever;
  bool stopping_ = false;
};

}  // namespace ftar::coordinator

#endif  // FTAR_COORDINATOR_SERVER_H_
