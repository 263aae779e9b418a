// A program of which one file is compiled without exceptions: in the others ftar.hpp throws.
#include <gtest/gtest.h>

#include <ftar/ftar.hpp>

#include "tests/process/api/hpp_plain.h"

namespace process {
namespace {

TEST(HppMixed, WhoHasExceptionsGetsThem) {
  EXPECT_TRUE(AsksWithoutExceptions());
  EXPECT_THROW(ftar::Job().OpenGroup().value(), ftar::Error);
  auto group = ftar::Job().OpenGroup();
  EXPECT_THROW(group.value(), ftar::Error);
  EXPECT_THROW(ftar::Group().Barrier().Finish().OrThrow(), ftar::Error);
  EXPECT_THROW(ftar::Job().Leave().OrThrow(), ftar::Error);
}

}  // namespace
}  // namespace process
