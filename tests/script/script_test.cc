// One test a transcript. `script_test --rewrite` records all outputs anew instead of comparing
// them.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "tests/script/coordinator_environment.h"
#include "tests/script/script.h"

namespace ftar::script {
namespace {

bool rewrite = false;

using Factory = std::function<std::unique_ptr<Environment>()>;

// Folder of transcripts -> who understands their commands.
const std::map<std::string, Factory>& Environments() {
  static const std::map<std::string, Factory> environments = {
      {"coordinator", [] { return MakeCoordinatorEnvironment(); }},
  };
  return environments;
}

std::vector<std::filesystem::path> Transcripts() {
  std::vector<std::filesystem::path> paths;
  for (const auto& [folder, factory] : Environments()) {
    for (const auto& file :
         std::filesystem::directory_iterator(std::filesystem::path(FTAR_SCRIPTS) / folder)) {
      if (file.path().extension() == ".txt") paths.push_back(file.path());
    }
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

class Script : public testing::TestWithParam<std::filesystem::path> {};

TEST_P(Script, PrintsWhatIsWritten) {
  std::ifstream in(GetParam());
  const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  std::vector<Block> blocks = Parse(text);
  ASSERT_FALSE(blocks.empty()) << GetParam() << " holds no commands";
  const auto environment = Environments().at(GetParam().parent_path().filename())();
  const std::vector<std::string> outputs = RunBlocks(blocks, *environment);
  if (rewrite) {
    for (size_t i = 0; i < blocks.size(); ++i) blocks[i].expected = outputs[i];
    std::ofstream(GetParam()) << Format(blocks);
    return;
  }
  for (size_t i = 0; i < blocks.size(); ++i) {
    EXPECT_EQ(blocks[i].expected, outputs[i]) << GetParam() << ":" << blocks[i].line;
  }
}

INSTANTIATE_TEST_SUITE_P(, Script, testing::ValuesIn(Transcripts()), [](const auto& info) {
  std::string name =
      info.param.parent_path().filename().string() + "_" + info.param.stem().string();
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST(ScriptFormat, ParsesAndFormatsBack) {
  const std::string text = "# about\nfirst a b=1 \"two words\"\n----\nout\n\nsecond\n----\nok\n";
  const std::vector<Block> blocks = Parse(text);
  ASSERT_EQ(blocks.size(), 2u);
  EXPECT_EQ(blocks[0].commands.at(0).name, "first");
  EXPECT_EQ(blocks[0].commands.at(0).args, (std::vector<std::string>{"a", "two words"}));
  EXPECT_EQ(blocks[0].commands.at(0).Number("b", 0), 1u);
  EXPECT_EQ(blocks[0].expected, "out\n");
  EXPECT_EQ(Format(blocks), text);
}

}  // namespace
}  // namespace ftar::script

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    if (std::string(argv[i]) == "--rewrite") ftar::script::rewrite = true;
  }
  return RUN_ALL_TESTS();
}
