// Stories as files.
#ifndef FTAR_TESTS_SIM_STORY_STORIES_H_
#define FTAR_TESTS_SIM_STORY_STORIES_H_

#include <string>
#include <vector>

#include "story/story.h"

namespace ftar::sim {

// The .story files of a directory, by name; or the file itself.
std::vector<std::string> StoryFiles(const std::string& path);
std::string StoryName(const std::string& file);
// An error text if it cannot be read.
std::string ReadStory(const std::string& file, Story* story);
// Empty if it came as told.
std::string PlayStory(const Story& story, bool trace);

// Plays all of them and prints a line for each; with `trace` the whole transcript. 0 if all came
// as told, else 1; 2 if one cannot be read.
int PlayStories(const std::string& path, bool trace);

}  // namespace ftar::sim

#endif  // FTAR_TESTS_SIM_STORY_STORIES_H_
