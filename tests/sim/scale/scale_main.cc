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
double Seconds(int64_t ns) { return static_cast<double>(ns) / 1e9; }
double Mb(uint64_t bytes) { return static_cast<double>(bytes) / 1e6; }

ScaleShape ShapeOf(const Asked& asked, int32_t members) {
  ScaleShape shape;
  shape.replicas = asked.replicas;
  shape.shards = (members + asked.replicas - 1) / asked.replicas;
  const int32_t hosts =
      asked.host > 0 ? (shape.shards + asked.host - 1) / asked.host : shape.shards;
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
    const int64_t all_cpu = CpuNow(), cpu = AccountOf(Role::kCoordinator).cpu_ns;
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
    words_ = in.messages + out.messages;
    const Traffic up = each(after.relays_up, before.relays_up, job_.relays_counted());
    const Traffic down = each(after.relays_down, before.relays_down, job_.relays_counted());
    const Traffic member = each(after.members, before.members, 12);
    std::printf(
        "| %-30s | %5.0f | %5llu / %5llu | %6.2f / %6.2f | %4llu / %5llu | %5llu / %6llu | "
        "%4llu | %5llu | %6.1f | %6.2f | %6.1f | %6.1f |%s\n",
        name, Ms(job_.now() - began_at_), Ull(in.messages), Ull(out.messages), Mb(in.bytes),
        Mb(out.bytes), Ull(up.messages), Ull(down.messages), Ull(up.bytes / 1000),
        Ull(down.bytes / 1000), Ull(member.messages), Ull(member.bytes / 1000), coordinator_ms_,
        Ms(AccountOf(Role::kRelay).cpu_ns - relay_cpu) / relays, Seconds(CpuNow() - all_cpu),
        real.count(), ok ? "" : " DID NOT END");
    std::fflush(stdout);
    return ok;
  }
  TimeNs began_at() const { return began_at_; }
  double coordinator_ms() const { return coordinator_ms_; }
  uint64_t words() const { return words_; }  // of the coordinator, in and out

 private:
  static unsigned long long Ull(uint64_t value) { return value; }

  ScaleJob& job_;
  TimeNs began_at_ = 0;
  double coordinator_ms_ = 0;
  uint64_t words_ = 0;
};

struct Figures {
  uint64_t words = 0;  // to and from the coordinator, from the loss to the decision
  double decided_ms = 0, installed_ms = 0, coordinator_ms = 0;
  // Processor time from the start of the job to that decision, and of all lines; and real time.
  double to_decision_s = 0, all_s = 0, real_s = 0;
  bool ok = true;
};

void PrintHead(const ScaleJob& job, const ScaleShape& shape) {
  std::printf(
      "\n%d members: %d replicas of %d, %zu relays at the coordinator, %zu in all, each of "
      "up to %d\n\n",
      shape.replicas * shape.shards, shape.replicas, shape.shards, job.top_relays(), job.relays(),
      shape.levels.back());
  std::printf(
      "| | ms | coordinator in / out | MB in / out | a relay up / down | KB up / down | a "
      "member sends | KB | coordinator CPU ms | relay CPU ms | all CPU s | real s |\n"
      "|---|---|---|---|---|---|---|---|---|---|---|---|\n");
}

// What a job of this shape lives through, line by line.
class Life {
 public:
  explicit Life(const ScaleShape& shape) : job_(shape), measured_(&job_), all_(shape.replicas) {
    PrintHead(job_, shape);
  }

  Figures Run() {
    const auto began = std::chrono::steady_clock::now();
    began_cpu_ = CpuNow();
    Line(
        "start-up", [this] { StartAll(0); }, HeldBy(all_));
    job_.Expect(all_);
    Line(
        "an operation", [this] { job_.StartOps(); }, Delivered());
    Line(
        "a second without events", [] {}, Until(kSecond));
    LoseOne();
    LoseRelays();
    LoseTen();
    const std::chrono::duration<double> real = std::chrono::steady_clock::now() - began;
    figures_.real_s = real.count();
    figures_.all_s = Seconds(CpuNow() - began_cpu_);
    PrintMemory();
    return figures_;
  }

 private:
  using Deed = std::function<void()>;
  using Done = std::function<bool()>;

  void Line(const char* name, const Deed& deed, const Done& done) {
    figures_.ok = figures_.ok && measured_.Run(name, deed, done);
    figures_.ok = figures_.ok && job_.delivered_wrong() == 0;
  }
  Done HeldBy(int32_t replicas) {
    return [this, replicas] { return job_.AllHold(static_cast<size_t>(replicas)); };
  }
  Done Delivered() {
    return [this] { return job_.delivered() == job_.living(); };
  }
  Done Until(TimeNs time) {
    return [this, until = job_.now() + time] { return job_.now() >= until; };
  }
  void StartAll(int32_t spared) {
    for (int32_t r = 0; r < all_ - spared; ++r) job_.StartReplica(r);
  }
  void KillAll(int32_t spared, bool with_relays) {
    for (int32_t r = 0; r < all_ - spared; ++r) job_.KillReplica(r, with_relays);
  }

  // Inside an operation that all but the lost replica have called.
  void LoseOne() {
    job_.Expect(all_ - 1);
    const auto lose = [this] {
      job_.KillReplica(3, false);
      job_.StartOps();
    };
    Line("one replica lost: decided", lose,
         [this] { return job_.decided_at() >= measured_.began_at(); });
    const TimeNs lost_at = measured_.began_at();
    figures_.decided_ms = Ms(job_.decided_at() - lost_at);
    figures_.coordinator_ms = measured_.coordinator_ms();
    figures_.words = measured_.words();
    figures_.to_decision_s = Seconds(CpuNow() - began_cpu_);
    Line(
        "  and held by all", [] {}, HeldBy(all_ - 1));
    figures_.installed_ms = Ms(job_.now() - lost_at);
    Line(
        "  and the operation delivered", [] {}, Delivered());
    Line(
        "it comes back", [this] { job_.StartReplica(3); }, HeldBy(all_));
  }

  void LoseRelays() {
    Line(
        "a relay lost, no member", [this] { job_.KillRelay(5); }, Until(4 * kSecond));
    figures_.ok = figures_.ok && HeldBy(all_)() && job_.evictions() == 0;
    Line(
        "a replica and its relays lost", [this] { job_.KillReplica(4, true); }, HeldBy(all_ - 1));
    Line(
        "it comes back", [this] { job_.StartReplica(4); }, HeldBy(all_));
  }

  void LoseTen() {
    Line(
        "ten lost in a burst", [this] { KillAll(2, false); }, HeldBy(2));
    job_.Expect(2);
    Line(
        "an operation of the two", [this] { job_.StartOps(); }, Delivered());
    Line(
        "the ten come back", [this] { StartAll(2); }, HeldBy(all_));
    // Most connections close at once, and the coordinator suspects itself first (rule Q7).
    Line(
        "ten lost with their relays", [this] { KillAll(2, true); }, HeldBy(2));
  }

  void PrintMemory() const {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const auto live = [](Role role) { return Mb(AccountOf(role).live_bytes); };
    std::printf(
        "\nmemory: coordinator %.1f MB live, %.1f MB at most; relays %.1f MB, members %.0f MB; "
        "the process %.1f GB. Lost replica: decided in %.0f ms, held by all in %.0f ms. "
        "CPU to that decision %.1f s, of all %.1f s; real %.1f s\n",
        live(Role::kCoordinator), Mb(AccountOf(Role::kCoordinator).peak_bytes), live(Role::kRelay),
        live(Role::kMember), static_cast<double>(usage.ru_maxrss) / 1e6, figures_.decided_ms,
        figures_.installed_ms, figures_.to_decision_s, figures_.all_s, figures_.real_s);
  }

  ScaleJob job_;
  Measured measured_;
  const int32_t all_;
  int64_t began_cpu_ = 0;
  Figures figures_;
};

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
    const Figures figures = Life(ShapeOf(asked, members)).Run();
    ok = ok && figures.ok;
    std::printf(
        "figures: members %d ok %d decided_ms %.0f installed_ms %.0f words %llu "
        "coordinator_ms %.2f to_decision_s %.1f all_s %.1f real_s %.1f\n",
        members, figures.ok ? 1 : 0, figures.decided_ms, figures.installed_ms,
        static_cast<unsigned long long>(figures.words), figures.coordinator_ms,
        figures.to_decision_s, figures.all_s, figures.real_s);
  }
  return ok ? 0 : 1;
}

}  // namespace
}  // namespace ftar::sim

int main(int argc, char** argv) { return ftar::sim::Main(argc, argv); }
