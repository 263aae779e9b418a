// A column of real engines under a microscope: every message waits until the test delivers it, so a
// test can stop the world between any two messages. The coordinator is the test itself: it says
// Prepare and Install. Members are named 1, 2, 3, ...; memory is the simulator's symbolic one.
#ifndef FTAR_TESTS_SCRIPT_ENGINE_LAB_H_
#define FTAR_TESTS_SCRIPT_ENGINE_LAB_H_

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "invariants/agreement.h"
#include "invariants/fencing.h"
#include "invariants/result.h"
#include "invariants/views.h"
#include "in_place.h"
#include "lane.h"
#include "memory.h"

namespace ftar::lab {

inline constexpr GroupKey kGroup = 7;

struct LabOptions {
  int members = 3;
  Seq window = 4;
  plan::PlanKind plan = plan::PlanKind::kDirect;
  bool in_place = false;
  uint64_t count = 12;  // elements of an operation, 4 a chunk
  // What the coordinator says waits on a wire from 0, too, and the end of a work on one to itself.
  bool post = false;
  bool fault_tolerant = true;
  bool open = true;    // false: a member opens the group by its first call
  bool lanes = false;  // a member's line is seen when its word to itself is delivered
  bool lends = false;  // payload stays with its sender until it is read
  int cores = 0;       // of the one host of all; 0: each has its own
  int block = 4;       // elements of one, of a shared operation; a chunk has 4
  int all_sum = 0;     // up to so many members each sum all of a shared one
  uint32_t keep_aside = 0;  // a bit a name: its sums in place wait aside
};

class Lab {
 public:
  explicit Lab(LabOptions options);
  ~Lab();

  // All members are in view 1 with their credits exchanged, nothing is on the wires.
  void Form();
  // Opens the group and links; Prepare({}, all) is next.
  void Connect();
  void Call(int member, const collective::OpSpec* spec = nullptr);
  // By the fast path, or as Call where that does not take it. Its end is a word to itself.
  void CallFast(int member);
  collective::OpSpec DefaultSpec() const;
  // Delivers the oldest message on a wire, or on any wire in turn. False if there is none.
  bool Deliver(int from, int to);
  bool DeliverAny();
  bool Drop(int from, int to);  // loses the oldest message on a wire
  void SlowDown(int from, int to) { slow_wire_ = {from, to}; }  // delivers there last of all
  void DeliverAll();
  void Kill(int member);        // stops it; what it has sent already still arrives
  void StandStill(int member);  // what comes for it waits, until it goes on
  void GoOn(int member);
  void TellEvicted(int member);  // its user has its memory back
  void Leave(int member);
  void Prepare(const std::vector<int>& survivors, const std::vector<int>& newcomers = {},
               const std::vector<int>& leavers = {});
  bool decided() const { return decided_; }
  bool Install();  // to all, once all columns have decided; false if not decided yet
  void InstallAt(int member);
  // Kill's aftermath in one go: Prepare, deliver, Install, deliver, until nothing moves.
  void Recover(const std::vector<int>& survivors);

  size_t waiting(int from, int to) const;
  // Of the oldest result chunk on a wire.
  std::optional<wire::FrameHeader> WaitingFinal(int from, int to) const;
  const std::vector<collective::Outcome>& outcomes(int member) const;
  std::string failure() const { return failure_; }
  std::vector<std::string> TakeLog() { return std::exchange(log_, {}); }
  engine::Engine& engine(int member);
  std::string Describe(const wire::Message& message) const;
  int NameOf(MemberId id) const { return static_cast<int>(id.lo); }

 private:
  struct Member;
  struct Letter {
    std::string text;
    std::function<void(Member&)> open;
    std::optional<wire::FrameHeader> header = {};  // of a frame
  };
  void Feed(Member& member, const engine::Event& event);
  void CarryOut(Member& member, engine::Ready ready);
  void FailIf(const std::string& wrong) {
    if (!wrong.empty() && failure_.empty()) failure_ = wrong;
  }
  void CarryTodo(Member& member, collective::Todo& todo);
  void CarryWork(Member& member, const collective::Work& work);
  void CarryLine(Member& member, const collective::Publication& said);
  void OpenBuffers(Member& member, Seq seq);
  void CarryWords(Member& member, const collective::LaneWords& words);
  void PutAside(Member& member, const collective::Work& work);
  void Look(Member& member);
  void ShareFast(Member& member, collective::FastLook found);
  void EndFast(Member& member, bool shared);
  void CarrySend(Member& member, const collective::SendFrame& sent);
  void FromCoordinator(Member& member, const wire::Message& message);
  void ToCoordinator(Member& member, const wire::Message& message);
  void Log(const std::string& line) { log_.push_back(line); }
  void Check(Member& member, const collective::Outcome& outcome);

  const LabOptions options_;
  TimeNs now_ = kMillisecond;
  sim::LaneHost lane_host_{&now_};
  std::map<int, std::unique_ptr<Member>> members_;
  std::map<std::pair<int, int>, std::deque<Letter>> wires_;
  std::pair<int, int> last_wire_{0, 0}, slow_wire_{-1, -1};
  uint64_t counter_ = 0;
  wire::View view_;
  wire::Prepare prepare_;
  std::map<MemberId, wire::BoundOf> bounds_;
  bool decided_ = false;
  sim::Agreement agreement_;
  sim::Fencing fencing_;
  sim::Views views_{1, 1};
  std::string failure_;
  std::vector<std::string> log_;
};

}  // namespace ftar::lab

#endif  // FTAR_TESTS_SCRIPT_ENGINE_LAB_H_
