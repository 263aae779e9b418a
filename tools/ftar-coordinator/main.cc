// ftar-coordinator: orders the views of one job. A process of its own, so that no member's death
// takes it along; it may be killed and started again at any time, at the same address and with the
// same --state. With --relay-to it is a relay: it speaks for some shards of a replica to the
// coordinator of a large job (docs/scale.md).
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>

#include "base/config_os.h"
#include "coordinator/host_port.h"
#include "coordinator/relay.h"
#include "coordinator/server.h"
#include "runtime/host.h"
#include "runtime/logger.h"
#include "wire/frame.h"

namespace {

ftar::coordinator::Server* server = nullptr;
ftar::coordinator::Relay* relay = nullptr;

void OnSignal(int) {
  if (server != nullptr) server->Stop();
  if (relay != nullptr) relay->Stop();
}

struct Options {
  std::string listen, token_file, job, state, relay_to;
  int32_t members = 0;
  double exit_when_empty_s = -1;
};

ftar::Status Configure(const Options& options, ftar::Config* config) {
  using ftar::Config;
  FTAR_RETURN_IF_ERROR(ftar::LoadConfig(ftar::ReadEnvironment(), config));
  const struct {
    const char* name;
    const std::string& value;
  } given[] = {
      {"coordinator", options.listen}, {"token_file", options.token_file}, {"job", options.job}};
  for (const auto& [name, value] : given) {
    if (!value.empty()) FTAR_RETURN_IF_ERROR(config->Set(Config::Layer::kProgram, name, value));
  }
  if (config->text(ftar::KnobId::kCoordinator).empty()) {
    return ftar::Status(ftar::Code::kConfig, "listen",
                        "give --listen HOST:PORT or FTAR_COORDINATOR");
  }
  return ftar::Status::Ok();
}

ftar::Status SetBelow(const Options& options, const ftar::Config& config,
                      ftar::coordinator::Connections::Settings* below) {
  using ftar::KnobId;
  const ftar::Expected<ftar::coordinator::HostPort> address =
      ftar::coordinator::ParseHostPort(config.text(KnobId::kCoordinator), "listen");
  if (!address.ok()) return address.status();
  below->host = address->host;
  below->port = address->port;
  ftar::Expected<std::string> token = ftar::ReadToken(config);
  if (!token.ok()) return token.status();
  below->token = *token;
  below->allow_wildcard = config.on(KnobId::kAllowWildcard);
  if (options.exit_when_empty_s >= 0)
    below->exit_when_empty_ns = static_cast<ftar::TimeNs>(options.exit_when_empty_s * 1e9);
  return ftar::Status::Ok();
}

// Until members tell theirs, on which they agree. 0: the default.
ftar::TimeNs TimeoutOf(const ftar::Config& config) {
  const bool own = config.Origin(ftar::KnobId::kTimeout) != "default";
  return own ? config.duration_ns(ftar::KnobId::kTimeout) : 0;
}

ftar::Expected<ftar::coordinator::ServerSettings> MakeServer(const Options& options,
                                                             const ftar::Config& config) {
  using ftar::KnobId;
  ftar::coordinator::ServerSettings settings;
  FTAR_RETURN_IF_ERROR(SetBelow(options, config, &settings));
  settings.state = options.state;
  settings.machine.job = config.text(KnobId::kJob);
  settings.machine.timeout_ns = TimeoutOf(config);
  settings.machine.place_wait_ns = config.duration_ns(KnobId::kJoinTimeout);
  const ftar::Expected<ftar::MemberId> random = ftar::runtime::RandomMemberId();
  if (!random.ok()) return random.status();
  settings.machine.incarnation = static_cast<uint16_t>(random->lo);
  return settings;
}

ftar::Expected<ftar::coordinator::RelaySettings> MakeRelay(const Options& options,
                                                           const ftar::Config& config) {
  ftar::coordinator::RelaySettings settings;
  FTAR_RETURN_IF_ERROR(SetBelow(options, config, &settings));
  const auto above = ftar::coordinator::ParseHostPorts(options.relay_to, "relay-to");
  if (!above.ok()) return above.status();
  settings.above = *above;
  settings.machine.members = options.members;
  settings.machine.timeout_ns = TimeoutOf(config);
  return settings;
}

// Each member costs a descriptor, and shells give a thousand unless asked for more.
void TakeAllDescriptors() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

// Programs that wait for signals block them, and so does a member of one that has started this.
void HearSignals() {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

// What a script's unset variable says: no state would be kept, and no relay would be one.
std::string RefuseNothing(const std::string& text) {
  return text.empty() ? "must not be empty" : "";
}

int Fail(const ftar::Status& status) {
  fprintf(stderr, "ftar-coordinator: %s\n", status.ToString().c_str());
  return 1;
}

void Announce(const char* what, const std::string& address) {
  signal(SIGTERM, OnSignal);
  signal(SIGINT, OnSignal);
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);  // where the file that this goes to may not grow
  printf("ftar-coordinator %s on %s\n", what, address.c_str());
  fflush(stdout);
}

int Coordinate(const Options& options, const ftar::Config& config) {
  const auto settings = MakeServer(options, config);
  if (!settings.ok()) return Fail(settings.status());
  const auto opened =
      ftar::coordinator::Server::Open(*settings, ftar::runtime::MakeLogger(config, "coordinator"));
  if (!opened.ok()) return Fail(opened.status());
  server = opened->get();
  Announce("listening", server->address());
  server->Run();
  return 0;
}

int RunRelay(const Options& options, const ftar::Config& config) {
  const auto settings = MakeRelay(options, config);
  if (!settings.ok()) return Fail(settings.status());
  const auto opened =
      ftar::coordinator::Relay::Open(*settings, ftar::runtime::MakeLogger(config, "relay"));
  if (!opened.ok()) return Fail(opened.status());
  relay = opened->get();
  Announce("relaying", relay->address());
  const ftar::Status status = relay->Run();
  return status.ok() ? 0 : Fail(status);
}

}  // namespace

int main(int argc, char** argv) {
  HearSignals();
  Options options;
  const CLI::Validator named(RefuseNothing, "");
  CLI::App app{"Orders the views of one libftar job, or relays for some of its members."};
  app.add_option("--listen", options.listen, "HOST:PORT to listen on; else FTAR_COORDINATOR");
  app.add_option("--token-file", options.token_file, "file whose first line is the job's token");
  app.add_option("--job", options.job, "name of the job; else FTAR_JOB, else the first member's");
  CLI::Option* const state =
      app.add_option("--state", options.state,
                     "file that keeps the last view for the next start; without it a restarted "
                     "coordinator believes whoever is back")
          ->check(named);
  app.add_option("--exit-when-empty", options.exit_when_empty_s,
                 "end after this many seconds without a member")
      ->check(CLI::Range(0.0, 1e9));
  CLI::Option* const above =
      app.add_option("--relay-to", options.relay_to,
                     "HOST:PORT of the coordinator, or of relays above, with commas: be a relay")
          ->check(named);
  CLI::Option* const members =
      app.add_option("--members", options.members,
                     "of a relay: how many shards of a replica it speaks for; the same at all "
                     "relays of a job")
          ->check(CLI::Range(1, 4096));
  above->needs(members)->excludes(state);
  members->needs(above);
  app.set_version_flag("--version", "ftar-coordinator " FTAR_VERSION_TEXT ", wire version " +
                                        std::to_string(ftar::wire::kWireVersion));
  app.failure_message([](const CLI::App*, const CLI::Error& error) {
    return std::string("ftar-coordinator: ") + error.what() + "; --help lists the options\n";
  });
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 1;  // help is no failure
  }
  TakeAllDescriptors();
  ftar::Config config;
  if (ftar::Status status = Configure(options, &config); !status.ok()) return Fail(status);
  return options.relay_to.empty() ? Coordinate(options, config) : RunRelay(options, config);
}
