#include "perf/output.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "perf/progress.h"

namespace ftar::perf {
namespace {

using nlohmann::json;

std::string ContentOf(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Output, NewFilesNeverReplaceOldOnes) {
  const auto folder =
      std::filesystem::temp_directory_path() / ("output_test" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  EXPECT_EQ(WriteNew(folder / "a", "one"), folder / "a");
  EXPECT_EQ(WriteNew(folder / "a", "two"), (folder / "a").string() + ".1");
  EXPECT_EQ(ContentOf(folder / "a"), "one");
  EXPECT_TRUE(WriteOver(folder / "a", "three"));
  EXPECT_EQ(ContentOf(folder / "a"), "three");
  EXPECT_EQ(WriteNew(folder / "no" / "b", "x"), "");
  EXPECT_FALSE(WriteOver(folder / "no" / "b", "x"));
  std::filesystem::remove_all(folder);
}

TEST(Output, WhatCannotBeWrittenIsKnownBefore) {
  const auto folder =
      std::filesystem::temp_directory_path() / ("output_test" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  EXPECT_EQ(WhyNotWritable({folder / "a", folder / "b", folder / "c"}), "");
  EXPECT_TRUE(std::filesystem::is_empty(folder)) << "asking leaves nothing behind";
  EXPECT_TRUE(WriteOver(folder / "a", "old"));
  EXPECT_EQ(WhyNotWritable({folder / "a", "", folder / "a"}), "");
  EXPECT_EQ(ContentOf(folder / "a"), "old");
  const std::string nowhere = folder / "no" / "x";
  for (const ResultFiles& files :
       {ResultFiles{nowhere, "", ""}, ResultFiles{"", nowhere, ""}, ResultFiles{"", "", nowhere}}) {
    EXPECT_EQ(WhyNotWritable(files), "cannot write " + nowhere + ": No such file or directory");
    EXPECT_EQ(WriteResults(files, {{"results", json::array()}}), nowhere);
  }
  EXPECT_EQ(WriteResults({folder / "new", "", ""}, {{"results", json::array()}}), "");
  EXPECT_EQ(json::parse(ContentOf(folder / "new")), json({{"results", json::array()}}));
  std::filesystem::remove_all(folder);
}

TEST(Output, TextInAnotherEncodingIsReplaced) {
  const std::string path = testing::TempDir() + "/encoding.json";
  std::filesystem::remove(path);
  EXPECT_EQ(WriteResults({path, "", ""}, {{"plan", "\xff"}}), "");
  std::ifstream file(path);
  EXPECT_EQ(json::parse(file)["plan"], "\xef\xbf\xbd");
}

TEST(Output, CsvHasAColumnForEachFieldOfAnyRow) {
  const json results = {{{"size", 8}, {"type", "float"}, {"out", {{"time", 1.5}, {"all", {1, 2}}}}},
                        {{"size", 16}, {"note", "a \"b\", c"}}};
  EXPECT_EQ(ToCsv(results),
            "size,count,type,redop,root,out.time,note\n"
            "8,,float,,,1.5,\n"
            "16,,,,,,\"a \"\"b\"\", c\"\n");
  EXPECT_EQ(ToCsv(json::array()), "size,count,type,redop,root\n");
}

// Nothing is fetched from anywhere, every element is closed, and the data are those given.
TEST(Output, ThePageStandsAlone) {
  const json document = {{"results", {{{"size", 8}, {"note", "</script><b>@DATA@"}}}}};
  const std::string page = ToPage(document);
  EXPECT_TRUE(page.starts_with("<!DOCTYPE html>"));
  for (const char* outside : {" src=", "<link", "@import", "url(", "fetch(", "XMLHttpRequest"})
    EXPECT_EQ(page.find(outside), std::string::npos) << outside;
  std::vector<std::string> open;
  std::string markup = page;
  for (const std::string name : {"script", "style"}) {
    for (size_t at = markup.find("<" + name); at != std::string::npos;
         at = markup.find("<" + name)) {
      const size_t end = markup.find("</" + name + ">", at);
      ASSERT_NE(end, std::string::npos);
      markup.erase(at, end + name.size() + 3 - at);
    }
  }
  for (size_t at = markup.find('<'); at != std::string::npos; at = markup.find('<', at + 1)) {
    const bool closes = markup[at + 1] == '/';
    const size_t begin = at + (closes ? 2 : 1);
    const size_t end = markup.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789", begin);
    const std::string name = markup.substr(begin, end - begin);
    if (name.empty() || name == "meta" || name == "br") continue;
    if (!closes) {
      open.push_back(name);
    } else {
      ASSERT_FALSE(open.empty()) << name;
      EXPECT_EQ(open.back(), name);
      open.pop_back();
    }
  }
  EXPECT_TRUE(open.empty());
  const std::string begin = "<script type=\"application/json\" id=\"data\">";
  const size_t at = page.find(begin) + begin.size();
  EXPECT_EQ(json::parse(page.substr(at, page.find("</script>", at) - at)), document);
}

TEST(Progress, TheBarGrowsAndTellsTheEnd) {
  const std::string start = FormatProgress(0, 100, 0),
                    half = FormatProgress(50, 100, 4'000'000'000);
  EXPECT_EQ(start.find("to go"), std::string::npos);
  EXPECT_NE(start.find("  0 %"), std::string::npos) << start;
  EXPECT_NE(half.find(" 50 %, about 4 s to go"), std::string::npos) << half;
  EXPECT_EQ(std::count(half.begin(), half.end(), '#'), 20);
  EXPECT_NE(FormatProgress(100, 100, 1).find("100 %"), std::string::npos);
  EXPECT_NE(FormatProgress(0, 0, 1).find("100 %"), std::string::npos);
}

}  // namespace
}  // namespace ftar::perf
