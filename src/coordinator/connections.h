// The lower side of a coordinator or a relay: listening sockets, and the connections that they
// accept, which prove the token, say Hello, and then carry messages.
//
// Who has not proved the token costs one descriptor and little memory, for a bounded time, and
// there are at most `unauthenticated_max` of them: one more pushes the oldest out, so that idle
// connections never lock members out. Where no descriptors are left, newcomers wait in the queue of
// the listening socket, and the log says so.
//
// Nonblocking, one thread at a time, owns its descriptors. The user is told out of Turn alone, and
// may send and let go from there. Wake may be called from any thread or signal handler.
#ifndef FTAR_COORDINATOR_CONNECTIONS_H_
#define FTAR_COORDINATOR_CONNECTIONS_H_

#include <sys/epoll.h>

#include <list>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/log.h"
#include "coordinator/message_stream.h"
#include "membership/coordinator_machine.h"
#include "transport/fd.h"
#include "transport/tcp/socket.h"

namespace ftar::coordinator {

class Connections {
 public:
  using ConnId = membership::ConnId;
  struct Settings {
    std::string host = "127.0.0.1";
    uint16_t port = 0;  // 0: any
    std::string token;  // empty: only loopback is served
    bool allow_wildcard = false;
    TimeNs handshake_timeout_ns = 5 * kSecond;
    size_t unauthenticated_max = 256;
    size_t connections_max = 65536;
    TimeNs exit_when_empty_ns = kNever;  // deserted after so long without anybody who said Hello
  };
  // Of each connection in this order; who was let go is not heard any more, but for OnGone.
  class User {
   public:
    virtual ~User() = default;
    virtual void OnOpen(ConnId id, TimeNs now) = 0;  // it has proved the token
    virtual void OnHello(ConnId id, wire::Hello hello, TimeNs now) = 0;
    virtual void OnMessage(ConnId id, wire::Message message, TimeNs now) = 0;
    virtual void OnGone(const membership::Disconnected& event, TimeNs now) = 0;  // had said Hello
  };

  // `name`: whose connections, for the log. The user and the log outlive this.
  Connections(Settings settings, std::string name, User* user, const Logger* log);
  ~Connections();
  Connections(const Connections&) = delete;
  Connections& operator=(const Connections&) = delete;

  // Binds all addresses of the host's name that can be had. One that somebody else listens at is an
  // error, as is a name of which none can. Errors are kConfig or kSystem and name the address.
  Status Open();
  bool taken() const { return taken_; }  // why Open failed: somebody else listens there
  std::string address() const { return address_; }  // "host:port" of the first listening socket

  int fd() const { return epoll_.get(); }  // readable: there is something to do
  void Turn(TimeNs now);                   // what has come, and what is overdue
  TimeNs NextDeadline() const;
  void Wake();  // makes fd() readable once
  bool Deserted(TimeNs now) const { return now >= DesertedAt(); }

  void Send(ConnId id, const wire::Message& message);
  void Send(const std::vector<membership::Outgoing>& messages);
  void LetGo(ConnId id, TimeNs now);  // when it has been told the last
  void LetGoAll(TimeNs now);          // who has said Hello
  void CloseInForkedChild();

 private:
  struct Connection {
    ConnId id = 0;
    std::string from;
    std::unique_ptr<MessageStream> stream;
    bool introduced = false;  // said Hello: the user knows it
    bool closing = false;     // goes when all is written, or after a while
    TimeNs close_by_ns = kNever;
    bool write_armed = false;
    std::list<ConnId>::iterator waiting;  // place among the unauthenticated
    bool in_waiting = false;
  };

  Status ListenAt(const std::string& address);
  TimeNs SpeaksBy(const Connection& connection) const;
  transport::UniqueFd TakeNext(int listener, transport::tcp::SocketAddress* from);
  void Accept(int listener, TimeNs now);
  void PauseAccepting(int error, TimeNs now);
  void AcceptAgain();
  void ListenFor(uint32_t events);
  bool AcceptOne(transport::UniqueFd fd, std::string from, TimeNs now);
  void Serve(ConnId id, TimeNs now);
  void OnMessage(Connection& connection, wire::Message message, TimeNs now);
  void TellRefused(const std::string& from, const Status& why, TimeNs now);
  void Authenticated(Connection& connection);
  void SendEncoded(Connection& connection, const std::vector<std::byte>& bytes);
  void LetGo(Connection& connection, TimeNs now);
  void Drop(ConnId id, TimeNs now, const std::string& why);
  void ArmWrite(Connection& connection);
  void Expire(TimeNs now);
  TimeNs DesertedAt() const;
  Connection* Find(ConnId id);

  const Settings settings_;
  const std::string name_;
  User* const user_;
  const Logger* const log_;
  std::string address_;
  bool taken_ = false;
  transport::UniqueFd epoll_, wake_;
  std::vector<transport::UniqueFd> listeners_;
  std::unordered_map<ConnId, Connection> connections_;
  std::list<ConnId> unauthenticated_;    // oldest first
  // Of whom time is looked at: all who have not said Hello, or are let go. Each turn asks these,
  // and not the thousands who stay.
  std::set<ConnId> passing_;
  std::vector<wire::Message> messages_;  // scratch
  std::vector<ConnId> broken_;           // found while sending
  ConnId next_id_ = 1;
  size_t introduced_ = 0;
  TimeNs accept_again_ns_ = kNever;  // until then nobody is accepted
  TimeNs next_shortage_ns_ = 0;      // no warning of one before
  TimeNs next_refusal_ns_ = 0;       // no warning of one before
  uint64_t refusals_untold_ = 0;     // since the last
  TimeNs empty_since_ns_ = 0;
  epoll_event events_[128];
};

}  // namespace ftar::coordinator

#endif  // FTAR_COORDINATOR_CONNECTIONS_H_
