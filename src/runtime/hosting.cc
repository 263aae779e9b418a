#include "runtime/hosting.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/signals_os.h"
#include "transport/tcp/socket.h"
#include "wire/addresses.h"

namespace ftar::runtime {
namespace {

using coordinator::Server;
using coordinator::ServerSettings;

constexpr char kEntry[] = "coordinator";  // in MemberCard.addresses
constexpr int kHopsMax = 3;
constexpr size_t kHintsMax = 8;
constexpr TimeNs kHoldMin = 5 * kMillisecond;

// Connections that close within this are one happening (rule Q7). A proof of death by a process of
// the same host comes well within half of it.
TimeNs ClusterOf(TimeNs timeout_ns) {
  return std::clamp(timeout_ns / 50, 10 * kMillisecond, 100 * kMillisecond);
}

// Of both 0 and the highest CoordinatorMachine makes use itself.
uint16_t IncarnationOf(MemberId self) {
  return static_cast<uint16_t>(1 + self.lo % (UINT16_MAX - 1));
}

membership::SuccessionConfig MakeConfig(const Hosting::Settings& settings, bool founder) {
  membership::SuccessionConfig config;
  config.self = settings.self;
  config.incarnation = IncarnationOf(settings.self);
  config.founder = founder;
  config.step_ns = Hosting::StepOf(settings.timeout_ns);
  config.retry_ns = std::clamp(settings.timeout_ns / 100, 5 * kMillisecond, 20 * kMillisecond);
  config.grace_ns = ClusterOf(settings.timeout_ns) / 2;
  if (founder) config.looks_first = static_cast<int64_t>(settings.meeting.size()) - 1;
  config.asks_again_ns = 2 * settings.timeout_ns;
  return config;
}

Expected<std::unique_ptr<Server>> Listen(const Hosting::Settings& settings, const Logger& log,
                                         bool* at_meeting) {
  ServerSettings server;
  server.hosted = true;
  server.token = settings.token;
  server.allow_wildcard = settings.allow_wildcard;
  *at_meeting = settings.number < settings.meeting.size();
  if (*at_meeting) {
    server.host = settings.meeting[settings.number].host;
    server.port = settings.meeting[settings.number].port;
    bool taken = false;
    Expected<std::unique_ptr<Server>> opened = Server::Open(server, log, &taken);
    // Somebody who was here before may live still, stopped. Then this one is found by its card.
    if (opened.ok() || !taken) return opened;
    log.Warn("runtime", opened.status().text() + "; listening elsewhere");
    *at_meeting = false;
  }
  server.host = settings.host;
  Expected<std::unique_ptr<Server>> opened = Status(Code::kConfig, "ports", "no port is free");
  for (int64_t port = settings.ports.first; port <= settings.ports.last; ++port) {
    server.port = static_cast<uint16_t>(port);
    opened = Server::Open(server, log);
    if (opened.ok()) break;
  }
  return opened;
}

// Where others reach it: what listens at all addresses does so at this host's.
std::string Advertised(const Hosting::Settings& settings, const std::string& listening) {
  const Expected<transport::tcp::SocketAddress> parsed = transport::tcp::ParseAddress(listening);
  if (!parsed.ok() || !parsed->wildcard()) return listening;
  const Expected<HostPort> address = ParseHostPort(listening, kEntry);
  return ShownAddress({settings.host, address.ok() ? address->port : uint16_t{0}});
}

}  // namespace

Expected<std::unique_ptr<Hosting>> Hosting::Open(const Settings& settings, const Logger& log) {
  bool at_meeting = false;
  Expected<std::unique_ptr<Server>> server = Listen(settings, log, &at_meeting);
  if (!server.ok()) return server.status();
  const bool founder = at_meeting && settings.number == 0;
  std::unique_ptr<Hosting> hosting(new Hosting(settings, log, std::move(*server), founder));
  if (at_meeting)
    hosting->meeting_.erase(hosting->meeting_.begin() + static_cast<ptrdiff_t>(settings.number));
  try {
    const SignalsBlocked quiet;
    hosting->thread_ = std::thread([raw = hosting->server_.get()] { raw->Run(); });
  } catch (const std::system_error& error) {
    return Status(Code::kSystem, std::string("cannot start the server's thread: ") + error.what());
  }
  return hosting;
}

Hosting::Hosting(const Settings& settings, const Logger& log, std::unique_ptr<Server> server,
                 bool founder)
    : settings_(settings),
      log_(log),
      founder_(founder),
      server_(std::move(server)),
      address_(std::string(kEntry) + "=" + Advertised(settings, server_->address())),
      succession_(MakeConfig(settings, founder)),
      meeting_(settings.meeting) {}

Hosting::~Hosting() {
  server_->Stop();
  if (thread_.joinable()) thread_.join();
}

void Hosting::Step(TimeNs now, const membership::SuccessionEvent& event) {
  succession_.Step(now, event);
  deadline_ = 0;
}

// What whoever dials this member's server is told.
void Hosting::Tell(MemberId host) {
  wire::Redirect redirect;
  redirect.epoch = epoch_;
  redirect.host = host;
  if (host == settings_.self) {
    redirect.address = address_;
  } else if (const auto found = addresses_.find(host); found != addresses_.end()) {
    redirect.address = found->second;
  }
  server_->Know(std::move(redirect));
}

// ---- what has happened

void Hosting::ViewChanged(TimeNs now, Epoch epoch,
                          const std::vector<wire::MemberCard>& successors) {
  if (successors.empty()) return;
  epoch_ = std::max(epoch_, epoch);
  const auto gone = [&successors](MemberId id) {
    return std::none_of(successors.begin(), successors.end(),
                        [id](const wire::MemberCard& card) { return card.id == id; });
  };
  std::erase_if(addresses_, [&gone](const auto& entry) { return gone(entry.first); });
  std::erase_if(exited_, gone);
  membership::SuccessorsKnown known;
  for (const wire::MemberCard& card : successors) {
    known.list.push_back(card.id);
    addresses_[card.id] = card.addresses;
  }
  Step(now, known);
}

void Hosting::Exited(TimeNs now, MemberId member, bool led) {
  exited_.insert(member);
  Step(now, membership::HostExited{member, led});
}

void Hosting::Leaves(TimeNs now, const wire::Redirect& last_word) {
  if (last_word.host.valid()) addresses_[last_word.host] = last_word.address;
  if (const std::string next = wire::FindAddress(last_word.address, kEntry); !next.empty())
    hints_.insert(hints_.begin(), next);
  if (hints_.size() > kHintsMax) hints_.pop_back();
  Step(now, membership::CoordinatorLeaves{});
}

void Hosting::Lost(TimeNs now) {
  hold_ns_ = now - found_at_ > settings_.timeout_ns / 4
                 ? 0
                 : std::clamp(2 * hold_ns_, kHoldMin, std::max(settings_.timeout_ns / 8, kHoldMin));
  hold_until_ = now + hold_ns_;
  Tell({});
  Step(now, membership::CoordinatorGone{});
}

void Hosting::Connection(TimeNs now, const ControlConnection::Result& result,
                         ControlConnection* control) {
  if (result.went_up) {
    found_at_ = now;
    const wire::Redirect& greeting = *result.redirect;
    addresses_[greeting.host] = greeting.address;
    Tell(greeting.host);
    Step(now, membership::CoordinatorFound{greeting.host});
  }
  if (result.went_down) Lost(now);
  if (!result.dial_failed) return;
  // Also where who coordinates does not answer to the next dial: it may stand still.
  if (result.redirect && result.redirect->epoch != 0) Step(now, membership::JobHasBegun{});
  if (result.redirect && Follow(now, *result.redirect, control)) return;
  Step(now, membership::DialFailed{.silent = result.silent});
}

// A member that does not coordinate says who does.
bool Hosting::Follow(TimeNs now, const wire::Redirect& redirect, ControlConnection* control) {
  const std::string address = wire::FindAddress(redirect.address, kEntry);
  const bool known = redirect.host.valid() && redirect.host != settings_.self && !address.empty();
  if (!known || exited_.contains(redirect.host) || ++hops_ > kHopsMax) return false;
  control->DialAddress(now, address);
  return true;
}

// ---- what is to be done

void Hosting::Pursue(TimeNs now, ControlConnection* control) {
  // Its own connection closes when it stands down; not before, so that the engine hears of it
  // first.
  if (hosting_ && !server_->coordinating() && !control->up()) {
    hosting_ = false;
    Tell({});
    Step(now, membership::StoodDown{});
  }
  if (now < deadline_) return;
  deadline_ = hold_until_;
  if (now < hold_until_) return;
  succession_.Step(now, membership::SuccessionTick{});
  const membership::SuccessionReady ready = succession_.TakeReady();
  deadline_ = ready.next_deadline;
  if (ready.take_over) TakeOver();
  if (ready.dial) Dial(now, *ready.dial, control);
}

void Hosting::TakeOver() {
  membership::CoordinatorConfig config;
  config.job = settings_.job;
  config.incarnation = succession_.incarnation();
  config.place_wait_ns = settings_.join_timeout_ns;
  config.cluster_ns = ClusterOf(settings_.timeout_ns);
  config.hosted = true;
  config.self = settings_.self;
  config.successor = epoch_ != 0 || !founder_;
  if (!config.successor) config.settle_ns = config.cluster_ns;
  config.witnessed = succession_.witnessed();
  log_.Info("runtime", "this member coordinates from now on, at " + address_);
  hosting_ = true;
  Tell(settings_.self);
  server_->Host(std::move(config));
}

void Hosting::Dial(TimeNs now, MemberId target, ControlConnection* control) {
  hops_ = 0;
  if (!target.valid()) return DialMeeting(now, control);
  std::string addresses = target == settings_.self ? address_ : std::string();
  if (const auto found = addresses_.find(target); addresses.empty() && found != addresses_.end())
    addresses = found->second;
  const std::string address = wire::FindAddress(addresses, kEntry);
  if (address.empty()) return Step(now, membership::DialFailed{});
  control->DialAddress(now, address);
}

void Hosting::DialMeeting(TimeNs now, ControlConnection* control) {
  const size_t all = hints_.size() + meeting_.size();
  if (all == 0) return Step(now, membership::DialFailed{});
  const size_t next = turn_++ % all;
  if (next < hints_.size()) return control->DialAddress(now, hints_[next]);
  control->DialName(now, meeting_[next - hints_.size()]);
}

void Hosting::Retire() {
  if (hosting_) Tell({});
  server_->Retire();
}

}  // namespace ftar::runtime
