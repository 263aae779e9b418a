// The language of stories: a line is a setting, a scene ("when ...", "then ...") or an expectation.
#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "story/story.h"
#include "wire/codec.h"

namespace ftar::sim {
namespace {

struct Wrong : std::runtime_error {
  using std::runtime_error::runtime_error;
};

const std::set<std::string>& WireNames() {
  static const std::set<std::string> names = [] {
    std::set<std::string> out = {"ack", "raw", "partial", "final"};
    const auto add = [&out]<typename... T>(const std::variant<T...>*) {
      (out.insert(wire::MessageName(wire::Message(T{}))), ...);
    };
    add(static_cast<const wire::Message*>(nullptr));
    return out;
  }();
  return names;
}

class Words {
 public:
  explicit Words(const std::string& line) {
    std::string spaced;
    for (const char c : line) {
      if (c == '#') break;
      if (c == ',' || c == ':') {
        spaced += std::string(" ") + c + " ";
      } else {
        spaced += c;
      }
    }
    std::istringstream in(spaced);
    for (std::string word; in >> word;) words_.push_back(word);
  }
  bool done() const { return next_ == words_.size(); }
  std::string Peek() const { return done() ? "" : words_[next_]; }
  bool Take(const std::string& word) {
    if (Peek() != word) return false;
    ++next_;
    return true;
  }
  void Need(const std::string& word) {
    if (!Take(word)) throw Wrong("expected '" + word + "'" + Here());
  }
  std::string Word(const char* what) {
    if (done() || Peek() == "," || Peek() == ":") throw Wrong(std::string("expected ") + what);
    return words_[next_++];
  }
  uint64_t Number() {
    const std::string word = Word("a number");
    if (word.size() > 15 || !std::all_of(word.begin(), word.end(), ::isdigit))
      throw Wrong("'" + word + "' is not a number");
    return std::stoull(word);
  }
  TimeNs Time() {
    const auto number = static_cast<TimeNs>(Number());
    if (Take("us")) return number * kMicrosecond;
    Need("ms");
    return number * kMillisecond;
  }
  std::string Rest() {
    std::string out;
    while (!done()) out += (out.empty() ? "" : " ") + words_[next_++];
    return out;
  }
  std::string Here() const { return done() ? " at the end" : ", not '" + Peek() + "'"; }

 private:
  std::vector<std::string> words_;
  size_t next_ = 0;
};

template <typename T>
T OneOf(Words* words, const std::map<std::string, T>& table, const char* what) {
  const std::string word = words->Word(what);
  const auto found = table.find(word);
  if (found != table.end()) return found->second;
  std::string known;
  for (const auto& [name, value] : table) known += " " + name;
  throw Wrong("'" + word + "' is no " + what + "; there are" + known);
}

const std::map<std::string, plan::PlanKind>& Plans() {
  static const std::map<std::string, plan::PlanKind> plans = {{"auto", plan::PlanKind::kAuto},
                                                              {"oneshot", plan::PlanKind::kOneShot},
                                                              {"direct", plan::PlanKind::kDirect},
                                                              {"ring", plan::PlanKind::kRing}};
  return plans;
}

const std::map<std::string, plan::Kind>& Collectives() {
  static const std::map<std::string, plan::Kind> collectives = {
      {"allreduce", plan::Kind::kAllReduce},
      {"reduce_scatter", plan::Kind::kReduceScatter},
      {"all_gather", plan::Kind::kAllGather},
      {"broadcast", plan::Kind::kBroadcast},
      {"barrier", plan::Kind::kBarrier}};
  return collectives;
}

bool StrikesOneMember(Deed::Kind kind) {
  using Kind = Deed::Kind;
  return kind == Kind::kKill || kind == Kind::kEvict || kind == Kind::kCut ||
         kind == Kind::kLeave || kind == Kind::kAbort;
}

class Parser {
 public:
  explicit Parser(Story* story) : story_(story) {
    story_->weather = Weather{};
    story_->weather.delay_max_us = 100;
    story_->weather.resets = 0;
  }

  void Line(int number, const std::string& line) {
    line_ = number;
    Words words(line);
    if (words.done()) return Comment(line);
    if (words.Take("when")) {
      ReadScene(&words, /*then=*/false);
    } else if (words.Take("then")) {
      if (story_->scenes.empty()) throw Wrong("'then' without a 'when' above it");
      ReadScene(&words, /*then=*/true);
    } else if (words.Take("expect")) {
      ReadExpectation(&words);
    } else if (!ReadNumber(&words) && !ReadTime(&words) && !ReadOther(&words)) {
      throw Wrong("unknown word '" + words.Peek() + "'");
    }
    if (!words.done()) throw Wrong("too much: '" + words.Rest() + "'");
  }

  // What only the whole story shows.
  void Finish() {
    std::set<std::string> known = {kCoordinatorName, kAnybody};
    const auto add = [&](const std::string& name) {
      known.insert(name);
      for (int s = 0; story_->weather.shards > 1 && s < story_->weather.shards; ++s)
        known.insert(name + "." + std::to_string(s));
    };
    for (int r = 0; r < story_->weather.replicas; ++r) add(std::to_string(r));
    for (const std::string& name : newcomers_) add(name);
    for (const auto& [name, line] : used_) {
      line_ = line;
      if (!known.contains(name)) throw Wrong("nobody is called '" + name + "'");
    }
    line_ = 0;
    if (story_->title.empty() || story_->rule.empty())
      throw Wrong("begins without a comment '# RULES: what happens'");
    if (story_->expectations.empty() && story_->fails.empty())
      throw Wrong("expects nothing, so it cannot fail");
  }
  int line() const { return line_; }

 private:
  // The first comment: "# V3 V6: what happens".
  void Comment(const std::string& line) {
    const size_t colon = line.find(':');
    if (!story_->title.empty() || line.empty() || line[0] != '#') return;
    if (colon == std::string::npos) throw Wrong("the first comment is '# RULES: what happens'");
    story_->rule = line.substr(2, colon - 2);
    story_->title = line.substr(std::min(line.size(), colon + 2));
  }

  std::string Name(Words* words) {
    std::string name = words->Word("a name");
    used_.push_back({name, line_});
    return name;
  }
  std::vector<std::string> Names(Words* words) {
    std::vector<std::string> names;
    while (!words->done() && words->Peek() != "," && words->Peek() != "from")
      names.push_back(Name(words));
    return names;
  }

  bool ReadNumber(Words* words) {
    Weather& weather = story_->weather;
    const std::map<std::string, int*> numbers = {{"members", &weather.replicas},
                                                 {"shards", &weather.shards},
                                                 {"min_replicas", &weather.min_replicas},
                                                 {"relays", &weather.relays},
                                                 {"ops", &weather.ops},
                                                 {"window", &weather.window},
                                                 {"steps", &weather.ops_per_step}};
    const auto found = numbers.find(words->Peek());
    if (found == numbers.end()) return false;
    words->Take(found->first);
    if (found->first == "steps") words->Need("of");
    *found->second = static_cast<int>(words->Number());
    if (found->first == "steps") {
      weather.strict = words->Take("strict") ? 1 : 0;
      weather.eager = words->Take("eager") ? 1 : 0;
    }
    return true;
  }

  bool ReadTime(Words* words) {
    Weather& weather = story_->weather;
    const auto in_us = [words] { return static_cast<int>(words->Time() / kMicrosecond); };
    if (words->Take("wires")) return weather.delay_max_us = in_us(), true;
    if (words->Take("work")) return weather.work_delay_max_us = in_us(), true;
    if (words->Take("pause")) return story_->pause = words->Time(), true;
    if (words->Take("notice")) return story_->notice = words->Time(), true;
    if (words->Take("late_timeout")) return story_->late_timeout = words->Time(), true;
    return false;
  }

  bool ReadOther(Words* words) {
    if (words->Take("coordinator")) return words->Need("hosted"), story_->weather.hosted = 1, true;
    if (words->Take("count")) return story_->count = words->Number(), true;
    if (words->Take("plan")) return story_->plan = OneOf(words, Plans(), "plan"), true;
    if (words->Take("in_place")) return story_->weather.in_place = 1, true;
    if (words->Take("lends")) return story_->weather.lends = 1, true;
    if (words->Take("lanes")) return story_->weather.lanes = 1, true;
    if (words->Take("acks_pass")) return story_->weather.acks_pass = 1, true;
    if (words->Take("all_call")) return story_->all_call = true, true;
    if (words->Take("overtakings"))
      return story_->overtakings = static_cast<int>(words->Number()), true;
    if (words->Take("fails")) return story_->fails = words->Word("an invariant"), true;
    if (words->Take("op")) return ReadDetail(words), true;
    if (words->Take("hold")) {
      Gate gate{Name(words), 0};
      words->Need("before");
      words->Need("op");
      gate.op = words->Number();
      story_->gates.push_back(gate);
      return true;
    }
    return false;
  }

  // op 3 broadcast root 1 | op 3 count 5 by 1 | op 3 weight 0 by 2 | op 3 deadline 20 ms | ...
  void ReadDetail(Words* words) {
    using Kind = OpDetail::Kind;
    OpDetail detail;
    detail.op = words->Number();
    if (words->Take("count")) {
      detail.kind = Kind::kCount, detail.number = words->Number();
    } else if (words->Take("weight")) {
      detail.kind = Kind::kWeight, detail.number = words->Number();
    } else if (words->Take("deadline")) {
      detail.kind = Kind::kDeadline, detail.number = static_cast<uint64_t>(words->Time());
    } else if (words->Take("in_place")) {
      detail.kind = Kind::kInPlace;
    } else if (words->Take("plan")) {
      detail.kind = Kind::kPlan, detail.plan = OneOf(words, Plans(), "plan");
    } else {
      detail.collective = OneOf(words, Collectives(), "collective or detail");
      if (detail.collective == plan::Kind::kBroadcast) {
        words->Need("root");
        detail.root = Name(words);
      }
    }
    if (words->Take("by")) detail.by = Name(words);
    story_->details.push_back(std::move(detail));
  }

  void ReadScene(Words* words, bool then) {
    Scene scene;
    scene.line = line_;
    scene.then = then;
    scene.moment = ReadMoment(words);
    if (words->Take(",")) {
      scene.later = words->Time();
      words->Need("later");
    }
    words->Need(":");
    do {
      scene.deeds.push_back(ReadDeed(words));
      const Deed::Kind kind = scene.deeds.back().kind;
      if (kind == Deed::Kind::kRepeat &&
          (scene.moment.who != kCoordinatorName || scene.moment.verb != Moment::Verb::kSends))
        throw Wrong("only what the coordinator sends can be repeated");
      if (scene.moment.verb == Moment::Verb::kWhenever && !StrikesOneMember(kind))
        throw Wrong("that cannot come at any moment: it changes more than one member at once");
    } while (words->Take(","));
    story_->scenes.push_back(std::move(scene));
  }

  Moment ReadMoment(Words* words) {
    using Verb = Moment::Verb;
    static const std::map<std::string, Verb> kVerbs = {
        {"sends", Verb::kSends},       {"hears", Verb::kHears},
        {"calls", Verb::kCalls},       {"completes", Verb::kCompletes},
        {"delivers", Verb::kDelivers}, {"installs", Verb::kInstalls},
        {"begins", Verb::kBegins},     {"ends", Verb::kEnds}};
    Moment moment;
    if (words->Take("at")) {
      const bool whenever = words->Take("any");
      if (whenever) moment.verb = Verb::kWhenever;
      if (whenever) words->Need("moment");
      if (!whenever) moment.at = words->Time();
      return moment;
    }
    moment.who = Name(words);
    moment.verb = OneOf(words, kVerbs, "verb");
    if (moment.verb == Verb::kSends || moment.verb == Verb::kHears) {
      moment.what = words->Word("a message");
      if (!WireNames().contains(moment.what))
        throw Wrong("'" + moment.what + "' is neither a message nor a kind of frame");
    }
    while (ReadQualifier(words, &moment)) {
    }
    return moment;
  }

  bool ReadQualifier(Words* words, Moment* moment) {
    if (words->Take("to") || words->Take("from")) return moment->peer = Name(words), true;
    if (words->Take("op")) return moment->op = words->Number(), true;
    if (words->Take("epoch")) return moment->epoch = words->Number(), true;
    if (words->Take("chunk")) return moment->chunk = words->Number(), true;
    if (words->Take("step")) return moment->step = words->Number(), true;
    if (words->Take("nth")) return moment->nth = static_cast<int>(words->Number()), true;
    return false;
  }

  Deed ReadDeed(Words* words) {
    using Kind = Deed::Kind;
    static const std::map<std::string, Kind> kKinds = {
        {"nothing", Kind::kNothing},   {"kill", Kind::kKill},     {"stop", Kind::kStop},
        {"continue", Kind::kContinue}, {"cut", Kind::kCut},       {"part", Kind::kPart},
        {"mend", Kind::kMend},         {"flap", Kind::kFlap},     {"hiccup", Kind::kHiccup},
        {"slow", Kind::kSlow},         {"join", Kind::kJoin},     {"leave", Kind::kLeave},
        {"abort", Kind::kAbort},       {"evict", Kind::kEvict},   {"restart", Kind::kRestart},
        {"let", Kind::kLetGo},         {"repeat", Kind::kRepeat}, {"orphan", Kind::kOrphan}};
    Deed deed;
    deed.kind = OneOf(words, kKinds, "deed");
    switch (deed.kind) {
      case Kind::kNothing: break;
      case Kind::kRepeat: words->Need("after"), deed.time = words->Time(); break;
      case Kind::kPart:
        deed.side = Names(words);
        words->Need("from");
        deed.others = Names(words);
        break;
      case Kind::kJoin:
        deed.replica = static_cast<int>(words->Number());
        words->Need("as");
        deed.who = Name(words);
        newcomers_.push_back(deed.who);
        break;
      default: deed.who = Name(words); ReadObject(words, &deed);
    }
    return deed;
  }

  void ReadObject(Words* words, Deed* deed) {
    using Kind = Deed::Kind;
    switch (deed->kind) {
      case Kind::kKill:
        deed->unnoticed = words->Take("unnoticed");
        deed->proven = !deed->unnoticed && words->Take("proven");
        break;
      case Kind::kCut:
        deed->one_way = words->Take("to");
        deed->peer = Name(words);
        break;
      case Kind::kMend:
        deed->peer = Name(words);
        if (deed->peer != kCoordinatorName) throw Wrong("only a way to the coordinator is mended");
        break;
      case Kind::kFlap: deed->peer = Name(words); [[fallthrough]];
      case Kind::kHiccup: deed->time = words->Time(); break;
      case Kind::kSlow:
        words->Need("to");
        deed->peer = Name(words);
        deed->time = words->Time();
        break;
      case Kind::kEvict: words->Need("by"), deed->peer = Name(words); break;
      case Kind::kRestart:
        if (deed->who != kCoordinatorName) throw Wrong("only the coordinator is restarted");
        deed->time = words->Take("after") ? words->Time() : 5 * kMillisecond;
        break;
      case Kind::kLetGo: words->Need("go"); break;
      default: break;
    }
  }

  void ReadExpectation(Words* words) {
    using Kind = Expectation::Kind;
    Expectation out;
    out.line = line_;
    if (words->Take("all")) {
      words->Need("finish");
    } else if (words->Take("op")) {
      out.op = words->Number();
      ReadOpExpectation(words, &out);
    } else if (words->Take("view")) {
      out.kind = Kind::kView, out.names = Names(words);
    } else if (words->Take("epoch")) {
      out.kind = Kind::kEpoch, out.number = words->Number();
    } else if (words->Take("lost")) {
      out.kind = Kind::kLost, out.names = {Name(words)};
      words->Need("by");
      out.text = words->Rest();
    } else if (words->Take("note")) {
      out.kind = Kind::kNote, out.text = words->Rest();
    } else if (words->Take("unsaid")) {
      out.kind = Kind::kUnsaid, out.text = words->Rest();
    } else if (words->Peek() == "never" || words->Peek() == "seen") {
      out.kind = words->Take("never") ? Kind::kNever : Kind::kSeen;
      words->Take("seen");
      out.moment = ReadMoment(words);
    } else {
      out.names = {Name(words)};
      out.text = words->Word("how it ends");
      static const std::set<std::string> kEnds = {"evicted",  "left",   "aborted",
                                                  "rejected", "anyhow", "waits"};
      if (!kEnds.contains(out.text)) throw Wrong("nobody ends as '" + out.text + "'");
      out.kind = out.text == "waits" ? Kind::kWaits : Kind::kEnd;
    }
    story_->expectations.push_back(std::move(out));
  }

  void ReadOpExpectation(Words* words, Expectation* out) {
    using Kind = Expectation::Kind;
    static const std::map<std::string, Kind> kKinds = {
        {"participants", Kind::kParticipants}, {"members", Kind::kMembers},
        {"verdict", Kind::kVerdicts},          {"attempts", Kind::kAttempts},
        {"delivered", Kind::kDeliveredBy},     {"ok", Kind::kStatus},
        {"mismatch", Kind::kStatus},           {"absent", Kind::kStatus}};
    out->text = words->Peek();
    out->kind = OneOf(words, kKinds, "expectation of an op");
    if (out->kind == Kind::kStatus) return;
    if (out->kind == Kind::kAttempts) {
      out->number = words->Number();
    } else if (out->kind == Kind::kVerdicts) {
      out->text = words->Rest();
      std::istringstream in(out->text);
      for (std::string word; in >> word;) {
        if (word != "commit" && word != "salvage" && word != "retry" && word != "fail")
          throw Wrong("there is no verdict '" + word + "'");
      }
    } else {
      if (out->kind == Kind::kDeliveredBy) words->Need("by");
      out->names = Names(words);
    }
  }

  Story* story_;
  int line_ = 0;
  std::vector<std::string> newcomers_;
  std::vector<std::pair<std::string, int>> used_;  // names, and where
};

}  // namespace

std::string ParseStory(const std::string& text, Story* story) {
  *story = Story{};
  Parser parser(story);
  try {
    std::istringstream in(text);
    int number = 0;
    for (std::string line; std::getline(in, line);) parser.Line(++number, line);
    parser.Finish();
  } catch (const Wrong& wrong) {
    const std::string at = parser.line() > 0 ? "line " + std::to_string(parser.line()) + ": " : "";
    return at + wrong.what();
  }
  return "";
}

}  // namespace ftar::sim
