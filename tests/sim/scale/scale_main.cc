// ftar-scale: what a job behind relays costs as it grows. Prints one table for each size.
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "scale/job.h"

namespace ftar::sim {
namespace {

struct Asked {
  std::vector<int32_t> members = {1000, 10'000, 100'000};
  int32_t replicas = 12;
  int32_t per_replica = 14;  // relays that the coordinator sees
  int32_t host = 0;          // members behind a relay of their own, which is behind one of those
};

double Ms(int64_t ns) { return static_cast<double>(ns) / 1e6; }
double Mb(uint64_t bytes) { return static_cast<double>(bytes) / 1e6; }

ScaleShape ShapeOf(const Asked& asked, int32_t members) {
  ScaleShape shape;
  shape.replicas = asked.replicas;
  shape.shards = (members + asked.replicas - 1) / asked.replicas;
  const int32_t hosts = asked.host > 0 ? (shape.shards + asked.host - 1) / asked.host : shape.shards;
  shape.levels = {(hosts + asked.per_replica - 1) / asked.per_replica};
  if (asked.host > 0) shape.levels.insert(shape.levels.begin(), asked.host);
  return shape;
}

// One scenario: what is done, and until when it is looked at. A line of the table.
class Measured {
 public:
  explicit Measured(ScaleJob* job) : job_(*job) {}

  bool Run(const char* name, const std::function<void()>& deed, const std::function<bool()>& done) {
    const auto before = job_.counts();
    const int64_t cpu = AccountOf(Role::kCoordinator).cpu_ns;
    const int64_t relay_cpu = AccountOf(Role::kRelay).cpu_ns;
    const auto began = std::chrono::steady_clock::now();
    began_at_ = job_.now();
    deed();
    const bool ok = job_.RunUntil(done, 60 * kSecond);
    const auto& after = job_.counts();
    const std::chrono::duration<double> real = std::chrono::steady_clock::now() - began;
    coordinator_ms_ = Ms(AccountOf(Role::kCoordinator).cpu_ns - cpu);
    const auto relays = static_cast<double>(job_.relays());
    const auto each = [](const Traffic& now, const Traffic& then, size_t of) {
      return Traffic{(now.messages - then.messages) / of, (now.bytes - then.bytes) / of};
    };
    const Traffic in = each(after.coordinator_in, before.coordinator_in, 1);
    const Traffic out = each(after.coordinator_out, before.coordinator_out, 1);
    const Traffic up = each(after.relays_up, before.relays_up, job_.relays_counted());
    const Traffic down = each(after.relays_down, before.relays_down, job_.relays_counted());
    const Traffic member = each(after.members, before.members, 12);
    std::printf("| %-30s | %5.0f | %5llu / %5llu | %6.2f / %6.2f | %4llu / %5llu | %5llu / %6llu | "
                "%4llu | %5llu | %6.1f | %6.2f | %6.1f |%s\n",
                name, Ms(job_.now() - began_at_), Ull(in.messages), Ull(out.messages),
                Mb(in.bytes), Mb(out.bytes), Ull(up.messages), Ull(down.messages),
                Ull(up.bytes / 1000), Ull(down.bytes / 1000), Ull(member.messages),
                Ull(member.bytes / 1000), coordinator_ms_,
                Ms(AccountOf(Role::kRelay).cpu_ns - relay_cpu) / relays, real.count(),
                ok ? "" : " DID NOT END");
    std::fflush(stdout);
    return ok;
  }
  TimeNs began_at() const { return began_at_; }
  double coordinator_ms() const { return coordinator_ms_; }

 private:
  static unsigned long long Ull(uint64_t value) { return value; }

  ScaleJob& job_;
  TimeNs began_at_ = 0;
  double coordinator_ms_ = 0;
};

struct Figures {
  double decided_ms = 0, installed_ms = 0, coordinator_ms = 0, real_s = 0;
  bool ok = true;
};

void PrintHead(const ScaleJob& job, const ScaleShape& shape) {
  std::printf("\n%d members: %d replicas of %d, %zu relays at the coordinator, %zu in all, each of "
              "up to %d\n\n",
              shape.replicas * shape.shards, shape.replicas, shape.shards, job.top_relays(),
              job.relays(), shape.levels.back());
  std::printf("| | ms | coordinator in / out | MB in / out | a relay up / down | KB up / down | a "
              "member sends | KB | coordinator CPU ms | relay CPU ms | real s |\n"
              "|---|---|---|---|---|---|---|---|---|---|---|\n");
}

Figures Scenarios(const ScaleShape& shape) {
  const auto began = std::chrono::steady_clock::now();
  ScaleJob job(shape);
  PrintHead(job, shape);
  Measured measured(&job);
  Figures figures;
  const int32_t all = shape.replicas;
  const auto held_by = [&job](int32_t replicas) {
    return [&job, replicas] { return job.AllHold(static_cast<size_t>(replicas)); };
  };
  const auto delivered = [&job] { return job.delivered() == job.living(); };
  const auto run = [&](const char* name, const std::function<void()>& deed,
                       const std::function<bool()>& done) {
    figures.ok = figures.ok && measured.Run(name, deed, done);
  };
  run("start-up", [&] { for (int32_t r = 0; r < all; ++r) job.StartReplica(r); }, held_by(all));
  job.Expect(all);
  run("an operation", [&] { job.StartOps(); }, delivered);
  figures.ok = figures.ok && job.delivered_wrong() == 0;
  run("a second without events", [] {},
      [&, until = job.now() + kSecond] { return job.now() >= until; });
  job.Expect(all - 1);
  // All but the lost replica call: it dies inside an operation.
  run("one replica lost: decided",
      [&] { job.KillReplica(3, false); job.StartOps(); },
      [&] { return job.decided_at() >= measured.began_at() && job.decided_at() > 0; });
  figures.decided_ms = Ms(job.decided_at() - measured.began_at());
  const TimeNs lost_at = measured.began_at();
  figures.coordinator_ms = measured.coordinator_ms();
  run("  and held by all", [] {}, held_by(all - 1));
  figures.installed_ms = Ms(job.now() - lost_at);
  run("  and the operation delivered", [] {}, delivered);
  figures.ok = figures.ok && job.delivered_wrong() == 0;
  run("it comes back", [&] { job.StartReplica(3); }, held_by(all));
  run("a relay lost, no member", [&] { job.KillRelay(5); },
      [&, until = job.now() + 4 * kSecond] { return job.now() >= until; });
  figures.ok = figures.ok && job.AllHold(static_cast<size_t>(all)) && job.evictions() == 0;
  run("a replica and its relays lost", [&] { job.KillReplica(4, true); }, held_by(all - 1));
  run("it comes back", [&] { job.StartReplica(4); }, held_by(all));
  run("ten lost in a burst", [&] {
    for (int32_t r = 0; r < all - 2; ++r) job.KillReplica(r, false);
  }, held_by(2));
  job.Expect(2);
  run("an operation of the two", [&] { job.StartOps(); }, delivered);
  figures.ok = figures.ok && job.delivered_wrong() == 0;
  run("the ten come back", [&] { for (int32_t r = 0; r < all - 2; ++r) job.StartReplica(r); },
      held_by(all));
  // Most connections close at once, and the coordinator suspects itself first (rule Q7).
  run("ten lost with their relays", [&] {
    for (int32_t r = 0; r < all - 2; ++r) job.KillReplica(r, true);
  }, held_by(2));
  const std::chrono::duration<double> real = std::chrono::steady_clock::now() - began;
  figures.real_s = real.count();
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::printf(
      "\nmemory: coordinator %.1f MB live, %.1f MB at most; relays %.1f MB, members %.0f MB; the "
      "process %.1f GB. Lost replica: decided in %.0f ms, held by all in %.0f ms. Real %.1f s\n",
      Mb(AccountOf(Role::kCoordinator).live_bytes), Mb(AccountOf(Role::kCoordinator).peak_bytes),
      Mb(AccountOf(Role::kRelay).live_bytes), Mb(AccountOf(Role::kMember).live_bytes),
      static_cast<double>(usage.ru_maxrss) / 1e6, figures.decided_ms, figures.installed_ms,
      figures.real_s);
  return figures;
}

int Main(int argc, char** argv) {
  Asked asked;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    const int32_t value = std::atoi(argv[i + 1]);
    if (name == "--members") {
      asked.members.clear();
      for (const char* at = argv[i + 1]; at != nullptr; at = std::strchr(at, ',')) {
        if (*at == ',') ++at;
        asked.members.push_back(std::atoi(at));
      }
    } else if (name == "--relays") {
      asked.per_replica = value;
    } else if (name == "--host") {
      asked.host = value;
    } else {
      std::fprintf(stderr,
                   "usage: ftar-scale [--members N,N] [--relays PER-REPLICA] [--host MEMBERS]\n");
      return 2;
    }
  }
  bool ok = true;
  for (const int32_t members : asked.members) {
    const Figures figures = Scenarios(ShapeOf(asked, members));
    ok = ok && figures.ok;
    std::printf("figures: members %d ok %d decided_ms %.0f installed_ms %.0f coordinator_ms %.2f "
                "real_s %.1f\n",
                members, figures.ok ? 1 : 0, figures.decided_ms, figures.installed_ms,
                figures.coordinator_ms, figures.real_s);
  }
  return ok ? 0 : 1;
}

}  // namespace
}  // namespace ftar::sim

int main(int argc, char** argv) { return ftar::sim::Main(argc, argv); }
