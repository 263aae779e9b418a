// What the engine does about a GPU: inputs by way of a mirror, streams to wait for, graphs.
#include <algorithm>

#include "fmt/format.h"
#include "perf/clock.h"
#include "perf/engine.h"
#include "perf/types.h"

namespace ftar::perf {

ftarResult_t Engine::FailDevice() {
  failure_ = buffers_->cuda()->error();
  return FTAR_ERR_DEVICE;
}

ftarResult_t Engine::FillInput(const Flight& flight) {
  const uint64_t bytes = flight.shape->send_elements * TypeOf(RowOf(flight.slot).dtype).bytes;
  const bool written = buffers_->Write(flight.buffers.send, bytes, [&](char* send) {
    case_->fill(ContextOf(flight), *flight.shape, send);
  });
  return written ? FTAR_OK : FailDevice();
}

// An operation is delivered a moment before its stream goes on.
ftarResult_t Engine::AwaitStreams() {
  if (!options_.OnDevice() || buffers_->cuda()->Synchronize()) return FTAR_OK;
  return FailDevice();
}

// The operations of one iteration, with the buffers of the first places of the window.
ftarResult_t Engine::Capture(const Slot& slot) {
  Cuda* cuda = buffers_->cuda();
  if (!cuda->BeginCapture()) return FailDevice();
  for (int i = 0; i < RowOf(slot).aggregate; ++i) {
    Flight flight = NewFlight(0, slot);
    flight.place = static_cast<uint64_t>(i) % places_.size();
    flight.buffers = places_[flight.place];
    flight.shape = &shapes_[0];
    const ftarOpDesc desc = DescribeOp(flight);
    const ftarResult_t status = ftarOpStart(session_->group(), &desc, nullptr);
    if (status != FTAR_OK) return status;
  }
  if (!cuda->EndCapture()) return FailDevice();
  captured_ = true;
  return FTAR_OK;
}

// An iteration of the second round, in which products run all the time.
ftarResult_t Engine::PostBeside(uint64_t seq, const Slot& slot) {
  const int aggregate = RowOf(slot).aggregate, ops = RowOf(slot).iters * aggregate;
  ftarResult_t status = FTAR_OK;
  if (slot.index == 0) {
    status = Drain();
    matmul_->Begin();
    beside_begin_ns_ = NowNs();
  }
  if (status == FTAR_OK) status = Post(seq, slot, static_cast<uint64_t>(aggregate));
  if (status == FTAR_OK && slot.index + aggregate < ops) return FTAR_OK;
  if (status == FTAR_OK) status = Drain();
  beside_ns_ = std::max<int64_t>(1, (NowNs() - beside_begin_ns_) / ops);
  matmul_beside_ns_ = matmul_->End();
  return status;
}

// Its operations are called by the graph: what came of them is known by their numbers alone.
ftarResult_t Engine::Replay(uint64_t seq, const Slot& slot) {
  ftarResult_t status = Drain();
  if (status == FTAR_OK && !captured_) status = Capture(slot);
  if (status != FTAR_OK) return status;
  SetState(RankState::kStarts, seq);
  if (timed_begin_ns_ == 0) {
    timed_begin_ns_ = last_done_ns_ =
        ClockNs(options_.cpu_time ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC);
  }
  if (!buffers_->cuda()->Launch()) return FailDevice();
  SetState(RankState::kWaits, seq);
  status = AwaitStreams();
  if (status != FTAR_OK) return status;
  NoteTime(slot, slot.index + RowOf(slot).aggregate - 1);
  for (int i = 0; i < RowOf(slot).aggregate; ++i) {
    ftarOutcome outcome = FTAR_OUTCOME_INIT;
    status = ftarGroupOutcome(session_->group(), seq + static_cast<uint64_t>(i), &outcome);
    if (status != FTAR_OK) return status;
    last_epoch_ = outcome.epoch;
    ++done_;
  }
  board_->delivered.store(done_, std::memory_order_relaxed);
  return FTAR_OK;
}

}  // namespace ftar::perf
