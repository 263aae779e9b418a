// Goal: an instruction set is chosen by name, and a wrong name changes nothing and says what is
// possible.
#include "reduce/isa.h"

#include <gtest/gtest.h>

#include <string>

#include "reduce/kernels.h"

namespace ftar::reduce {
namespace {

TEST(IsaTest, TakesEachAvailableName) {
  ASSERT_EQ(AvailableIsas().front(), "scalar");
  for (std::string_view name : AvailableIsas()) {
    EXPECT_TRUE(SetIsa(name).ok());
    EXPECT_EQ(IsaName(), name);
  }
  EXPECT_TRUE(SetIsa("auto").ok());
  EXPECT_EQ(IsaName(), AvailableIsas().back());
}

TEST(IsaTest, ANameThatIsGivenHoldsForShortSumsToo) {
  for (std::string_view name : AvailableIsas()) {
    ASSERT_TRUE(SetIsa(name).ok());
    EXPECT_EQ(&CurrentKernels(true), &CurrentKernels(false)) << name;
  }
  ASSERT_TRUE(SetIsa("auto").ok());
}

TEST(IsaTest, RefusesAnUnknownName) {
  ASSERT_TRUE(SetIsa("scalar").ok());
  for (const char* name : {"", "AVX2", "avx2 ", "sse9"}) {
    const Status status = SetIsa(name);
    EXPECT_EQ(status.code(), Code::kConfig);
    EXPECT_EQ(status.argument(), "isa");
    EXPECT_NE(status.text().find("'" + std::string(name) + "'"), std::string::npos)
        << status.text();
    EXPECT_NE(status.text().find("auto, scalar"), std::string::npos) << status.text();
    EXPECT_EQ(IsaName(), "scalar");
  }
  ASSERT_TRUE(SetIsa("auto").ok());
}

// Each known name either works or is refused as not offered, never run into an illegal instruction.
TEST(IsaTest, RefusesWhatTheMachineLacks) {
  for (const char* name : {"avx2", "avx512", "avx512bf16"}) {
    bool available = false;
    for (std::string_view isa : AvailableIsas()) available |= isa == name;
    EXPECT_EQ(SetIsa(name).ok(), available) << name;
  }
  ASSERT_TRUE(SetIsa("auto").ok());
}

}  // namespace
}  // namespace ftar::reduce
