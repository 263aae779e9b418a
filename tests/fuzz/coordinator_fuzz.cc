// Fuzz target for the coordinator: members that have proved the token and then say anything. It
// must neither crash nor spin, and never speak to somebody it does not know.
#include <set>

#include "membership/coordinator_machine.h"
#include "tests/fuzz/input.h"

namespace {

using ftar::fuzz::Drawer;
using ftar::fuzz::Input;
using ftar::fuzz::Require;
using namespace ftar::membership;

class Job {
 public:
  explicit Job(Input* input) : input_(input), drawer_(input), machine_(Settings()) {}

  void Run() {
    for (int events = 0; events < 300 && !input_->empty(); ++events) {
      Play();
      Drain();
    }
  }

 private:
  static CoordinatorConfig Settings() {
    CoordinatorConfig config;
    config.job = "job";
    config.incarnation = 7;
    config.timeout_ns = ftar::kSecond;
    config.settle_ns = 0;
    return config;
  }

  void Play() {
    switch (input_->Below(8)) {
      case 0: return Connect();
      case 1: return Disconnect();
      case 2:
      case 3:
        now_ += static_cast<ftar::TimeNs>(input_->Byte()) * 20 * ftar::kMillisecond;
        return machine_.Step(now_, Timer{});
      default: return Say();
    }
  }

  void Connect() {
    ftar::wire::Hello hello;
    drawer_.Draw(hello);
    // Mostly a member that would be let in.
    if (input_->Below(4) != 0) {
      hello.job = "job";
      hello.replicas = 3;
      hello.shards = 1;
      hello.min_replicas = 1;
      hello.agreed_config = {};
      hello.card.replica = static_cast<int32_t>(input_->Below(3));
      hello.card.shard = 0;
    }
    connected_.insert(++last_);
    machine_.Step(now_, Connected{last_, hello});
  }

  void Disconnect() {
    if (connected_.empty()) return;
    const ConnId conn = Pick();
    connected_.erase(conn);
    machine_.Step(now_, Disconnected{conn, "gone"});
  }

  void Say() {
    if (connected_.empty()) return;
    const ConnId conn = Pick();
    if (auto message = drawer_.Message()) machine_.Step(now_, Received{conn, std::move(*message)});
  }

  ConnId Pick() {
    auto at = connected_.begin();
    std::advance(at, input_->Below(static_cast<uint32_t>(connected_.size())));
    return *at;
  }

  void Drain() {
    const CoordinatorReady ready = machine_.TakeReady();
    for (const Outgoing& outgoing : ready.messages) {
      Require(!ftar::wire::Encode(outgoing.message).empty());
      for (const ConnId conn : outgoing.to) Require(conn > 0 && conn <= last_);
    }
    if (machine_.view() != nullptr) input_->Know(machine_.view()->epoch);
    for (const ConnId conn : ready.close) {
      if (connected_.erase(conn) > 0) machine_.Step(now_, Disconnected{conn, ""});
    }
  }

  Input* const input_;
  Drawer drawer_;
  CoordinatorMachine machine_;
  ftar::TimeNs now_ = 1;
  ConnId last_ = 0;
  std::set<ConnId> connected_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  Job(&input).Run();
  return 0;
}
