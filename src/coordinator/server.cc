#include "coordinator/server.h"

#include <poll.h>

#include <algorithm>
#include <chrono>

#include "coordinator/clock.h"
#include "coordinator/state_file.h"

namespace ftar::coordinator {
namespace {

using membership::ConnId;

constexpr int kRecordAgainMs = 100;

}  // namespace

Server::Server(const ServerSettings& settings, Logger log)
    : settings_(settings),
      log_(std::move(log)),
      connections_(settings_, "coordinator", this, &log_) {}

Server::~Server() = default;

Expected<std::unique_ptr<Server>> Server::Open(const ServerSettings& settings, Logger log,
                                               bool* taken) {
  std::unique_ptr<Server> server(new Server(settings, std::move(log)));
  const Status listens = server->connections_.Open();
  if (taken != nullptr) *taken = server->connections_.taken();
  FTAR_RETURN_IF_ERROR(listens);
  FTAR_RETURN_IF_ERROR(server->Restore());
  return server;
}

// Behind that: whoever served the address before writes no more by then.
Status Server::Restore() {
  if (settings_.hosted) return Status::Ok();
  membership::CoordinatorConfig config = settings_.machine;
  membership::CoordinatorRecord record;
  if (!settings_.state.empty()) {
    Expected<std::string> file = FollowStateLinks(settings_.state);
    if (!file.ok()) return file.status();
    state_ = std::move(*file);
    Expected<membership::CoordinatorRecord> read = ReadState(state_, config.job);
    if (!read.ok()) return read.status();
    record = std::move(*read);
    if (config.job.empty()) config.job = record.job;
    // That it cannot be written is better known now.
    FTAR_RETURN_IF_ERROR(WriteState(state_, record));
  }
  if (record.view) {
    log_.Info("coordinator", "view " + std::to_string(EpochCounter(record.epoch)) + " of " +
                                 std::to_string(record.view->entries.size()) +
                                 " members is recorded in " + state_);
  }
  machine_.emplace(std::move(config), std::move(record));
  return Status::Ok();
}

void Server::Stop() {
  stop_asked_.store(true, std::memory_order_release);
  connections_.Wake();
}

// ---- connections

// The first word on every connection that a member's server has accepted.
void Server::OnOpen(ConnId id, TimeNs now) {
  if (!settings_.hosted) return;
  wire::Redirect greeting = known_;
  greeting.here = machine_.has_value();
  connections_.Send(id, greeting);
  if (!greeting.here) connections_.LetGo(id, now);
}

void Server::OnHello(ConnId id, wire::Hello hello, TimeNs now) {
  // Without a machine it has stood down since that one was told that it coordinates.
  if (!machine_) return connections_.LetGo(id, now);
  StepMachine(now, membership::Connected{id, std::move(hello)});
}

void Server::OnMessage(ConnId id, wire::Message message, TimeNs now) {
  StepMachine(now, membership::Received{id, std::move(message)});
}

void Server::OnGone(const membership::Disconnected& event, TimeNs now) { StepMachine(now, event); }

// ---- the machine

void Server::StepMachine(TimeNs now, const membership::CoordinatorEvent& event) {
  if (!machine_) return;
  machine_->Step(now, event);
  Carry(now);
}

void Server::Carry(TimeNs now) {
  membership::CoordinatorReady ready = machine_->TakeReady();
  if (ready.record && !state_.empty() && !Record(*ready.record)) {
    // Nor is what follows from it: others may have spoken meanwhile, or come back.
    machine_.reset();
    machine_deadline_ns_ = kNever;
    return;
  }
  machine_deadline_ns_ = ready.next_deadline;
  for (const membership::Note& note : ready.notes) log_.Log(note.level, "coordinator", note.text);
  connections_.Send(ready.messages);
  for (const ConnId id : ready.close) connections_.LetGo(id, now);
  if (ready.stand_down) GoDormant(now);
}

// The members look for another one; what it has told them last is still written.
void Server::GoDormant(TimeNs now) {
  machine_.reset();
  machine_deadline_ns_ = kNever;
  connections_.LetGoAll(now);
  coordinating_.store(false, std::memory_order_release);
  dormant_.notify_all();
}

void Server::Host(membership::CoordinatorConfig config) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (machine_) return;
  machine_.emplace(std::move(config), membership::CoordinatorRecord{});
  coordinating_.store(true, std::memory_order_release);
  StepMachine(Now(), membership::Timer{});
  connections_.Wake();
}

void Server::Know(wire::Redirect redirect) {
  const std::lock_guard<std::mutex> lock(mutex_);
  known_ = std::move(redirect);
}

void Server::Retire() {
  const std::lock_guard<std::mutex> lock(mutex_);
  StepMachine(Now(), membership::Retire{});
  connections_.Wake();
}

bool Server::WaitDormant(TimeNs timeout_ns) {
  std::unique_lock<std::mutex> lock(mutex_);
  return dormant_.wait_for(lock, std::chrono::nanoseconds(timeout_ns),
                           [this] { return !machine_; });
}

void Server::CloseInForkedChild() {
  connections_.CloseInForkedChild();
  mutex_.unlock();
}

// False if it is to stop before the record could be written: what waits for that is never told.
bool Server::Record(const membership::CoordinatorRecord& record) {
  Status last;
  while (!stopping_) {
    Status status = WriteState(state_, record);
    if (status.ok()) {
      if (!last.ok()) log_.Info("coordinator", state_ + " can be written again");
      return true;
    }
    if (last.ok())
      log_.Error("coordinator", status.text() + "; nobody is told anything until then");
    last = std::move(status);
    poll(nullptr, 0, kRecordAgainMs);
    stopping_ = stop_asked_.load(std::memory_order_acquire);
  }
  return false;
}

void Server::Sleep(std::unique_lock<std::mutex>* lock) {
  const TimeNs deadline = std::min(machine_deadline_ns_, connections_.NextDeadline());
  pollfd fd{connections_.fd(), POLLIN, 0};
  const int timeout_ms = PollTimeout(deadline, Now());
  lock->unlock();
  poll(&fd, 1, timeout_ms);
  lock->lock();
}

void Server::Run() {
  std::unique_lock<std::mutex> lock(mutex_);
  StepMachine(Now(), membership::Timer{});
  while (!stopping_) {
    Sleep(&lock);
    const TimeNs now = Now();
    connections_.Turn(now);
    if (now >= machine_deadline_ns_) StepMachine(now, membership::Timer{});
    if (connections_.Deserted(now)) {
      log_.Info("coordinator", "no members for a while: done");
      return;
    }
    stopping_ = stopping_ || stop_asked_.load(std::memory_order_acquire);
  }
}

}  // namespace ftar::coordinator
