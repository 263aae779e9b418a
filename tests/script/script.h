// Transcript tests: a text file of commands and the output that they must give.
//
//   # a comment
//   advance 1s
//   kill r2
//   ----
//   what the commands above print
//
// Blocks end at a blank line. `script_test --rewrite` records the output anew; reading the
// difference is then the review. A folder of transcripts has one environment, which understands its
// commands (see script_test.cc). Single-threaded.
#ifndef FTAR_TESTS_SCRIPT_SCRIPT_H_
#define FTAR_TESTS_SCRIPT_SCRIPT_H_

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace ftar::script {

struct Command {
  std::string name;
  std::vector<std::string> args;               // words without '='
  std::map<std::string, std::string> options;  // key=value
  bool Has(const std::string& word) const;
  std::string Option(const std::string& key, const std::string& otherwise) const;
  uint64_t Number(const std::string& key, uint64_t otherwise) const;
};

class Environment {
 public:
  virtual ~Environment() = default;
  // Carries out one command and returns what it prints, lines ending in '\n'. An unknown command
  // says so in its output.
  virtual std::string Run(const Command& command) = 0;
};

struct Block {
  std::string text;  // comments, commands and blank lines as written, up to the separator
  std::vector<Command> commands;
  std::string expected;
  int line = 0;  // of the first command
};

std::vector<Block> Parse(const std::string& file_text);
std::string Format(const std::vector<Block>& blocks);
Command ParseCommand(const std::string& line);

// Runs all blocks in one environment; actual output by block.
std::vector<std::string> RunBlocks(const std::vector<Block>& blocks, Environment& environment);

}  // namespace ftar::script

#endif  // FTAR_TESTS_SCRIPT_SCRIPT_H_
