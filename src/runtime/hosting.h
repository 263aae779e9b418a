// Where any member may coordinate (rule Q5): this member's own server, dormant until it is its
// turn, and whom this member follows.
//
// Who takes over, when, and who is looked for next is membership::Succession's to say. Here it is
// turned into addresses, dials and a server's thread, and what comes of them is told to it. A
// server that does not coordinate names the one that does, as far as its member knows: so a
// newcomer needs one living member's address, and whoever was away finds those who have gone on.
//
// Under the job's lock, but for address, WaitDormant and the way around fork(). Owns the server and
// its thread.
#ifndef FTAR_RUNTIME_HOSTING_H_
#define FTAR_RUNTIME_HOSTING_H_

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/config.h"
#include "coordinator/control_connection.h"
#include "coordinator/server.h"
#include "membership/succession.h"
#include "runtime/rendezvous.h"

namespace ftar::runtime {

using coordinator::ControlConnection;

class Hosting {
 public:
  struct Settings {
    MemberId self;
    std::string job, token;
    std::vector<HostPort> meeting;  // see Place
    size_t number = 0;              // listens at the meeting point of this number, if there is one
    std::string host;               // else at this address of its own
    Config::Ports ports;            // and at one of these
    bool allow_wildcard = false;
    TimeNs timeout_ns = 0, join_timeout_ns = 0;
  };
  // What each successor waits longer than the one before it (SuccessionConfig), and the time for
  // one dial: a host that stands still is dialled in vain, and still the one that takes over is
  // found before the next one does.
  static TimeNs StepOf(TimeNs timeout_ns) {
    return std::clamp(timeout_ns / 4, 100 * kMillisecond, kSecond);
  }
  static TimeNs DialTimeOf(TimeNs timeout_ns) { return StepOf(timeout_ns) * 2 / 5; }

  // Listens, and answers from then on.
  static Expected<std::unique_ptr<Hosting>> Open(const Settings& settings, const Logger& log);
  ~Hosting();
  Hosting(const Hosting&) = delete;
  Hosting& operator=(const Hosting&) = delete;

  std::string address() const { return address_; }  // an entry of MemberCard.addresses

  // What has happened.
  void ViewChanged(TimeNs now, Epoch epoch, const std::vector<wire::MemberCard>& successors);
  void Exited(TimeNs now, MemberId member, bool led);
  void Leaves(TimeNs now, const wire::Redirect& last_word);
  void Connection(TimeNs now, const ControlConnection::Result& result, ControlConnection* control);

  // Does what is due.
  void Pursue(TimeNs now, ControlConnection* control);
  TimeNs next_deadline() const { return deadline_; }

  // This member is out: hands over, where it coordinates.
  void Retire();
  bool coordinating() const { return server_->coordinating(); }
  bool WaitDormant(TimeNs timeout_ns) { return server_->WaitDormant(timeout_ns); }
  void Silence() { server_->Stop(); }  // test hook: its network is gone, and nobody is told

  void BeforeFork() { server_->BeforeFork(); }
  void AfterForkInParent() { server_->AfterForkInParent(); }
  void CloseInForkedChild() { server_->CloseInForkedChild(); }

 private:
  Hosting(const Settings& settings, const Logger& log, std::unique_ptr<coordinator::Server> server,
          bool founder);
  void Step(TimeNs now, const membership::SuccessionEvent& event);
  void TakeOver();
  void Dial(TimeNs now, MemberId target, ControlConnection* control);
  void DialMeeting(TimeNs now, ControlConnection* control);
  bool Follow(TimeNs now, const wire::Redirect& redirect, ControlConnection* control);
  void Tell(MemberId host);
  void Lost(TimeNs now);

  const Settings settings_;
  const Logger log_;
  const bool founder_;
  std::unique_ptr<coordinator::Server> server_;
  std::string address_;
  membership::Succession succession_;
  bool hosting_ = false;
  Epoch epoch_ = 0;
  std::map<MemberId, std::string> addresses_;  // as in MemberCard.addresses
  std::set<MemberId> exited_;
  std::vector<HostPort> meeting_;   // without its own
  std::vector<std::string> hints_;  // where somebody who knows was, last
  size_t turn_ = 0;
  int hops_ = 0;
  TimeNs deadline_ = 0;
  // A coordinator that closes the connection each time is not dialled in a tight loop.
  TimeNs found_at_ = 0, hold_until_ = 0, hold_ns_ = 0;
  std::thread thread_;
};

}  // namespace ftar::runtime

#endif  // FTAR_RUNTIME_HOSTING_H_
