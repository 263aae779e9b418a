// A whole job with relays at the size it is meant for, on one thread with a virtual clock: the real
// coordinator, the real relays, and a real engine for every member. Every word takes one hop of a
// millisecond, nothing is lost, and bytes of operations are not moved. No invariants are looked at:
// that is the small worlds' task (../world.h); here it is counted what the size costs.
//
// What goes to or from the coordinator passes through the codec, and its cost is the coordinator's.
#ifndef FTAR_TESTS_SIM_SCALE_JOB_H_
#define FTAR_TESTS_SIM_SCALE_JOB_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "engine/engine.h"
#include "membership/coordinator_machine.h"
#include "membership/relay_lines.h"
#include "scale/account.h"

namespace ftar::sim {

inline constexpr TimeNs kHop = kMillisecond;

struct ScaleShape {
  int32_t replicas = 12, shards = 84;
  // Members behind each relay; then, if there are more numbers, relays behind each relay of the
  // next level.
  std::vector<int32_t> levels = {6};
};

struct Traffic {
  uint64_t messages = 0, bytes = 0;
};

class ScaleJob {
 public:
  explicit ScaleJob(ScaleShape shape);
  ~ScaleJob();

  // Deeds.
  void StartReplica(int32_t replica);
  void KillReplica(int32_t replica, bool with_relays);
  void KillRelay(int32_t replica);  // the first of that replica; its members live
  void StartOps();                  // every member that is in calls one
  // Until it is so, or the time is up. True if it is so.
  bool RunUntil(const std::function<bool()>& done, TimeNs limit);

  // What is.
  TimeNs now() const { return now_; }
  size_t members_in() const { return living_in_; }  // alive, with the newest view
  size_t living() const { return living_; }
  bool AllHold(size_t replicas) const;  // that many, all living ones hold one view of them
  uint64_t delivered() const { return delivered_; }
  uint64_t delivered_wrong() const { return delivered_wrong_; }
  uint64_t evictions() const { return evictions_; }
  TimeNs decided_at() const { return decided_at_; }  // the last Install or Announce was sent
  size_t top_relays() const;
  size_t relays() const { return relays_.size(); }

  // All of the coordinator's; of relays and members those of the first block or column, which are
  // like the others.
  struct Counts {
    Traffic coordinator_in, coordinator_out, relays_up, relays_down, members;
  };
  size_t relays_counted() const {
    return level_begin_.size() * static_cast<size_t>(shape_.replicas);
  }
  const Counts& counts() const { return counts_; }
  void Expect(int32_t participants) { expected_ = participants; }

 private:
  struct Member {
    std::unique_ptr<engine::Engine> engine;  // none: dead
    int32_t replica = 0, shard = 0;
    uint64_t conn = 0;
    Epoch epoch = 0;
    TimeNs wake = kNever;
    std::vector<uint32_t> links;
  };
  struct Relay {                                    // a process
    std::unique_ptr<membership::RelayLines> lines;  // none: dead
    int32_t level = 0, replica = 0, block = 0;
    std::map<membership::LineId, uint64_t> conns;  // lines up
    std::vector<uint64_t> below;
    TimeNs wake = kNever;
  };
  struct Conn {
    bool open = true;
    int64_t upper = -1;  // a relay, or the coordinator
    int64_t member = -1, relay = -1;
    membership::LineId line = 0;
  };
  using Words = std::shared_ptr<wire::Message>;
  struct Up {  // to whoever is above
    uint64_t conn;
    Words words;
    std::vector<std::byte> bytes;  // for the coordinator
  };
  struct Down {
    uint64_t conn;
    Words words;
  };
  struct UpperSees {  // the lower end is gone
    uint64_t conn;
  };
  struct LowerSees {  // the upper end is gone
    uint64_t conn;
  };
  struct Dial {  // it tries to reach who is above
    int64_t member, relay;
    membership::LineId line;
  };
  struct PeerWord {
    uint32_t from, to;
    Words words;
  };
  struct PeerFrame {
    uint32_t to;
    collective::InboundFrame frame;
  };
  struct LinkUp {
    uint32_t a, b;
  };
  struct LinkLost {
    uint32_t at, peer;
  };
  struct Wake {
    int64_t member, relay;  // or the coordinator
  };
  using Event = std::variant<Up, Down, UpperSees, LowerSees, Dial, PeerWord, PeerFrame, LinkUp,
                             LinkLost, Wake>;

  // What happens in one moment: a million and more, in blocks, since they are large.
  class Events {
   public:
    template <typename T>
    void Add(T&& event) {
      if (size_ % kBlock == 0) blocks_.emplace_back().reserve(kBlock);
      blocks_.back().emplace_back(std::forward<T>(event));
      ++size_;
    }
    Event& operator[](size_t i) { return blocks_[i / kBlock][i % kBlock]; }
    size_t size() const { return size_; }

   private:
    static constexpr size_t kBlock = 64;
    std::vector<std::vector<Event>> blocks_;
    size_t size_ = 0;
  };

  template <typename T>
  void At(TimeNs at, T&& event) {
    queue_[at].Add(std::forward<T>(event));
  }
  void RunTick(Events* events);
  size_t PlaceOf(const Event& event) const;
  Role RoleAt(size_t place) const;
  template <typename T>
  void Next(T&& event) {
    At(now_ + kHop, std::forward<T>(event));
  }
  void On(Up& event);
  void On(Down& event);
  void On(const UpperSees& event);
  void On(const LowerSees& event);
  void On(const Dial& event);
  void On(PeerWord& event);
  void On(PeerFrame& event);
  void On(const LinkUp& event);
  void On(const LinkLost& event);
  void On(const Wake& event);

  uint32_t AddMember(int32_t replica, int32_t shard);
  void Feed(Member& member, const engine::Event& event);
  void CarryOut(Member& member, engine::Ready ready);
  void SendUp(uint64_t conn, wire::Message message, Traffic* traffic);
  void FeedRelay(Relay& relay, const membership::RelayLinesEvent& event);
  void FeedCoordinator(const membership::CoordinatorEvent& event);
  void SendDown(membership::Outgoing outgoing, Traffic* traffic);
  void CloseDown(uint64_t conn);
  int64_t AboveMember(const Member& member) const;
  int64_t RelayAt(size_t level, int32_t replica, int32_t block) const;
  uint32_t IndexOf(const Member& member) const {
    return static_cast<uint32_t>(&member - &members_[0]);
  }
  void NoteView(Member& member);

  const ScaleShape shape_;
  TimeNs now_ = 0;
  std::map<TimeNs, Events> queue_;
  std::vector<uint32_t> places_, order_, begin_;  // of a moment's events, by place
  std::vector<Member> members_;
  std::vector<Relay> relays_;
  std::vector<size_t> level_begin_;  // of relays_, by level
  std::vector<int32_t> blocks_;      // by level, of a replica
  std::unique_ptr<membership::CoordinatorMachine> coordinator_;
  TimeNs coordinator_wake_ = kNever;
  std::vector<Conn> conns_ = std::vector<Conn>(1);  // by id; 0 is none
  Counts counts_;

  size_t living_ = 0, living_in_ = 0;
  Epoch newest_ = 0;
  size_t newest_replicas_ = 0;
  uint64_t delivered_ = 0, delivered_wrong_ = 0, evictions_ = 0;
  int32_t expected_ = 0;
  TimeNs decided_at_ = 0;
};

}  // namespace ftar::sim

#endif  // FTAR_TESTS_SIM_SCALE_JOB_H_
