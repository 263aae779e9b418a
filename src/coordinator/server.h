// The coordinator as a server: Connections and membership::CoordinatorMachine pumped by one thread,
// that of Run.
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

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/log.h"
#include "coordinator/connections.h"
#include "membership/coordinator_machine.h"

namespace ftar::coordinator {

struct ServerSettings : Connections::Settings {
  std::string state;  // file for membership::CoordinatorRecord; empty: none is kept
  membership::CoordinatorConfig machine;
  bool hosted = false;  // dormant at first; `machine` and `state` are not used
};

class Server : private Connections::User {
 public:
  // Binds, and reads the state. Errors are kConfig or kSystem and name the address or the file;
  // `taken`, which may be null: it is that somebody else listens at the address.
  static Expected<std::unique_ptr<Server>> Open(const ServerSettings& settings, Logger log,
                                                bool* taken = nullptr);
  ~Server() override;
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  std::string address() const { return connections_.address(); }
  void Run();  // until Stop, or until it is deserted
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
  Server(const ServerSettings& settings, Logger log);
  Status Restore();
  void OnOpen(membership::ConnId id, TimeNs now) override;
  void OnHello(membership::ConnId id, wire::Hello hello, TimeNs now) override;
  void OnMessage(membership::ConnId id, wire::Message message, TimeNs now) override;
  void OnGone(const membership::Disconnected& event, TimeNs now) override;
  void GoDormant(TimeNs now);
  void Sleep(std::unique_lock<std::mutex>* lock);
  void StepMachine(TimeNs now, const membership::CoordinatorEvent& event);
  void Carry(TimeNs now);
  bool Record(const membership::CoordinatorRecord& record);

  const ServerSettings settings_;
  const Logger log_;
  std::mutex mutex_;  // of all below, but while Run sleeps
  std::condition_variable dormant_;
  std::atomic<bool> coordinating_{false}, stop_asked_{false};
  wire::Redirect known_;
  std::string state_;  // the file to which settings_.state leads; empty: none is kept
  std::optional<membership::CoordinatorMachine> machine_;
  Connections connections_;
  TimeNs machine_deadline_ns_ = kNever;
  bool stopping_ = false;
};

}  // namespace ftar::coordinator

#endif  // FTAR_COORDINATOR_SERVER_H_
