// The operation on a group's fast path (group_fast.cc), and what is kept of it for the next one.
#ifndef FTAR_COLLECTIVE_FAST_OP_H_
#define FTAR_COLLECTIVE_FAST_OP_H_

#include <utility>
#include <vector>

#include "collective/op_state.h"
#include "collective/peers.h"
#include "collective/shares.h"
#include "collective/types.h"

namespace ftar::collective {

// How operations of a kind and size go, where members and lanes are as they are.
struct FastWay {
  LaneRoom room = LaneRoom::kNone;  // none: not this way
  plan::PlanKind plan = plan::PlanKind::kAuto;
  bool all_sum = false;  // what is short may be shared all the same, for each to sum all
};

// One call is mostly like the one before, so what was found out is kept, in steps of which each
// holds as long as those before it:
//
//   placed     members and lanes, for all calls in a view of an era
//   described  way, plan, signature, and chunks if it may be shared, for all calls like spec
//   prepared   weights, and the peers' acks, while the machine is told nothing (`news`)
//
// A call for which all holds repeats the last one: a line that says what its member's last one said
// is enough, and in works only numbers differ. So is it with the outcome, for the same weights. And
// where one that repeated has ended in one pass, the next one recurs: not even that is found out.
// What is known of one is complete before it starts, and a call that does not begin leaves it
// unprepared. The class decides nothing for the group: which calls go this way, and when they have
// ended, is the machine's. It knows the lane alone, and the peers that it was shown.
class FastOp {
 public:
  explicit FastOp(const GroupConfig& config) : config_(config) {}

  // For what is asked of any operation: lines, flags, acks.
  Op& op() { return op_; }
  const Op& op() const { return op_; }
  const Shares& shares() const { return shares_; }  // of a shared one
  // Makes its result, or a block; of the last one, until all is there.
  const Work& work() const { return work_; }

  bool IsPlacedIn(const ViewPtr& view, Epoch era) const { return op_.view == view && era_ == era; }
  void Displace();
  void AddMember(MemberId id, int segment);
  bool Place(ViewPtr view, Epoch era);  // false: of one there is nothing to be seen

  bool IsDescribed(const OpSpec& spec, uint64_t step) const;
  void Describe(const OpSpec& spec, uint64_t step, const FastWay& way,
                const wire::Signature& signature);
  bool MayShare() const { return way_.room == LaneRoom::kShared || way_.all_sum; }
  void CutShares(uint64_t piece_bytes);
  const FastWay& way() const { return way_; }

  void Forget() { news_ = 0; }  // it is prepared for nothing
  void Prepare(const OpSpec& spec, uint64_t news, Peers* peers);

  // `in_slot`: the operation whose line the call's takes the place of, which all must have let go.
  bool Repeats(const FastCall& call, uint64_t step, uint64_t news, Seq in_slot);
  void Start(Seq seq, const FastCall& call, bool repeats);
  // Starts a call like the last one, where that had repeated and has ended in one pass. False: it
  // is another, or something is in its way, and nothing has happened.
  bool Recur(Seq seq, const FastCall& call, uint64_t news, Seq in_slot);
  // The member's line, if it says what its last one said but for its number and what is complete
  // there. `newest`: the view in force here.
  bool TakeFamiliar(size_t position, Epoch newest);
  void Differ() { repeats_ = false; }  // from the last one
  // In one pass, while the lines are on their way: what makes the result, and what its outcome is
  // if that is over at once, if each says what it said last. False: nothing is foreseen.
  bool Foresee(TimeNs now);
  bool FillWork();  // all are there; true: it is what was foreseen
  // One of the own blocks, then what the others have by now. False: nothing is there.
  bool NextShare();
  LaneWords FinishShare();  // it is done
  bool EndsAlike() const {  // like the last one
    return repeats_ || (op_.weights == told_weights_ && op_.plan == outcome_.plan);
  }
  void SetOutcome(Outcome outcome);
  const Outcome& End(TimeNs now);
  bool Stop() { return std::exchange(running_, false); }  // false: it did not run

  // While it becomes an operation like any other, whose line the host has published already.
  void HandOver(bool now) { handed_over_ = now ? op_.seq : kNoSeq; }
  bool HandsOver(Seq seq) const { return handed_over_ == seq; }

 private:
  LaneRoom RoomOf(const FastCall& call) const;
  bool IsLikeLast(const FastCall& call, uint64_t news) const;
  bool HasLetGo(Seq in_slot);
  void Begin(Seq seq, const FastCall& call, bool repeats);
  void TellMoment(TimeNs now);
  void FillAsLast();
  void FillAnew();

  const GroupConfig& config_;
  Op op_;
  Work work_;
  Shares shares_;
  FastWay way_;  // for calls like op_.spec in op_.view
  Epoch era_ = 0;
  std::vector<Peer*> peers_;          // by position, as of news_; null: this member
  Seq let_go_ = 0;                    // what comes before it all of them have, as of when asked
  uint64_t news_ = 0;                 // when the last one began; 0: it did not go that way
  Outcome outcome_;                   // of the last one
  std::vector<double> told_weights_;  // in outcome_, in op_.view; empty: not even that
  bool repeats_ = false;              // it is like the last one, whose weights are in op_
  bool foreseen_ = false;             // work_ was
  bool recurs_ = false;               // it has ended in one pass, and repeated the one before it
  bool running_ = false;
  Seq handed_over_ = kNoSeq;
};

}  // namespace ftar::collective

#endif  // FTAR_COLLECTIVE_FAST_OP_H_
