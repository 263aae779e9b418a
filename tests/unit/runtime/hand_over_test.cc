// Goal: what is handed over goes the way that is read faster, and a change is found out.
#include "runtime/hand_over.h"

#include <gtest/gtest.h>

namespace ftar::runtime {
namespace {

constexpr uint64_t kBytes = 1000;

// Operations [from, to) with each way at its price; returns how many of them streamed.
int Go(HandOver* hand_over, Seq from, Seq to, TimeNs cached_ns, TimeNs streamed_ns) {
  int streamed = 0;
  for (Seq seq = from; seq < to; ++seq) {
    const bool streams = hand_over->Streams(seq);
    hand_over->NoteWritten(streams, kBytes, 40);
    hand_over->NoteRead(streams, kBytes, streams ? streamed_ns : cached_ns);
    streamed += streams ? 1 : 0;
  }
  return streamed;
}

TEST(HandOver, GoesTheWayThatIsReadFaster) {
  HandOver shared, apart;
  EXPECT_LE(Go(&shared, 0, 1000, 30, 80), 40);
  EXPECT_GE(Go(&apart, 0, 1000, 400, 80), 950);
}

TEST(HandOver, FindsOutWhenItChanges) {
  HandOver hand_over;
  Go(&hand_over, 0, 1000, 30, 80);
  EXPECT_GE(Go(&hand_over, 1000, 1100, 400, 80), 90) << "at once: it is what is done";
  Go(&hand_over, 1100, 1500, 30, 80);
  EXPECT_LE(Go(&hand_over, 1500, 1600, 30, 80), 2) << "when it was tried a few times";
}

TEST(HandOver, OneOddTimeChangesLittle) {
  HandOver hand_over;
  Go(&hand_over, 0, 210, 30, 80);
  hand_over.NoteRead(false, kBytes, 50'000'000);
  EXPECT_LE(Go(&hand_over, 210, 410, 30, 80), 120) << "until it is tried again";
}

TEST(HandOver, WithoutAnyTimeItStaysAsItIs) {
  HandOver hand_over;
  hand_over.NoteWritten(true, 0, 5);
  hand_over.NoteRead(true, 0, 5);
  EXPECT_FALSE(hand_over.Streams(50));
}

}  // namespace
}  // namespace ftar::runtime
