#include "tests/script/script.h"

#include <algorithm>
#include <sstream>

namespace ftar::script {
namespace {

constexpr char kSeparator[] = "----";

bool IsComment(const std::string& line) { return line.empty() || line[0] == '#'; }

// Words, where "quoted text" is one.
std::vector<std::string> Words(const std::string& line) {
  std::vector<std::string> words;
  std::string word;
  bool quoted = false, started = false;
  for (const char c : line) {
    if (c == '"') {
      quoted = !quoted;
      started = true;
    } else if (c == ' ' && !quoted) {
      if (started) words.push_back(word);
      word.clear();
      started = false;
    } else {
      word += c;
      started = true;
    }
  }
  if (started) words.push_back(word);
  return words;
}

}  // namespace

bool Command::Has(const std::string& word) const {
  return std::find(args.begin(), args.end(), word) != args.end();
}

std::string Command::Option(const std::string& key, const std::string& otherwise) const {
  const auto found = options.find(key);
  return found == options.end() ? otherwise : found->second;
}

uint64_t Command::Number(const std::string& key, uint64_t otherwise) const {
  const auto found = options.find(key);
  return found == options.end() ? otherwise : std::stoull(found->second);
}

Command ParseCommand(const std::string& line) {
  Command command;
  for (const std::string& word : Words(line)) {
    const size_t at = word.find('=');
    if (command.name.empty()) {
      command.name = word;
    } else if (at != std::string::npos) {
      command.options[word.substr(0, at)] = word.substr(at + 1);
    } else {
      command.args.push_back(word);
    }
  }
  return command;
}

std::vector<Block> Parse(const std::string& file_text) {
  std::vector<Block> blocks;
  Block block;
  bool in_output = false;
  int number = 0;
  std::istringstream in(file_text);
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (in_output) {
      if (line.empty()) {
        blocks.push_back(std::move(block));
        block = {};
        in_output = false;
      } else {
        block.expected += line + "\n";
      }
    } else if (line == kSeparator) {
      in_output = true;
    } else {
      block.text += line + "\n";
      if (IsComment(line)) continue;
      if (block.commands.empty()) block.line = number;
      block.commands.push_back(ParseCommand(line));
    }
  }
  if (in_output || !block.text.empty()) blocks.push_back(std::move(block));
  return blocks;
}

std::string Format(const std::vector<Block>& blocks) {
  std::string out;
  for (const Block& block : blocks) {
    if (!out.empty()) out += "\n";
    out += block.text;
    if (!block.commands.empty()) out += std::string(kSeparator) + "\n" + block.expected;
  }
  return out;
}

std::vector<std::string> RunBlocks(const std::vector<Block>& blocks, Environment& environment) {
  std::vector<std::string> outputs;
  for (const Block& block : blocks) {
    std::string output;
    for (const Command& command : block.commands) output += environment.Run(command);
    if (output.empty() && !block.commands.empty()) output = "ok\n";
    outputs.push_back(std::move(output));
  }
  return outputs;
}

}  // namespace ftar::script
