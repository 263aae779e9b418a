// One member of a chaos run: joins, runs operations whose results it knows, writes down how each
// ended, and joins again as a new incarnation when it was evicted. Written against ftar.hpp alone.
//
//   member record=FILE page=FILE dump=FILE [steps=0|1] [window=N] [small=N] [large=N] [pause_us=N]
//
// The page (record.h) asks it to leave at a step, or without steps at a seq. SIGUSR2: dump the
// flight recorder.
// The record, a line each, fields by tabs, times CLOCK_MONOTONIC:
//   J time id replica shard epoch members      in a view
//   S time group seq n                         about to start so many operations
//   O time group seq status epoch weight_sum digest wrong attempts start delivered id:weight,...
//   E time type cause epoch replica shard id stage text      an event
//   W element and what is wrong with it        after such an outcome
//   F time call status text                    a call that did not succeed
//   X time why                                 the end of this incarnation
#include <malloc.h>
#include <pthread.h>
#include <signal.h>

#include <cinttypes>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <ftar/ftar.hpp>
#include <map>
#include <new>
#include <thread>

#include "tests/chaos/heap.h"
#include "tests/chaos/record.h"

namespace chaos {
namespace {

std::atomic<ftarJob_t> current{nullptr};

using Options = std::map<std::string, std::string>;

int64_t Number(const Options& options, const char* name, int64_t otherwise) {
  const auto found = options.find(name);
  return found == options.end() ? otherwise : strtoll(found->second.c_str(), nullptr, 10);
}

// What a member puts in. Small whole numbers, so that sums are exact in any order.
int32_t Input(int32_t replica, int32_t shard, uint64_t seq, size_t i) {
  return (replica + 1) * 7 + shard * 3 + static_cast<int32_t>(seq % 11) +
         static_cast<int32_t>(i % 5);
}

// What operation `seq` of a group is, the same on all members.
enum class Shape { kSum, kAverage, kMax, kInPlace, kWeighted, kSomeAbsent };
Shape ShapeOf(uint64_t seq) { return static_cast<Shape>(seq % 6); }

double WeightOf(int32_t replica, uint64_t seq) {
  switch (ShapeOf(seq)) {
    case Shape::kWeighted: return 1 + replica % 3;
    case Shape::kSomeAbsent: return static_cast<uint64_t>(replica) == seq / 6 % 8 ? 0 : 1;
    default: return 1;
  }
}

class Operation {
 public:
  Operation(int32_t replica, int32_t shard, size_t count)
      : replica_(replica), shard_(shard), send_(count), recv_(count) {}

  void Start(const ftar::Group& group, uint64_t seq) {
    seq_ = seq;
    const bool in_place = ShapeOf(seq) == Shape::kInPlace;
    for (size_t i = 0; i < send_.size(); ++i) send_[i] = Word(Input(replica_, shard_, seq, i));
    std::fill(recv_.begin(), recv_.end(), 0xdeadbeefu);
    ftar::OpDesc desc;
    desc.dtype = ShapeOf(seq) == Shape::kMax ? FTAR_I32 : FTAR_F32;
    desc.redop = Operator();
    desc.count = send_.size();
    desc.send = send_.data();
    desc.recv = in_place ? send_.data() : recv_.data();
    desc.weight = WeightOf(replica_, seq);
    op_ = group.Start(desc);
  }

  ftar::Outcome Wait() const {
    ftar::Outcome outcome = op_.Wait();
    while (!outcome.final()) outcome = op_.Wait();
    return outcome;
  }

  std::string Describe(char group, const ftar::Outcome& outcome) {
    const std::vector<ftarMemberInfo> members =
        outcome.ok() ? op_.Participants() : std::vector<ftarMemberInfo>();
    std::string names;
    for (const ftarMemberInfo& member : members) {
      char one[64];
      snprintf(one, sizeof one, "%s%s:%g", names.empty() ? "" : ",", Name(member.id).c_str(),
               member.weight);
      names += one;
    }
    char line[320];
    snprintf(line, sizeof line,
             "O\t%" PRId64 "\t%c%d\t%" PRIu64 "\t%s\t%" PRIx64 "\t%g\t%016" PRIx64
             "\t%zu\t%d\t%" PRId64 "\t%" PRId64 "\t",
             NowNs(), group, shard_, seq_, ftarResultString(outcome.status), outcome.epoch,
             outcome.weight_sum, outcome.ok() ? Digest() : 0, Wrong(outcome.ok(), members),
             outcome.attempts, outcome.start_ns, outcome.delivered_ns);
    const std::string wrong = std::exchange(wrong_, "");
    return line + names + (wrong.empty() ? "" : "\n") + wrong;
  }

 private:
  uint32_t Word(int32_t value) const {
    uint32_t word = 0;
    const auto real = static_cast<float>(value);
    memcpy(&word, ShapeOf(seq_) == Shape::kMax ? static_cast<const void*>(&value) : &real, 4);
    return word;
  }
  double Value(uint32_t word) const {
    float real = 0;
    int32_t whole = 0;
    memcpy(&real, &word, 4);
    memcpy(&whole, &word, 4);
    return ShapeOf(seq_) == Shape::kMax ? whole : static_cast<double>(real);
  }
  ftarRedop_t Operator() const {
    switch (ShapeOf(seq_)) {
      case Shape::kAverage: return FTAR_AVG;
      case Shape::kMax: return FTAR_MAX;
      case Shape::kWeighted: return FTAR_WAVG;
      default: return FTAR_SUM;
    }
  }
  const std::vector<uint32_t>& Result() const {
    return ShapeOf(seq_) == Shape::kInPlace ? send_ : recv_;
  }
  uint64_t Digest() const {
    uint64_t hash = 1469598103934665603ull;
    for (const uint32_t word : Result()) hash = (hash ^ word) * 1099511628211ull;
    return hash;
  }
  double Expected(const std::vector<ftarMemberInfo>& members, size_t i) const {
    double sum = 0, weights = 0, most = -1;
    for (const ftarMemberInfo& member : members) {
      const double weight = WeightOf(member.replica, seq_);
      if (weight == 0 || member.weight == 0) continue;  // 0: one that was leaving counts no more
      const double value = Input(member.replica, shard_, seq_, i);
      sum += ShapeOf(seq_) == Shape::kWeighted ? weight * value : value;
      weights += weight;
      most = std::max(most, value);
    }
    switch (ShapeOf(seq_)) {
      case Shape::kAverage:
      case Shape::kWeighted: return sum / weights;
      case Shape::kMax: return most;
      default: return sum;
    }
  }
  // Elements of the result that are not what the participants make, and of the input that changed.
  size_t Wrong(bool ok, const std::vector<ftarMemberInfo>& members) {
    const bool in_place = ShapeOf(seq_) == Shape::kInPlace;
    double expected[5] = {};
    for (size_t i = 0; ok && i < 5; ++i) expected[i] = Expected(members, i);
    size_t wrong = 0;
    for (size_t i = 0; i < send_.size(); ++i) {
      const size_t before = wrong;
      if (ok) {
        const double far = std::fabs(Value(Result()[i]) - expected[i % 5]);
        wrong += far <= 1e-6 * expected[i % 5] ? 0 : 1;
      }
      if (!ok || !in_place) wrong += send_[i] == Word(Input(replica_, shard_, seq_, i)) ? 0 : 1;
      if (wrong > before && before == 0) wrong_ = Explain(i, ok ? expected[i % 5] : -1);
    }
    return wrong;
  }
  std::string Explain(size_t i, double expected) const {
    char text[160];
    snprintf(text, sizeof text, "W\t%zu\tinput %d\tsend %g\trecv %g\texpected %g", i,
             Input(replica_, shard_, seq_, i), Value(send_[i]), Value(recv_[i]), expected);
    return text;
  }

  int32_t replica_, shard_;
  std::vector<uint32_t> send_, recv_;
  uint64_t seq_ = 0;
  std::string wrong_;  // the first wrong element in words
  ftar::Op op_{nullptr};
};

// One group and the operations of a batch of it.
struct Lane {
  char name;
  ftar::Group group;
  std::deque<Operation> slots;
};

class Life {
 public:
  Life(const Options& options, Record* record, Page* page)
      : options_(options), record_(record), page_(page) {}

  // Until it is out, or has been told to leave.
  void Run(ftar::Job& job) {
    auto view = job.GetView();
    if (!view.ok()) return record_->Failure("view", view.code(), view.Text());
    const ftarViewInfo info = view->Info();
    const ftarMemberInfo self = view->Member(info.my_rank);
    record_->Line("J\t" + std::to_string(NowNs()) + "\t" + Name(info.my_id) + "\t" +
                  std::to_string(self.replica) + "\t" + std::to_string(self.shard) + "\t" +
                  Hex(info.epoch) + "\t" + std::to_string(info.members));
    page_->progress_ns = NowNs();
    page_->state = kIn;
    ++page_->incarnations;
    const bool steps = Number(options_, "steps", 1) != 0;
    std::deque<Lane> lanes;
    if (!Open(job, "a", self, Number(options_, "window", 4), "small", &lanes)) return;
    // Without step marks a newcomer may enter the groups far apart, and then waiting for both in
    // one thread is a deadlock of the program's own.
    if (steps && !Open(job, "b", self, 1, "large", &lanes)) return;
    for (;;) {
      FetchEvents(job);
      if (!steps) page_->step = static_cast<int64_t>(lanes[0].group.Info().next_seq);
      if (steps && !Step(job)) return;
      if (page_->leave_at > 0 && page_->step >= page_->leave_at) break;
      if (!Batch(&lanes)) return;
      if (const int64_t pause = Number(options_, "pause_us", 0); pause > 0)
        std::this_thread::sleep_for(std::chrono::microseconds(pause));
    }
    page_->state = kLeaving;
    const ftar::Status left = job.Leave(5'000'000'000);
    if (!left.ok()) record_->Failure("leave", left.code(), left.Text());
  }

 private:
  // The handler has written them down; what nobody fetches is kept for long.
  static void FetchEvents(const ftar::Job& job) {
    ftarEvent event{};
    event.size = sizeof event;
    while (ftarJobNextEvent(job.get(), &event, 0) == FTAR_OK) {
    }
  }
  static std::string Hex(uint64_t number) {
    char text[20];
    snprintf(text, sizeof text, "%" PRIx64, number);
    return text;
  }

  bool Open(const ftar::Job& job, const char* name, const ftarMemberInfo& self, int64_t slots,
            const char* count, std::deque<Lane>* lanes) {
    auto group = job.OpenGroup(name);
    if (!group.ok()) return record_->Failure("group", group.code(), group.Text()), false;
    lanes->push_back({name[0], std::move(group).value(), {}});
    const auto elements = static_cast<size_t>(Number(options_, count, 1000));
    for (int64_t i = 0; i < slots; ++i)
      lanes->back().slots.emplace_back(self.replica, self.shard, elements);
    return true;
  }

  bool Step(const ftar::Job& job) {
    auto step = ftar::Finish([&] { return job.BeginStep(); });
    if (!step.ok()) return record_->Failure("step", step.code(), step.Text()), false;
    page_->step = step->step;
    return true;
  }

  bool Batch(std::deque<Lane>* lanes) {
    for (Lane& lane : *lanes) {
      ftarGroupInfo info = FTAR_GROUP_INFO_INIT;
      const ftarResult_t known = ftarGroupGetInfo(lane.group.get(), &info);
      if (known != FTAR_OK) return record_->Failure("info", known, ftarResultString(known)), false;
      uint64_t seq = info.next_seq;
      record_->Line("S\t" + std::to_string(NowNs()) + "\t" + lane.name +
                    std::to_string(info.shard) + "\t" + std::to_string(seq) + "\t" +
                    std::to_string(lane.slots.size()));
      for (Operation& slot : lane.slots) slot.Start(lane.group, seq++);
    }
    std::string lines;
    bool in = true;
    for (Lane& lane : *lanes) {
      for (Operation& slot : lane.slots) {
        const ftar::Outcome outcome = slot.Wait();
        lines += (lines.empty() ? "" : "\n") + slot.Describe(lane.name, outcome);
        page_->progress_ns = NowNs();
        in = in && (outcome.ok() || outcome.status == FTAR_ERR_ABSENT);
        if (!outcome.ok()) lines += "\nF\t" + std::to_string(NowNs()) + "\top\t" + outcome.Text();
      }
    }
    record_->Line(lines);
    return in;
  }

  const Options& options_;
  Record* record_;
  Page* page_;
};

void OneLife(const Options& options, Record* record, Page* page) {
  ftar::JobConfig config;
  config.handler = [record](const ftarEvent& event) { record->Event(event); };
  page->state = kJoining;
  auto joined = ftar::Job::Join(std::move(config));
  if (!joined.ok()) {
    record->Failure("join", joined.code(), joined.Text());
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return;
  }
  current = joined->get();
  Life(options, record, page).Run(*joined);
  current = nullptr;
  page->leave_at = 0;
  page->state = kOut;
}

// Without what is kept for reuse: how much that is depends on the last half minute.
int64_t BytesHeld(ftarJob_t job) {
  uint64_t kept = 0;
  if (job != nullptr) ftarJobGetCounter(job, "bytes_kept", &kept);
  return HeapBytes() - static_cast<int64_t>(kept);
}

// Signals come to this thread alone. Between them it has malloc give back what is free: a process
// that looks after its memory for long is as large as what it needs, not as what it once needed.
void Listen(const sigset_t& signals, const std::string& dump, Page* page) {
  const timespec pause{1, 0};
  for (;;) {
    const bool asked = sigtimedwait(&signals, nullptr, &pause) > 0;
    const ftarJob_t job = current;
    if (asked && job != nullptr) ftarJobDump(job, dump.c_str());
    if (asked) continue;
    malloc_trim(0);
    page->heap_bytes = BytesHeld(job);
  }
}

int Main(const Options& options, const sigset_t& signals) {
  Record record;
  Page* page = MapPage(options.at("page"));
  if (page == nullptr || !record.Open(options.at("record"))) return 2;
  std::thread([=] { Listen(signals, options.at("dump"), page); }).detach();
  while (page->end == 0) {
    try {
      OneLife(options, &record, page);
    } catch (const std::bad_alloc&) {  // this program's own: the run takes its memory away
      current = nullptr;
      record.Line("F\t0\tmember\tbad_alloc\t");
    }
    record.Line("X\t" + std::to_string(NowNs()) + "\tout");
  }
  return 0;
}

}  // namespace
}  // namespace chaos

int main(int argc, char** argv) {
  chaos::Options options;
  for (int i = 1; i < argc; ++i) {
    const char* equals = strchr(argv[i], '=');
    if (equals != nullptr)
      options[std::string(argv[i], static_cast<size_t>(equals - argv[i]))] = equals + 1;
  }
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGUSR2);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return chaos::Main(options, signals);
}
