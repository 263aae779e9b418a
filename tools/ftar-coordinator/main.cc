// ftar-coordinator: orders the views of one job. A process of its own, so that no member's death
// takes it along; it may be killed and started again at any time, at the same address and with the
// same --state.
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>

#include "base/config_os.h"
#include "coordinator/host_port.h"
#include "coordinator/server.h"
#include "runtime/host.h"
#include "runtime/logger.h"

namespace {

ftar::coordinator::Server* running = nullptr;

void OnSignal(int) {
  if (running != nullptr) running->Stop();
}

struct Options {
  std::string listen, token_file, job, state;
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

ftar::Expected<ftar::coordinator::ServerSettings> MakeSettings(const Options& options,
                                                               const ftar::Config& config) {
  using ftar::Config;
  using ftar::KnobId;
  ftar::coordinator::ServerSettings settings;
  const ftar::Expected<ftar::coordinator::HostPort> address =
      ftar::coordinator::ParseHostPort(config.text(KnobId::kCoordinator), "listen");
  if (!address.ok()) return address.status();
  settings.host = address->host;
  settings.port = address->port;
  ftar::Expected<std::string> token = ftar::ReadToken(config);
  if (!token.ok()) return token.status();
  settings.token = *token;
  settings.state = options.state;
  settings.allow_wildcard = config.on(KnobId::kAllowWildcard);
  // The members' knobs, unless this process was given its own.
  settings.machine.job = config.text(KnobId::kJob);
  if (config.Origin(KnobId::kTimeout) != "default") {
    settings.machine.timeout_ns = config.duration_ns(KnobId::kTimeout);
  }
  settings.machine.place_wait_ns = config.duration_ns(KnobId::kJoinTimeout);
  const ftar::Expected<ftar::MemberId> random = ftar::runtime::RandomMemberId();
  if (!random.ok()) return random.status();
  settings.machine.incarnation = static_cast<uint16_t>(random->lo);
  if (options.exit_when_empty_s >= 0) {
    settings.exit_when_empty_ns = static_cast<ftar::TimeNs>(options.exit_when_empty_s * 1e9);
  }
  return settings;
}

int Fail(const ftar::Status& status) {
  fprintf(stderr, "ftar-coordinator: %s\n", status.ToString().c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app{"Orders the views of one libftar job."};
  app.add_option("--listen", options.listen, "HOST:PORT to listen on; else FTAR_COORDINATOR");
  app.add_option("--token-file", options.token_file, "file whose first line is the job's token");
  app.add_option("--job", options.job, "name of the job; else FTAR_JOB, else the first member's");
  app.add_option("--state", options.state,
                 "file that keeps the last view for the next start; without it a restarted "
                 "coordinator believes whoever is back");
  app.add_option("--exit-when-empty", options.exit_when_empty_s,
                 "end after this many seconds without a member");
  CLI11_PARSE(app, argc, argv);
  ftar::Config config;
  if (ftar::Status status = Configure(options, &config); !status.ok()) return Fail(status);
  const auto settings = MakeSettings(options, config);
  if (!settings.ok()) return Fail(settings.status());
  auto server =
      ftar::coordinator::Server::Open(*settings, ftar::runtime::MakeLogger(config, "coordinator"));
  if (!server.ok()) return Fail(server.status());
  running = server->get();
  signal(SIGTERM, OnSignal);
  signal(SIGINT, OnSignal);
  signal(SIGPIPE, SIG_IGN);
  printf("ftar-coordinator listening on %s\n", running->address().c_str());
  fflush(stdout);
  running->Run();
  return 0;
}
