// ftar-trainer: data-parallel training of a character language model that survives the loss of
// replicas. Each replica holds the whole model, reads its own share of each step's text, and
// averages its gradient with the others'. The lines that end in "ftar" are all that this takes: no
// checkpoint, no retry, no case for a peer that dies.
//
// SIGTERM makes this replica leave as planned; SIGINT at any replica ends the training of all after
// the same step. Standard output is a log for programs, one JSON object a line.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ftar/ftar.hpp>  // ftar
#include <string>
#include <vector>

#include "model.h"
#include "text.h"

namespace trainer {
namespace {

constexpr size_t kRows = 64;  // windows of text that a replica reads in a step
constexpr int64_t kLeaveTimeoutNs = 30'000'000'000;
constexpr int kEvictedExit = 3, kModelLostExit = 4;  // all who had it have left

volatile std::sig_atomic_t leave_asked = 0, finish_asked = 0;

// Of the gradient, as libftar takes it: anything with data() and size(). C++20 has std::span.
struct Part {
  float* first;
  size_t count;
  float* data() const { return first; }
  size_t size() const { return count; }
};

// One write, so that the lines of two threads, or of a process that is killed, never mix.
void Log(const std::string& event, const std::string& fields) {
  const std::string line = "{\"event\":\"" + event + "\"" + fields + "}\n";
  if (write(STDOUT_FILENO, line.data(), line.size()) < 0) leave_asked = 1;  // nobody reads any more
}

std::string Field(const std::string& name, const std::string& text) {
  std::string field = ",\"" + name + "\":\"";
  for (char c : text) field += c == '"' || c == '\\' ? '\'' : c < ' ' || c > '~' ? ' ' : c;
  return field + '"';
}

std::string Field(const std::string& name, int64_t value) {
  return ",\"" + name + "\":" + std::to_string(value);
}

// Membership changes, for people to read: nothing in the training has to react to them.
void LogEvent(const ftarEvent& event) {  // ftar
  const ftarErrorInfo& who = event.who;  // ftar
  Log("notice", Field("type", event.type) + Field("epoch", std::to_string(event.epoch)) +
                    Field("time", event.time_ns) + Field("replica", who.replica) +
                    Field("stage", who.stage) + Field("text", who.text));
}

// Waits for the buckets of a step. The answer is for the log: who is in the sums, and per bucket
// how many, in how many attempts, and when.
std::string FinishAll(const std::vector<ftar::Op>& ops) {  // ftar
  std::string buckets, who;
  for (const ftar::Op& op : ops) {                        // ftar
    const ftar::Outcome outcome = op.Finish().OrThrow();  // ftar
    buckets += (buckets.empty() ? "[" : ",[") + std::to_string(outcome.participants) + "," +
               std::to_string(outcome.attempts) + "," + std::to_string(outcome.delivered_ns) + "]";
  }
  for (const ftarMemberInfo& member : ops.back().Participants()) {  // ftar
    if (member.weight > 0) who += (who.empty() ? "" : ",") + std::to_string(member.replica);
  }
  return ",\"buckets\":[" + buckets + "],\"who\":[" + who + "]";
}

// What the model has learned: how it goes on from a piece of the text.
std::string Sample(Model* model, const Text& text) {
  std::vector<int> window, next(1);
  text.Batch(8, 0, kWindow, &window, &next);
  std::string sample(window.begin(), window.end());
  while (sample.size() < 200) {
    window.push_back(model->Predict(window, sample.size() * kVocabulary));
    window.erase(window.begin());
    sample += static_cast<char>(window.back());
  }
  return sample;
}

int Train(int64_t steps) {
  const Text text("/usr/share/common-licenses");
  Model model;
  std::vector<int> inputs, targets(kRows);

  ftar::JobConfig config;                                                    // ftar
  config.handler = LogEvent;                                                 // ftar
  ftar::Job job = ftar::Job::Join(std::move(config)).value();                // ftar
  ftar::Group group = job.OpenGroup().value();                               // ftar
  ftar::Buffer<float> gradient = job.Alloc<float>(kParameters + 2).value();  // ftar
  const ftar::View view = job.GetView().value();                             // ftar
  const int32_t replica = view.Member(view.Info().my_rank).replica;          // ftar
  Log("ready", Field("replica", replica) + Field("characters", text.size()));

  float* tail = gradient.data() + kParameters;  // the loss, and whether somebody wants to finish
  for (bool done = false; !done && !leave_asked;) {
    const ftarStepInfo step = ftar::Finish([&] { return job.BeginStep(); }).value();  // ftar
    const ftar::Status shared = group.ShareState(model.state(), step);                // ftar
    if (shared.code() == FTAR_ERR_ABSENT) return kModelLostExit;                      // ftar
    shared.OrThrow();                                                                 // ftar
    if (step.joined > 0) Log("state", Field("step", step.step) + Field("joined", step.joined));
    text.Batch(step.step, replica, kWindow, &inputs, &targets);
    std::vector<ftar::Op> ops;  // ftar
    auto average = [&](size_t first, size_t last) {
      ops.push_back(group.AllReduce(Part{&gradient[first], last - first}, FTAR_AVG));  // ftar
      Log("allreduce", Field("step", step.step) + Field("started", ops.size()));
    };
    tail[0] = model.Gradient(inputs, targets, gradient.data(), average);
    tail[1] = finish_asked || step.step + 1 >= steps ? 1.0f : 0.0f;
    average(kParameters, kParameters + 2);
    const std::string participants = FinishAll(ops);
    model.Update(gradient.data(), 0.001f);
    Log("step", Field("step", step.step) + Field("loss", std::to_string(tail[0])) +
                    Field("hash", std::to_string(model.Hash())) + participants);
    done = tail[1] > 0;
  }
  job.Leave(kLeaveTimeoutNs).OrThrow();  // ftar
  Log(leave_asked ? "left" : "finished", Field("text", Sample(&model, text)));
  return 0;
}

}  // namespace
}  // namespace trainer

// The one argument is the number of steps. FTAR_REPLICA, FTAR_REPLICAS and FTAR_COORDINATOR, or the
// variables of torchrun, Slurm, Open MPI or MPICH, say which replica this is and where to meet.
int main(int argc, char** argv) {
  char* end = nullptr;
  const int64_t steps = argc > 1 ? std::strtoll(argv[1], &end, 10) : 2000;
  if (argc > 2 || (argc > 1 && (steps < 1 || *end != 0))) {
    return std::fprintf(stderr, "usage: %s [STEPS]\n", argv[0]), 2;
  }
  std::signal(SIGTERM, [](int) { trainer::leave_asked = 1; });
  std::signal(SIGINT, [](int) { trainer::finish_asked = 1; });
  std::signal(SIGPIPE, SIG_IGN);
  try {
    return trainer::Train(steps);
  } catch (const ftar::Error& error) {  // ftar
    trainer::Log("out",
                 trainer::Field("code", error.code()) + trainer::Field("text", error.what()));
    return error.code() == FTAR_ERR_EVICTED ? trainer::kEvictedExit : 1;  // ftar
  }
}
