#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "wire/layout_digest.h"
#include "wire/messages.h"

namespace ftar::wire {
namespace {

Signature Base() {
  Signature s;
  s.count = 8;
  return s;
}

struct Edit {
  std::function<void(Signature&)> change;
  std::string text;
};

std::vector<Edit> ComparedFields() {
  return {
      {[](Signature& s) { s.kind = 3; }, "kind allreduce against broadcast"},
      {[](Signature& s) { s.count = 16; }, "count 8 against 16"},
      {[](Signature& s) { s.dtype = 3; }, "type f32 against bf16"},
      {[](Signature& s) { s.redop = 4; }, "operator sum against avg"},
      {[](Signature& s) {
         s.root = {0xabcd0000'00000000, 1};
       },
       "root 00000000 against abcd0000"},
      {[](Signature& s) { s.layout = 7; }, "epoch of the layout 0 against 7"},
      {[](Signature& s) { s.step = 2; }, "step none against 1"},
      {[](Signature& s) { s.flags = kSignatureStrict; }, "strict step off against on"},
      {[](Signature& s) { s.plan = 2; }, "plan auto against direct"},
      {[](Signature& s) { s.scale = 0.5; }, "scale 1 against 0.5"},
      {[](Signature& s) { s.window = 5; }, "window of the group 0 against 5"},
  };
}

TEST(Signature, DifferenceNamesTheFieldAndBothValues) {
  for (const Edit& edit : ComparedFields()) {
    Signature other = Base();
    edit.change(other);
    EXPECT_EQ(SignatureDifference(Base(), other), edit.text);
    EXPECT_FALSE(SignatureDifference(other, Base()).empty());
  }
  EXPECT_EQ(SignatureDifference(Base(), Base()), "");
}

// An epoch in which somebody leaves has two layouts; who names it before and behind the boundary
// means different segments.
TEST(Signature, OneEpochMayNameTwoLayouts) {
  const MemberId three[] = {{1, 1}, {2, 2}, {3, 3}};
  const auto call = [](std::span<const MemberId> members) {
    Signature out = Base();
    out.kind = 2;  // all-gather
    out.layout = 7;
    out.root = LayoutDigest(members);
    return out;
  };
  const Signature before = call(three), behind = call(std::span(three).first(2));
  EXPECT_NE(SignatureDigest(before), SignatureDigest(behind));
  EXPECT_EQ(SignatureDigest(before), SignatureDigest(call(three)));
  EXPECT_EQ(SignatureDifference(before, behind),
            "the members whose segments they name by epoch 7, in which somebody comes or goes");
}

TEST(Signature, DigestDependsOnEveryComparedField) {
  std::set<uint64_t> digests{SignatureDigest(Base())};
  for (const Edit& edit : ComparedFields()) {
    Signature other = Base();
    edit.change(other);
    EXPECT_TRUE(digests.insert(SignatureDigest(other)).second) << edit.text;
  }
}

TEST(Signature, DerivedSizesAreNotCompared) {
  Signature other = Base();
  other.element_bytes = 4;
  other.accumulator_bytes = 4;
  EXPECT_EQ(SignatureDigest(other), SignatureDigest(Base()));
  EXPECT_EQ(SignatureDifference(other, Base()), "");
}

// Digest and words must never disagree on whether two calls are the same.
TEST(Signature, ScalesAreComparedByBits) {
  Signature zero = Base(), minus_zero = Base(), near = Base();
  zero.scale = 0.0;
  minus_zero.scale = -0.0;
  EXPECT_NE(SignatureDigest(zero), SignatureDigest(minus_zero));
  EXPECT_NE(SignatureDifference(zero, minus_zero), "");
  near.scale = std::nextafter(1.0, 2.0);
  EXPECT_EQ(SignatureDifference(Base(), near), "scale 1 against 1.0000000000000002");
  Signature nan = Base();
  nan.scale = std::nan("");
  EXPECT_EQ(SignatureDifference(nan, nan), "");
}

TEST(Signature, UnknownNumbersAreShownAsNumbers) {
  Signature other = Base();
  other.kind = 77;
  EXPECT_EQ(SignatureDifference(Base(), other), "kind allreduce against unknown 77");
}

// The digest travels between machines: a change of its value is a change of the wire format.
TEST(Signature, DigestIsFixed) { EXPECT_EQ(SignatureDigest(Signature{}), 11433530824417070757u); }

}  // namespace
}  // namespace ftar::wire
