// Plays a story in a World: watches what happens there, does what the story says at its moments,
// and looks at the end whether all came as expected.
#ifndef FTAR_TESTS_SIM_STORY_DIRECTOR_H_
#define FTAR_TESTS_SIM_STORY_DIRECTOR_H_

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "node.h"
#include "story/story.h"
#include "world.h"

namespace ftar::sim {

// Something that has happened. Null is the coordinator, both as who did it and as the other end.
struct Happening {
  Moment::Verb verb = Moment::Verb::kSends;
  const void* who = nullptr;
  const void* peer = nullptr;
  std::string what;
  std::optional<uint64_t> op, epoch, chunk, step;
  std::shared_ptr<const wire::Message> order;  // of the coordinator
};

class Director {
 public:
  using Node = World::Node;
  Director(World& world, const Story& story) : world_(world), story_(story) {}

  // The whole run. Empty, or what went wrong: an invariant, or "story: line 7: ...".
  std::string Play();

  // What the world tells.
  void Placed(Node& node);
  void SawMessage(Moment::Verb verb, const Node* who, const Node* peer,
                  const wire::Message& message,
                  std::shared_ptr<const wire::Message> order = nullptr);
  void SawFrame(Moment::Verb verb, const Node& who, const Node& peer,
                const wire::FrameHeader& header);
  void Saw(Moment::Verb verb, const Node& who, std::optional<uint64_t> number = {});
  void SawStages(const Node& node);
  void SawOutcome(const Node& node, const collective::Outcome& outcome);
  void SawNote(const std::string& text) { notes_.push_back(text); }

  // Of a scene that may come at any moment: its deeds, each at the member that it changes.
  struct Blow {
    const Node* on;
    Action strike;
  };
  std::vector<Blow> BlowsOf(size_t scene);

  // What the world asks.
  TimeNs WireTime(uint64_t from, uint64_t to) const;
  TimeNs work_time() const { return story_.weather.work_delay_max_us * kMicrosecond; }
  TimeNs pause() const { return story_.pause; }
  TimeNs notice() const { return story_.notice; }
  TimeNs late_timeout() const { return story_.late_timeout; }
  bool MayCall(const Node& node, Seq seq) const;
  bool Blocked(const Node* from, const Node* to) const {
    return !blocked_.empty() && blocked_.contains({from, to});
  }
  collective::OpSpec SpecOf(const Node& node, Seq seq) const;
  std::string Readable(std::string line) const;

 private:
  struct Progress {  // of a scene
    bool fired = false;
    int seen = 0;
  };

  void See(Happening happening);
  bool Matches(const Moment& moment, const Happening& happening) const;
  bool Is(const std::string& name, const void* node) const;
  void Fire(size_t scene, const Happening& happening);

  // deeds.cc
  void Do(const Deed& deed, const Happening& happening);
  void Kill(Node& node, const Deed& deed);
  void Stop(Node& node);
  void Cut(Node& a, Node& b, bool one_way);
  void CutHere(Node& self, Node& peer);
  void CutOff(const Deed& deed);
  void Part(const Deed& deed);
  void Flap(Node& a, Node& b, TimeNs duration);
  void Hiccup(Node& node, TimeNs duration);
  void Restart(TimeNs duration);
  void Slow(const Deed& deed);
  void Repeat(const Deed& deed, const Happening& happening);
  std::vector<Node*> NodesOf(const std::string& name) const;

  // expect.cc
  std::string Judge();
  std::string JudgeOne(const Expectation& expectation) const;
  std::string JudgeOp(const Expectation& expectation, int shard) const;
  std::string JudgeEnds() const;
  std::string JudgeView(const std::vector<std::string>& names) const;
  bool MayWait(const Node& node) const;
  bool IsLeft(const std::string& name) const;
  bool Said(const std::string& text) const;
  bool Done() const;
  bool AllFired() const;
  std::string NameOf(const Node* node) const;
  std::string NamesOf(const std::vector<collective::Participant>& members, bool weightless) const;

  World& world_;
  const Story& story_;
  std::string arriving_;  // the name of who is being placed
  std::map<const void*, std::string> names_;
  std::vector<Progress> progress_;  // by scene
  std::vector<int> never_, seen_;   // by expectation: how often
  std::map<std::pair<const void*, const void*>, TimeNs> slow_;
  std::set<std::pair<const void*, const void*>> blocked_;  // words between a member and coordinator
  std::set<std::string> free_;                             // from their gates
  std::set<std::pair<const void*, Seq>> completed_;
  int deeds_ahead_ = 0;
  // Heard: by column and operation.
  std::map<std::pair<int, Seq>, std::map<std::string, collective::Outcome>> outcomes_;
  std::map<std::pair<int, Seq>, std::map<Epoch, wire::VerdictKind>> verdicts_;
  std::vector<std::string> notes_;
};

}  // namespace ftar::sim

#endif  // FTAR_TESTS_SIM_STORY_DIRECTOR_H_
