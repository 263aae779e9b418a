// The coordinator as a server: listening sockets, authenticated connections, and
// membership::CoordinatorMachine pumped by one thread, that of Run.
//
// Who has not proved the token costs one descriptor and little memory, for a bounded time, and
// there are at most `unauthenticated_max` of them: one more pushes the oldest out, so that idle
// connections never lock members out.
//
// With a state file nothing goes out before what it may tell of is recorded. While that cannot be
// written (a full disk) the whole server stands still, says so once, and tries again every 100 ms;
// to members it is as if the coordinator were away.
//
// Hosted (rule Q5) it is one of many, in a member's process, and dormant: whoever dials is told who
// coordinates, by what the member knows, and may go. Host wakes it, until its machine stands down.
//
// Stop may be called from any thread or signal handler, Host, Know, Retire and WaitDormant from any
// thread; everything else from the owner's. Owns its descriptors.
#ifndef FTAR_COORDINATOR_SERVER_H_
#define FTAR_COORDINATOR_SERVER_H_

#include <sys/epoll.h>

#include <atomic>
#include <condition_variable>
#include <list>
#include <memory>
#include <mutex>
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
  bool hosted = false;                 // dormant at first; `machine` and `state` are not used
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

  // Hosted. Begins to coordinate, where it does not yet.
  void Host(membership::CoordinatorConfig config);
  // What whoever dials is told while it does not coordinate here.
  void Know(wire::Redirect redirect);
  // Its member is out: it hands over and stands down when it can.
  void Retire();
  bool coordinating() const { return coordinating_.load(std::memory_order_acquire); }
  // False if it still coordinates when the time is over.
  bool WaitDormant(TimeNs timeout_ns);
  // Around fork(): the child closes all descriptors and does nothing else with it.
  void BeforeFork() { mutex_.lock(); }
  void AfterForkInParent() { mutex_.unlock(); }
  void CloseInForkedChild();

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
  void Greet(Connection& connection, TimeNs now);
  void LetGo(Connection& connection, TimeNs now);
  void GoDormant(TimeNs now);
  void Turn(TimeNs now, int events);
  void Wake();
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
  std::mutex mutex_;  // of all below, but while Run sleeps
  std::condition_variable dormant_;
  std::atomic<bool> coordinating_{false}, stop_asked_{false};
  wire::Redirect known_;
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
  epoll_event events_[128];
  bool stopping_ = false;
};

}  // namespace ftar::coordinator

#endif  // FTAR_COORDINATOR_SERVER_H_
