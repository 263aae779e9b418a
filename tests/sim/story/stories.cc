#include "story/stories.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "world.h"

namespace ftar::sim {

std::vector<std::string> StoryFiles(const std::string& path) {
  if (!std::filesystem::is_directory(path)) return {path};
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    if (entry.path().extension() == ".story") files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string StoryName(const std::string& file) {
  return std::filesystem::path(file).stem().string();
}

std::string ReadStory(const std::string& file, Story* story) {
  std::ifstream in(file);
  if (!in) return file + ": cannot be opened";
  std::ostringstream text;
  text << in.rdbuf();
  const std::string wrong = ParseStory(text.str(), story);
  return wrong.empty() ? "" : file + ": " + wrong;
}

std::string PlayStory(const Story& story, bool trace) {
  World world(/*seed=*/1, story.weather, trace, &story);
  return world.Run();
}

int PlayStories(const std::string& path, bool trace) {
  int failed = 0;
  size_t played = 0;
  for (const std::string& file : StoryFiles(path)) {
    Story story;
    if (const std::string wrong = ReadStory(file, &story); !wrong.empty()) {
      std::fprintf(stderr, "ftar-sim: %s\n", wrong.c_str());
      return 2;
    }
    const std::string name = StoryName(file);
    if (trace) std::printf("%s (%s): %s\n", name.c_str(), story.rule.c_str(), story.title.c_str());
    const std::string failure = PlayStory(story, trace);
    ++played;
    failed += failure.empty() ? 0 : 1;
    const char* ends = !failure.empty()       ? "FAILED "
                       : !story.fails.empty() ? "fails, as is known: "
                                              : "as told";
    std::printf("%-28s %-8s %s%s\n", name.c_str(), story.rule.c_str(), ends,
                failure.empty() ? story.fails.c_str() : failure.c_str());
  }
  std::printf("%zu stories, %d failed\n", played, failed);
  return failed > 0 || played == 0 ? 1 : 0;
}

}  // namespace ftar::sim
