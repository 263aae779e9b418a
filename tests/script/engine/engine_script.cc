// Runs transcripts over the lab: `engine_script [--rewrite] FILE...`. A transcript is a list of
// blocks: a command line, a line
// `----`, and everything the members do and say because of it. Re-record with --rewrite and read
// the diff: it is the review.
//
// clang-format off
//   members N [oneshot|direct|ring] [inplace] [lanes] [lends] [ft=off] [window=W] [cores=C]
//                       a formed column of N, with cores=C on one host of C, nothing on the wires
//   call M...           these members call the next operation
//   fast M...           the same by the fast path, where there is one
//   differ M            this one calls it with one element more
//   deliver A B [N]     messages from A to B
//   deliver all         everything, until nothing moves
//   drop A B            loses what is on the wire from A to B
//   still M | on M      this one does nothing and hears nothing, until it goes on
//   evicted M           this one is told that it is out, and its memory is its user's
//   kill M... | prepare M... | install [M...] | recover M...
// clang-format on
#include <cstdio>
#include <fstream>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "lab.h"

namespace {

using ftar::lab::Lab;
using ftar::lab::LabOptions;

std::vector<int> Numbers(std::istringstream& words) {
  std::vector<int> numbers;
  for (int n; words >> n;) numbers.push_back(n);
  return numbers;
}

LabOptions ParseMembers(std::istringstream& words) {
  LabOptions options;
  options.count = 8;
  words >> options.members;
  for (std::string word; words >> word;) {
    if (word == "oneshot") options.plan = ftar::plan::PlanKind::kOneShot;
    if (word == "ring") options.plan = ftar::plan::PlanKind::kRing;
    if (word == "inplace") options.in_place = true;
    if (word == "lanes") options.lanes = true;
    if (word == "allsum") options.all_sum = options.members;
    if (word == "lends") options.lends = true;
    if (word == "ft=off") options.fault_tolerant = false;
    if (word.rfind("cores=", 0) == 0) options.cores = std::stoi(word.substr(6));
    if (word.rfind("window=", 0) == 0) options.window = std::stoul(word.substr(7));
  }
  return options;
}

void DeliverCommand(Lab& lab, std::istringstream& words) {
  std::string first;
  words >> first;
  if (first == "all") return lab.DeliverAll();
  int to = 0, count = 1;
  words >> to >> count;
  for (int i = 0; i < count; ++i) lab.Deliver(std::stoi(first), to);
}

std::string RunCommand(std::unique_ptr<Lab>& lab, const std::string& line) {
  std::istringstream words(line);
  std::string verb;
  words >> verb;
  if (verb == "members") {
    lab = std::make_unique<Lab>(ParseMembers(words));
    lab->Form();
    return "";
  }
  if (!lab) return "no members yet\n";
  if (verb == "deliver") DeliverCommand(*lab, words);
  const std::vector<int> numbers = Numbers(words);
  if (verb == "call") {
    for (int member : numbers) lab->Call(member);
  } else if (verb == "fast") {
    for (int member : numbers) lab->CallFast(member);
  } else if (verb == "still") {
    lab->StandStill(numbers.at(0));
  } else if (verb == "on") {
    lab->GoOn(numbers.at(0));
  } else if (verb == "evicted") {
    lab->TellEvicted(numbers.at(0));
  } else if (verb == "differ") {
    ftar::collective::OpSpec spec = lab->DefaultSpec();
    ++spec.count;
    for (int member : numbers) lab->Call(member, &spec);
  } else if (verb == "drop") {
    while (lab->Drop(numbers.at(0), numbers.at(1))) {
    }
  } else if (verb == "kill") {
    for (int member : numbers) lab->Kill(member);
  } else if (verb == "prepare") {
    lab->Prepare(numbers);
  } else if (verb == "recover") {
    lab->Recover(numbers);
  } else if (verb == "install" && numbers.empty()) {
    if (!lab->Install()) return "not decided\n";
  } else if (verb == "install") {
    for (int member : numbers) lab->InstallAt(member);
  } else if (verb != "deliver") {
    return "unknown command\n";
  }
  std::string out;
  for (const std::string& entry : lab->TakeLog()) out += entry + "\n";
  if (!lab->failure().empty()) out += "VIOLATION " + lab->failure() + "\n";
  return out;
}

// Returns what the file ought to say.
std::string Play(std::istream& file) {
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  std::unique_ptr<Lab> lab;
  std::string out;
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::string& line = lines[i];
    if (line.empty() || line[0] == '#') {
      out += line + "\n";
      continue;
    }
    out += line + "\n----\n" + RunCommand(lab, line) + "\n";
    if (i + 1 >= lines.size() || lines[i + 1] != "----") continue;
    for (++i; i < lines.size() && !lines[i].empty(); ++i) {
    }
  }
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  const bool rewrite = argc > 1 && std::string(argv[1]) == "--rewrite";
  int failed = 0, passed = 0;
  for (int i = rewrite ? 2 : 1; i < argc; ++i) {
    std::ifstream file(argv[i]);
    std::stringstream content;
    content << file.rdbuf();
    std::istringstream script(content.str());
    const std::string played = Play(script);
    if (rewrite) {
      std::ofstream(argv[i]) << played;
      continue;
    }
    const bool same =
        played == content.str() && !played.empty() && played.find("VIOLATION") == std::string::npos;
    ++(same ? passed : failed);
    if (!same) std::cout << "differs: " << argv[i] << "\n--- now it says\n" << played << "\n";
  }
  std::cout << passed << " passed, " << failed << " failed\n";
  return failed > 0 || (!rewrite && passed == 0) ? 1 : 0;
}
