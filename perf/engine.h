// The engine: runs the schedule's operations on one rank, times them, checks them and strikes.
//
// Purpose: everything between "this rank is in the job" and "this rank is done", without knowing
// who started it or who reads its records. Threads: Run belongs to the main thread; a strike
// happens on the Striker's. Ownership: borrows all it is given.
#ifndef FTAR_PERF_ENGINE_H_
#define FTAR_PERF_ENGINE_H_

#include <deque>
#include <memory>
#include <vector>

#include "perf/board.h"
#include "perf/buffers.h"
#include "perf/bulk.h"
#include "perf/case.h"
#include "perf/matmul.h"
#include "perf/reporter.h"
#include "perf/sampler.h"
#include "perf/schedule.h"
#include "perf/session.h"

namespace ftar::perf {

class Engine {
 public:
  Engine(const Options& options, const Schedule& schedule, Session* session, Buffers* buffers,
         Board* board, Arena* arena, Reporter* reporter);
  // Runs that session's operations in pairs with its own, in those buffers. Before Run.
  void SetBeside(Session* beside, Buffers* buffers) {
    beside_ = beside;
    beside_buffers_ = buffers;
  }
  // Runs beside the operations of a second round. Before Run.
  void SetMatmul(Matmul* matmul) { matmul_ = matmul; }
  // Runs beside everything; only its bandwidth is asked for. Before Run.
  void SetBulk(const Bulk* bulk) { bulk_ = bulk; }

  // Runs from the session's first operation to the schedule's end, or until this member is out.
  EndRecord Run();
  // Wrong elements on this rank, or on all ranks where they were shared.
  uint64_t wrong() const { return wrong_total_; }

 private:
  struct Flight {
    ftarOp_t op = nullptr;
    uint64_t seq = 0;
    Slot slot;
    BufferPair buffers;
    uint64_t place = 0;  // in the window
    const Shape* shape = nullptr;
    uint64_t round = 0;
    bool checked = false;
  };

  static Flight NewFlight(uint64_t seq, const Slot& slot);

  // Each answers FTAR_OK, or why this member cannot go on.
  ftarResult_t RunOne(uint64_t seq);
  ftarResult_t BeginPlace(uint64_t seq, const Slot& slot);
  ftarResult_t PrepareBuffers(const Slot& slot);
  ftarResult_t PlaceBeside(const std::vector<uint64_t>& sizes, uint64_t offset, bool in_place);
  ftarResult_t EndPlace(const Slot& slot);
  ftarResult_t RunBarrier(uint64_t seq, const Slot& slot);
  ftarResult_t Share(uint64_t seq, const Slot& slot);
  ftarResult_t Post(uint64_t seq, const Slot& slot, uint64_t batch);
  // Fresh: one iteration by the sampler, and what it runs on the clock.
  void PrepareSampler(const Slot& slot);
  ftarResult_t Sample(uint64_t seq, const Slot& slot);
  std::vector<ftarOpDesc> DescribeBatch(const Slot& slot,
                                        const std::vector<BufferPair>& places) const;
  ftarResult_t RunBatch(ftarGroup_t group, const std::vector<ftarOpDesc>& batch);
  // engine_device.cc: a GPU's part.
  ftarResult_t Capture(const Slot& slot);
  ftarResult_t Replay(uint64_t seq, const Slot& slot);
  ftarResult_t PostBeside(uint64_t seq, const Slot& slot);
  ftarResult_t AwaitStreams();
  ftarResult_t FailDevice();
  ftarResult_t FillInput(const Flight& flight);
  void EndSamples(RowRecord* record);
  void CountMoved(int64_t sign);
  void NoteMoved(const Row& row, RowRecord* record) const;
  Flight NewPlacedFlight(uint64_t seq, const Slot& slot) const;
  ftarResult_t WaitOldest();
  ftarResult_t Drain();
  ftarResult_t BeforeTimed(uint64_t seq, const Slot& slot);
  ftarResult_t TimedOp(uint64_t seq, const Slot& slot);
  ftarResult_t LeaveNow(uint64_t seq);
  bool EndsBefore(uint64_t seq);
  ftarResult_t AwaitNewcomers(uint64_t seq, uint64_t iteration);
  bool SomebodyLeaves(uint64_t iteration) const;

  // Waits until the status is final; shows on the board what it waits for.
  ftarResult_t WaitFinal(ftarOp_t op, uint64_t seq, ftarOutcome* outcome);
  void Deliver(const Flight& flight, const ftarOutcome& outcome);
  uint64_t Check(const Flight& flight, const ftarOutcome& outcome, OpRecord* record);
  std::vector<OpMember> MembersOf(ftarOp_t op) const;
  OpContext ContextOf(const Flight& flight) const;
  ftarOpDesc DescribeOp(const Flight& flight) const;
  void ArmStrike(const Slot& slot);
  void StampHook(const Slot& slot);
  void NoteTime(const Slot& slot, int index);
  void SetState(RankState state, uint64_t seq);
  const Row& RowOf(const Slot& slot) const { return schedule_.rows()[slot.row]; }
  bool IsVictim(const FaultSpec& fault) const { return fault.rank == session_->replica(); }

  const Options& options_;
  const Schedule& schedule_;
  Session* session_;
  Session* beside_ = nullptr;  // the same ranks with other knobs; null unless --against
  Buffers* beside_buffers_ = nullptr;
  Matmul* matmul_ = nullptr;    // null unless --matmul
  const Bulk* bulk_ = nullptr;  // null unless --beside
  Buffers* buffers_;
  Board* all_;  // the slots of all
  BoardSlot* board_;
  BoardSlot* command_;  // the first slot, whose end_seq speaks to all
  Reporter* reporter_;
  Striker striker_;

  std::deque<Flight> flights_;
  uint64_t done_ = 0;        // operations delivered
  uint64_t last_epoch_ = 0;  // of the last delivered operation
  uint64_t wrong_total_ = 0;
  std::string failure_;       // of an operation whose verdict was not OK
  std::vector<int> awaited_;  // newcomers without whom nothing is called, unless somebody leaves

  // The row and placement in progress.
  const Case* case_ = nullptr;
  std::vector<Shape> shapes_;       // of the operations of an iteration; one where all are alike
  std::vector<BufferPair> places_;  // of the window
  Layout layout_;
  int window_ = 1;
  uint64_t place_round_ = 0;
  bool place_from_start_ = false;
  int64_t timed_begin_ns_ = 0, timed_end_ns_ = 0, last_done_ns_ = 0;
  uint64_t bulk_begin_ = 0, bulk_end_ = 0;  // bytes beside, at those times
  int64_t typical_ns_ = 0;  // one operation of this placement, for the moment of a strike
  int64_t place_wrong_ = -1;
  int64_t block_us_ = 0;                  // of the GPU, in the timed iterations
  int64_t moved_ = 0, beside_moved_ = 0;  // bytes, with --ideal
  bool captured_ = false;                 // the graph of the placement
  int64_t matmul_ns_ = 0, matmul_beside_ns_ = 0;
  int64_t beside_begin_ns_ = 0, beside_ns_ = 0;  // of an operation beside the products
  std::vector<int64_t> iteration_ns_;

  // With --fresh.
  std::unique_ptr<Sampler> sampler_;
  std::vector<BufferPair> beside_places_;
  std::vector<ftarOpDesc> batch_, beside_batch_;
  std::vector<ftarOp_t> batch_ops_;
};

}  // namespace ftar::perf

#endif  // FTAR_PERF_ENGINE_H_
