// Fuzz target for a relay: members and a coordinator that have proved the token and then say
// anything. It must neither crash nor spin, and never speak to somebody it does not know.
#include <set>

#include "membership/relay_lines.h"
#include "tests/fuzz/input.h"

namespace {

using ftar::fuzz::Drawer;
using ftar::fuzz::Input;
using ftar::fuzz::Require;
using namespace ftar::membership;

class Job {
 public:
  explicit Job(Input* input) : input_(input), drawer_(input), relay_({2, ftar::kSecond}) {}

  void Run() {
    for (int events = 0; events < 300 && !input_->empty(); ++events) {
      Play();
      Drain();
    }
  }

 private:
  void Play() {
    switch (input_->Below(9)) {
      case 0:
      case 1: return Connect();
      case 2: return Disconnect();
      case 3:
        now_ += static_cast<ftar::TimeNs>(input_->Byte()) * 20 * ftar::kMillisecond;
        return relay_.Step(now_, Timer{});
      case 4: return Line();
      case 5: return Order();
      case 6: return Roster();
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
      hello.shards = 3;
      hello.min_replicas = 1;
      hello.agreed_config = {};
      hello.roster.clear();
      hello.card.replica = static_cast<int32_t>(input_->Below(2));
      hello.card.shard = static_cast<int32_t>(input_->Below(3));
    }
    connected_.insert(++last_);
    relay_.Step(now_, Connected{last_, hello});
  }

  void Disconnect() {
    if (connected_.empty()) return;
    const ConnId conn = Pick();
    connected_.erase(conn);
    relay_.Step(now_, Disconnected{conn, "gone"});
  }

  void Line() {
    const LineId line = 1 + input_->Below(4);
    if (input_->Chance()) {
      relay_.Step(now_, LineUp{line});
    } else {
      relay_.Step(now_, LineDown{line});
    }
  }

  void Order() {
    if (auto message = drawer_.Message())
      relay_.Step(now_, FromLine{1 + input_->Below(4), std::move(*message)});
  }

  // One that the relay can read.
  void Roster() {
    ftar::wire::Roster roster;
    drawer_.Draw(roster.unit);
    ftar::wire::Behind behind;
    behind.cards.resize(1 + input_->Below(2));
    behind.rosters.resize(behind.cards.size());
    for (auto& card : behind.cards) drawer_.Draw(card);
    const std::vector<std::byte> bytes = ftar::wire::Encode(behind);
    roster.bytes.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    relay_.Step(now_, FromLine{1 + input_->Below(4), std::move(roster)});
  }

  void Say() {
    if (connected_.empty()) return;
    const ConnId conn = Pick();
    if (auto message = drawer_.Message()) relay_.Step(now_, Received{conn, std::move(*message)});
  }

  ConnId Pick() {
    auto at = connected_.begin();
    std::advance(at, input_->Below(static_cast<uint32_t>(connected_.size())));
    return *at;
  }

  void Drain() {
    const RelayLinesReady ready = relay_.TakeReady();
    for (const Outgoing& outgoing : ready.down) {
      Require(!ftar::wire::Encode(outgoing.message).empty());
      for (const ConnId conn : outgoing.to) Require(conn > 0 && conn <= last_);
    }
    for (const auto& [line, message] : ready.up) Require(!ftar::wire::Encode(message).empty());
    for (const OpenLine& open : ready.open) relay_.Step(now_, LineUp{open.line});
    for (const ConnId conn : ready.close) {
      if (connected_.erase(conn) > 0) relay_.Step(now_, Disconnected{conn, ""});
    }
  }

  Input* const input_;
  Drawer drawer_;
  RelayLines relay_;
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
