#include "coordinator/relay.h"

#include <poll.h>

#include <algorithm>
#include <utility>

#include "coordinator/clock.h"

namespace ftar::coordinator {
namespace {

using membership::ConnId;

constexpr char kName[] = "relay";
constexpr TimeNs kLastWordsNs = 1 * kSecond;

}  // namespace

Relay::Relay(const RelaySettings& settings, Logger log)
    : settings_(settings),
      log_(std::move(log)),
      connections_(settings_, kName, this, &log_),
      machine_(settings_.machine) {}

Relay::~Relay() = default;

Expected<std::unique_ptr<Relay>> Relay::Open(const RelaySettings& settings, Logger log) {
  std::unique_ptr<Relay> relay(new Relay(settings, std::move(log)));
  FTAR_RETURN_IF_ERROR(relay->connections_.Open());
  return relay;
}

void Relay::Stop() {
  stop_asked_.store(true, std::memory_order_release);
  connections_.Wake();
}

// ---- the machine

void Relay::OnHello(ConnId id, wire::Hello hello, TimeNs now) {
  Step(now, membership::Connected{id, std::move(hello)});
}

void Relay::OnMessage(ConnId id, wire::Message message, TimeNs now) {
  Step(now, membership::Received{id, std::move(message)});
}

void Relay::OnGone(const membership::Disconnected& event, TimeNs now) { Step(now, event); }

void Relay::Step(TimeNs now, const membership::RelayLinesEvent& event) {
  machine_.Step(now, event);
  Carry(now);
}

void Relay::Carry(TimeNs now) {
  membership::RelayLinesReady ready = machine_.TakeReady();
  machine_deadline_ns_ = ready.next_deadline;
  for (const membership::Note& note : ready.notes) log_.Log(note.level, kName, note.text);
  for (const membership::OpenLine& line : ready.open) OpenLine(line);
  for (const auto& [line, message] : ready.up) {
    if (ControlConnection* const above = Find(line)) above->Send(message);
  }
  connections_.Send(ready.down);
  for (const ConnId id : ready.close) connections_.LetGo(id, now);
  for (const LineId line : ready.hang_up) HangUp(line, now);
}

// ---- lines up

ControlConnection* Relay::Find(LineId line) {
  const auto found = lines_.find(line);
  return found == lines_.end() ? nullptr : found->second.get();
}

void Relay::OpenLine(const membership::OpenLine& line) {
  ControlConnection::Settings above;
  above.names = settings_.above;
  above.token = settings_.token;
  above.self = line.unit;
  above.log_name = kName;
  above.SetPatience(line.timeout_ns);
  lines_[line.line] = std::make_unique<ControlConnection>(std::move(above), &log_);
}

void Relay::HangUp(LineId line, TimeNs now) {
  const auto found = lines_.find(line);
  if (found == lines_.end()) return;
  last_words_.push_back({std::move(found->second), now + kLastWordsNs});
  lines_.erase(found);
}

void Relay::PumpLines(TimeNs now) {
  std::vector<LineId> all;
  for (const auto& [id, line] : lines_) all.push_back(id);
  for (const LineId id : all) PumpLine(id, now);
  PumpLastWords(now);
  Resolve(now);
}

void Relay::PumpLine(LineId id, TimeNs now) {
  heard_ = {};
  Find(id)->Poll(now, &heard_);
  if (Find(id)->hopeless()) failure_ = Find(id)->last_error();
  std::vector<wire::Message> messages = std::move(heard_.messages);
  const bool went_down = heard_.went_down;
  if (heard_.renewed) Step(now, membership::LineDown{id});
  if (heard_.went_up || heard_.renewed) Step(now, membership::LineUp{id});
  for (wire::Message& message : messages) {
    if (!Find(id)) return;  // hung up by what came before
    Step(now, membership::FromLine{id, std::move(message)});
  }
  if (went_down && Find(id)) Step(now, membership::LineDown{id});
}

void Relay::PumpLastWords(TimeNs now) {
  std::erase_if(last_words_, [&](LastWords& last) {
    heard_ = {};
    last.line->Poll(now, &heard_);
    return !last.line->up() || !last.line->wants_write() || now >= last.until_ns;
  });
}

void Relay::Resolve(TimeNs now) {
  // One after the other: whoever is first gets its answer before another one is asked for.
  const auto wants = std::ranges::find_if(
      lines_, [now](const auto& line) { return line.second->wants_addresses(now); });
  if (wants == lines_.end()) return;
  if (auto answer = resolver_.Ask(wants->second->name()))
    wants->second->SetAddresses(now, std::move(*answer));
}

// ---- the loop

void Relay::Sleep() {
  std::vector<pollfd> fds = {{connections_.fd(), POLLIN, 0}};
  TimeNs deadline = std::min(machine_deadline_ns_, connections_.NextDeadline());
  const auto add = [&fds](const ControlConnection& line) {
    const short events = line.wants_write() ? POLLIN | POLLOUT : POLLIN;
    if (line.fd() >= 0) fds.push_back({line.fd(), events, 0});
  };
  const TimeNs now = Now();
  for (const auto& [id, line] : lines_) {
    add(*line);
    const bool waits = resolver_.busy() && line->wants_addresses(now);
    deadline = std::min(deadline, waits ? now + Resolver::kLookNs : line->next_deadline());
  }
  for (const LastWords& last : last_words_) {
    add(*last.line);
    deadline = std::min(deadline, last.until_ns);
  }
  poll(fds.data(), fds.size(), PollTimeout(deadline, now));
}

Status Relay::Run() {
  while (!stop_asked_.load(std::memory_order_acquire) && failure_.ok()) {
    Sleep();
    const TimeNs now = Now();
    connections_.Turn(now);
    PumpLines(now);
    if (now >= machine_deadline_ns_) Step(now, membership::Timer{});
    if (connections_.Deserted(now)) {
      log_.Info(kName, "no members for a while: done");
      break;
    }
  }
  return failure_;
}

}  // namespace ftar::coordinator
