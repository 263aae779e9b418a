// Plays a story in every order that matters: each message, each reduction, each user's call and
// each of the story's strikes ("when at any moment: kill 2 proven") may come at any point, while
// what one sends to another keeps its order.
//
// Orders differ only if somebody meets two things the other way round; what different members do
// commutes. So the search is dynamic partial-order reduction with sleep sets (Flanagan and
// Godefroid, POPL 2005; Godefroid, LNCS 1032): run once, look for pairs at one member that could
// have come the other way round, run those too. Every state of affairs at every member is met, most
// orders are not.
//
// Where that is too much ("overtakings 3") the strikes still come at every moment, and everything
// else in the order in which it was sent, but for so many times that something is put off until
// what was sent next has come (delay bounding: Emmi, Qadeer, Rakamaric, POPL 2011).
#ifndef FTAR_TESTS_SIM_STORY_EXPLORER_H_
#define FTAR_TESTS_SIM_STORY_EXPLORER_H_

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "story/story.h"
#include "world.h"

namespace ftar::sim {

class Explorer {
 public:
  struct Report {
    std::string failure;     // empty: no order goes wrong
    uint64_t runs = 0;       // to an end, each another order
    uint64_t redundant = 0;  // and broken off, since they would have repeated one
    uint64_t events = 0;     // within all of them
    size_t longest = 0;      // events whose order was open, in one run
    bool whole = false;      // there is nothing left to try
  };

  Explorer(const Story& story, uint64_t most_runs) : story_(story), most_runs_(most_runs) {}
  Report Search();
  // The run that failed last, once more, step by step.
  void Replay();

  // What the world asks. Lanes are its; a lane's first is what may come next.
  bool exploring() const { return phase_ == Phase::kOpen; }
  bool redundant() const { return redundant_; }
  bool Rules(World& world);
  void Offer(uint64_t lane, uint64_t object, uint32_t slot);
  uint32_t Choose();
  bool Awake(const void* node) const { return awake_.contains(node); }

 private:
  enum class Phase { kBefore, kOpen, kOver };
  static constexpr size_t kObjectsMax = 8;
  using Clock = std::array<uint16_t, kObjectsMax>;  // so many events at each are in the past
  struct Pending {
    uint32_t slot = 0;
    uint64_t number = 0;  // in the order of sending
    Clock sent{};         // the past of whoever sent it
  };
  struct Lane {
    uint64_t object = 0;
    std::deque<Pending> pending;
  };
  struct Event {  // that has come in this run
    uint64_t lane = 0, object = 0;
    uint16_t number = 0;  // at its object, from 1
  };
  struct Fork {  // before such an event
    uint64_t chosen = 0;
    std::map<uint64_t, uint64_t> open;  // lanes that had something, and their objects
    std::set<uint64_t> wanted, done;
    std::set<uint64_t> asleep;  // what an earlier run has seen to
    // With a bound: what may be chosen, the cheapest first, and how much was spent before.
    struct Option {
      uint64_t lane = 0;
      int costs = 0;
    };
    std::vector<Option> options;
    size_t option = 0;
    int spent = 0;
  };

  void Open(World& world);
  std::string RunOnce(bool trace);
  uint64_t ChooseLane();
  Fork MakeFork() const;
  void ListOptions(Fork* fork) const;
  bool NextOption(Fork* fork) const;
  void NoteRace(uint64_t lane, const Clock& sent);
  void WantBefore(size_t at, uint64_t lane, const Clock& sent);
  bool Backtrack();

  const Story& story_;
  const uint64_t most_runs_;
  std::vector<Fork> forks_;  // of the run under way, and of the one before as far as it is repeated
  // One run's.
  Phase phase_ = Phase::kBefore;
  bool redundant_ = false;
  std::map<uint64_t, Lane> lanes_;
  uint64_t offered_ = 0;
  std::vector<Event> past_;
  std::array<std::vector<size_t>, kObjectsMax> at_object_;  // events by place in past_
  std::array<Clock, kObjectsMax> clocks_{};
  Clock sending_{};  // of the event that is being carried out
  std::set<const void*> awake_;
  std::string wrong_;  // with the search itself
};

// Explores all stories of a directory, or one. How it went is printed, a failing order in full.
int ExploreStories(const std::string& path, uint64_t most_runs);

}  // namespace ftar::sim

#endif  // FTAR_TESTS_SIM_STORY_EXPLORER_H_
