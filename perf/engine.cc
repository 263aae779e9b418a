#include "perf/engine.h"

#include <xxhash.h>

#include <algorithm>
#include <random>

#include "fmt/format.h"
#include "perf/clock.h"
#include "perf/stats.h"
#include "perf/types.h"
#include "perf/verify.h"

namespace ftar::perf {
namespace {

constexpr int32_t kRingPlan = 3;  // of ftarOutcome.plan
constexpr int64_t kWaitNs = 500'000'000;
constexpr size_t kMembersMax = kMaxRanks;

// The wait ended, the operation did not.
bool LivesOn(ftarResult_t status) {
  return status == FTAR_IN_PROGRESS || status == FTAR_TIMEOUT || status == FTAR_ERR_QUORUM ||
         status == FTAR_ERR_COORDINATOR;
}

// A verdict that all members share and after which the group goes on.
bool IsVerdict(ftarResult_t status) {
  return status == FTAR_OK || status == FTAR_ERR_MISMATCH || status == FTAR_ERR_ABSENT;
}

uint64_t DigestMembers(std::span<const OpMember> members) {
  XXH64_hash_t hash = 0;
  for (const OpMember& member : members) {
    hash = XXH3_64bits_withSeed(&member.id, sizeof member.id, hash);
    hash = XXH3_64bits_withSeed(&member.weight, sizeof member.weight, hash);
  }
  return hash;
}

}  // namespace

Engine::Engine(const Options& options, const Schedule& schedule, Session* session, Buffers* buffers,
               Board* board, Arena* arena, Reporter* reporter)
    : options_(options),
      schedule_(schedule),
      session_(session),
      buffers_(buffers),
      all_(board),
      board_(&board->slot(options.role.slot)),
      command_(&board->slot(0)),
      reporter_(reporter),
      striker_(board_) {
  if (options.fresh) sampler_ = std::make_unique<Sampler>(options, arena, buffers);
}

EndRecord Engine::Run() {
  session_->SendCounters(0);
  ftarResult_t status = FTAR_OK;
  std::string text;
  uint64_t seq = session_->first_seq();
  layout_ = session_->CurrentLayout();
  if (seq < schedule_.size() && !schedule_.At(seq).first_of_place) {
    // A newcomer enters in the middle.
    status = BeginPlace(seq, schedule_.At(seq));
    if (status == FTAR_OK) status = PrepareBuffers(schedule_.At(seq));
    place_from_start_ = false;
  }
  for (; status == FTAR_OK && seq < schedule_.size() && !EndsBefore(seq); ++seq) {
    // Who is done with the last one leaves, and closes links that no fault has closed.
    if (seq + 1 == schedule_.size()) session_->SendCounters(last_epoch_);
    status = RunOne(seq);
  }
  if (status == FTAR_OK) status = Drain();
  // Before anything else is called, which would replace the thread's last error.
  if (status != FTAR_OK) text = failure_.empty() ? Session::LastError() : failure_;
  for (const Flight& flight : flights_) ftarOpRelease(flight.op);
  session_->SendCounters(last_epoch_);
  if (status == FTAR_OK && !failure_.empty()) text = failure_;
  return {status, done_, text};
}

ftarResult_t Engine::RunOne(uint64_t seq) {
  const Slot slot = schedule_.At(seq);
  ftarResult_t status = FTAR_OK;
  switch (slot.phase) {
    case Phase::kBarrier:
      status = BeginPlace(seq, slot);
      if (status == FTAR_OK) status = RunBarrier(seq, slot);
      break;
    case Phase::kShareTime:
    case Phase::kShareWrong: status = Share(seq, slot); break;
    case Phase::kTimed:
      // Operations that start together are started by the first of them.
      if (slot.index % RowOf(slot).aggregate != 0 && seq != session_->first_seq()) break;
      status = TimedOp(seq, slot);
      break;
    case Phase::kBeside:
      if (slot.index % RowOf(slot).aggregate == 0) status = PostBeside(seq, slot);
      break;
    default: status = Post(seq, slot, 1); break;
  }
  while (status == FTAR_OK && flights_.size() >= static_cast<size_t>(window_))
    status = WaitOldest();
  if (status == FTAR_OK && slot.last_of_place) status = EndPlace(slot);
  return status;
}

ftarResult_t Engine::TimedOp(uint64_t seq, const Slot& slot) {
  const Row& row = RowOf(slot);
  ftarResult_t status = FTAR_OK;
  if (slot.index == 0 && (options_.OnDevice() || options_.ideal != IdealKind::kNone)) {
    status = Drain();  // of the warm-up's operations nothing is counted
    CountMoved(-1);
    if (options_.OnDevice()) block_us_ = -static_cast<int64_t>(session_->Counter("gpu_block_us"));
  }
  if (status == FTAR_OK) status = BeforeTimed(seq, slot);
  if (status != FTAR_OK) return status;
  if (options_.fresh) {
    status = Sample(seq, slot);
  } else if (options_.graph) {
    status = Replay(seq, slot);
  } else {
    status = Post(seq, slot, row.aggregate - slot.index % row.aggregate);
  }
  const bool last = slot.index / row.aggregate + 1 == row.iters;
  if (last) CountMoved(1);
  if (last && options_.OnDevice())
    block_us_ += static_cast<int64_t>(session_->Counter("gpu_block_us"));
  return status;
}

// What the library has moved by now: -1 at the begin of the timed iterations, 1 at their end.
void Engine::CountMoved(int64_t sign) {
  if (options_.ideal == IdealKind::kNone) return;
  moved_ += sign * static_cast<int64_t>(session_->Counter("bytes_moved"));
  if (beside_ != nullptr)
    beside_moved_ += sign * static_cast<int64_t>(beside_->Counter("bytes_moved"));
}

void Engine::NoteMoved(const Row& row, RowRecord* record) const {
  if (options_.ideal == IdealKind::kNone) return;
  record->moved = moved_;
  record->ideal_moved = beside_moved_;
  if (beside_ != nullptr) return;
  for (const ftarOpDesc& desc : batch_) {
    const uint64_t one = Ideal::MovedBytes(desc.count * sizeof(float), record->members,
                                           options_.ideal == IdealKind::kPush);
    record->ideal_moved += static_cast<int64_t>(one) * row.iters;
  }
}

Engine::Flight Engine::NewFlight(uint64_t seq, const Slot& slot) {
  Flight flight;
  flight.seq = seq;
  flight.slot = slot;
  return flight;
}

// With the buffers of its place in the window.
Engine::Flight Engine::NewPlacedFlight(uint64_t seq, const Slot& slot) const {
  Flight flight = NewFlight(seq, slot);
  const bool alike = shapes_.size() == 1;
  const uint64_t place = alike ? seq : static_cast<uint64_t>(slot.index);
  flight.place = place % places_.size();
  flight.buffers = places_[flight.place];
  flight.shape = &shapes_[alike ? 0 : place % shapes_.size()];
  return flight;
}

ftarResult_t Engine::BeginPlace(uint64_t seq, const Slot& slot) {
  const ftarResult_t status = Drain();
  if (status != FTAR_OK) return status;
  SetState(RankState::kPreparing, seq);
  const Row& row = RowOf(slot);
  case_ = &CaseOf(row.kind);
  place_round_ = seq;
  place_from_start_ = true;
  place_wrong_ = options_.check > 0 || options_.CheckEvery() ? 0 : -1;
  timed_begin_ns_ = timed_end_ns_ = typical_ns_ = block_us_ = moved_ = beside_moved_ = 0;
  matmul_ns_ = matmul_beside_ns_ = beside_ns_ = 0;
  captured_ = false;
  iteration_ns_.clear();
  return FTAR_OK;
}

// The barrier's outcome carries an epoch that is the same on all members: it names the view whose
// ranks own the segments and count the root in this placement.
ftarResult_t Engine::RunBarrier(uint64_t seq, const Slot& slot) {
  Flight flight = NewFlight(seq, slot);
  ftarOpDesc desc = FTAR_OP_DESC_INIT;
  desc.kind = FTAR_BARRIER;
  ftarResult_t status = ftarOpStart(session_->group(), &desc, &flight.op);
  if (status != FTAR_OK) return status;
  ftarOutcome outcome = FTAR_OUTCOME_INIT;
  status = WaitFinal(flight.op, seq, &outcome);
  if (status == FTAR_OK) {
    layout_ = Layout();
    layout_.epoch = outcome.epoch;
    for (const OpMember& member : MembersOf(flight.op)) {
      if (member.replica == session_->replica()) layout_.my_index = layout_.replicas.size();
      layout_.replicas.push_back(member.replica);
    }
    Deliver(flight, outcome);
  }
  ftarOpRelease(flight.op);
  if (status == FTAR_OK) status = PrepareBuffers(slot);
  // All at the same time, as later.
  if (status == FTAR_OK && matmul_ != nullptr) matmul_ns_ = matmul_->Measure();
  return status;
}

// Sizes the window for the row and, unless each operation writes its own input, fills all inputs.
ftarResult_t Engine::PrepareBuffers(const Slot& slot) {
  const Row& row = RowOf(slot);
  const int members = std::max<int>(layout_.replicas.size(), 1);
  const uint64_t width = TypeOf(row.dtype).bytes;
  shapes_ = {case_->shape(row, members)};
  uint64_t bytes = std::max(shapes_[0].send_elements, shapes_[0].recv_elements) * width;
  window_ = WindowFor(options_, row, bytes);
  std::vector<uint64_t> sizes(window_, bytes);
  if (!row.buckets.empty()) {
    sizes = row.buckets;
    shapes_.clear();
    for (uint64_t bucket : sizes) {
      Row one = row;
      one.bytes = bucket;
      shapes_.push_back(case_->shape(one, members));
    }
  }
  uint64_t needed = 0;
  for (uint64_t size : sizes) needed += Buffers::BytesFor(1, size);
  if (buffers_->size() < needed) {
    const ftarResult_t status = buffers_->AllocateFor(session_->job(), options_.memory, needed);
    if (status != FTAR_OK) return status;
  }
  if (!buffers_->MakeMirror(*std::max_element(sizes.begin(), sizes.end()))) return FailDevice();
  const uint64_t offset = options_.unaligned ? width : 0;
  places_ = buffers_->Carve(sizes, offset, slot.in_place);
  if (beside_ != nullptr) {
    const ftarResult_t status = PlaceBeside(sizes, offset, slot.in_place);
    if (status != FTAR_OK) return status;
  }
  for (int i = 0; i < window_ && !options_.CheckEvery(); ++i) {
    Flight flight = NewFlight(place_round_, slot);
    flight.buffers = places_[i];
    flight.round = place_round_;
    flight.shape = &shapes_[shapes_.size() == 1 ? 0 : i];
    const ftarResult_t status = FillInput(flight);
    if (status != FTAR_OK) return status;
  }
  if (sampler_ != nullptr) PrepareSampler(slot);
  return FTAR_OK;
}

// What is another job's own lies in its memory; what is nobody's is the same for both.
ftarResult_t Engine::PlaceBeside(const std::vector<uint64_t>& sizes, uint64_t offset,
                                 bool in_place) {
  beside_places_ = places_;
  if (options_.memory == MemoryKind::kPlain) return FTAR_OK;
  if (beside_buffers_->size() < buffers_->size()) {
    const ftarResult_t status =
        beside_buffers_->AllocateFor(beside_->job(), options_.memory, buffers_->size());
    if (status != FTAR_OK) return status;
  }
  beside_places_ = beside_buffers_->Carve(sizes, offset, in_place);
  return FTAR_OK;
}

// The operations of an iteration, in these buffers.
std::vector<ftarOpDesc> Engine::DescribeBatch(const Slot& slot,
                                              const std::vector<BufferPair>& places) const {
  std::vector<ftarOpDesc> batch;
  for (size_t i = 0; i < places.size(); ++i) {
    Flight flight = NewFlight(place_round_, slot);
    flight.shape = &shapes_[shapes_.size() == 1 ? 0 : i];
    flight.buffers = places[i];
    flight.place = i;
    batch.push_back(DescribeOp(flight));
  }
  return batch;
}

void Engine::PrepareSampler(const Slot& slot) {
  const Row& row = RowOf(slot);
  const ftarRedop_t redop = CollectiveOf(row.kind).reduces ? row.redop : FTAR_SUM;
  const auto count = static_cast<size_t>(row.aggregate);
  std::vector<Shape> shapes;
  for (size_t i = 0; i < count; ++i) shapes.push_back(shapes_[shapes_.size() == 1 ? 0 : i]);
  const std::vector<BufferPair> places(places_.begin(), places_.begin() + row.aggregate);
  batch_ = DescribeBatch(slot, places);
  batch_ops_.assign(count, nullptr);
  const Values values = options_.rounding ? Values::kRounding : Values::kExact;
  Sampler::Beside beside;
  if (beside_ != nullptr) {
    beside.buffers.assign(beside_places_.begin(), beside_places_.begin() + row.aggregate);
    beside_batch_ = DescribeBatch(slot, beside.buffers);
    beside.work = [this] { return RunBatch(beside_->group(), beside_batch_); };
  }
  sampler_->BeginPlace(row, InputTile(row.dtype, redop, session_->replica(), place_round_, values),
                       std::move(shapes), places, std::move(beside));
}

// A fresh run has no faults, so its members are those of its start, and everything is delivered.
ftarResult_t Engine::Sample(uint64_t seq, const Slot& slot) {
  ftarResult_t status = Drain();
  if (status != FTAR_OK) return status;
  SetState(RankState::kStarts, seq);
  status = sampler_->Iterate(slot.index / RowOf(slot).aggregate,
                             [this] { return RunBatch(session_->group(), batch_); });
  done_ += batch_.size();
  board_->delivered.store(done_, std::memory_order_relaxed);
  return status;
}

ftarResult_t Engine::RunBatch(ftarGroup_t group, const std::vector<ftarOpDesc>& batch) {
  const auto finish = [this](ftarOp_t op) {
    ftarResult_t status = ftarOpWait(op, kWaitNs, nullptr);
    if (LivesOn(status)) {
      const int64_t give_up_ns = NowNs() + options_.hang_timeout_s * int64_t{1'000'000'000};
      while (LivesOn(status) && NowNs() < give_up_ns) status = ftarOpWait(op, kWaitNs, nullptr);
    }
    ftarOpRelease(op);
    return status;
  };
  ftarResult_t status = FTAR_OK;
  if (!options_.blocking) {
    status = ftarOpStartMany(group, batch.data(), sizeof batch[0], batch.size(), batch_ops_.data());
    for (size_t i = 0; status == FTAR_OK && i < batch.size(); ++i) status = finish(batch_ops_[i]);
    return status == FTAR_OK ? AwaitStreams() : status;
  }
  for (size_t i = 0; status == FTAR_OK && i < batch.size(); ++i) {
    ftarOp_t op = nullptr;
    status = ftarOpStart(group, &batch[i], &op);
    if (status == FTAR_OK) status = finish(op);
  }
  return status == FTAR_OK ? AwaitStreams() : status;
}

// The ideal's results are checked like libftar's, and the times are for one operation.
void Engine::EndSamples(RowRecord* record) {
  const Row& row = schedule_.rows()[record->row];
  const int64_t parts = row.buckets.empty() ? row.aggregate : 1;
  std::vector<double> sample;
  for (int64_t ns : sampler_->times_ns()) {
    record->times_ns.push_back(ns / parts);
    sample.push_back(static_cast<double>(ns) / static_cast<double>(parts));
  }
  for (int64_t ns : sampler_->ideal_ns()) record->ideal_ns.push_back(ns / parts);
  record->time_ns = std::max<int64_t>(1, static_cast<int64_t>(Quantile(sample, 0.5)));
  if (options_.ideal == IdealKind::kNone || place_wrong_ < 0) return;
  std::vector<Participant> all;
  for (int32_t replica : layout_.replicas) all.push_back({replica, 1});
  const uint64_t wrong = sampler_->CountIdealWrong(
      ExpectedTile(row.dtype, row.redop, all, place_round_,
                   options_.rounding ? Values::kRounding : Values::kExact));
  record->ideal_wrong = static_cast<int64_t>(wrong);
  wrong_total_ += wrong;
  place_wrong_ += static_cast<int64_t>(wrong);
}

ftarResult_t Engine::EndPlace(const Slot& slot) {
  const ftarResult_t status = Drain();
  if (status != FTAR_OK) return status;
  RowRecord record;
  record.row = slot.row;
  record.in_place = slot.in_place;
  record.members = static_cast<int32_t>(layout_.replicas.size());
  const Row& row = RowOf(slot);
  if (sampler_ != nullptr) {
    EndSamples(&record);
    NoteMoved(row, &record);
  } else if (place_from_start_) {
    const int64_t ops = int64_t{row.iters} * row.aggregate;
    record.time_ns = std::max<int64_t>(1, (timed_end_ns_ - timed_begin_ns_) / ops);
    if (bulk_ != nullptr) {
      const double seconds = static_cast<double>(timed_end_ns_ - timed_begin_ns_) / 1e9;
      record.bulk_rate =
          static_cast<int64_t>(static_cast<double>(bulk_end_ - bulk_begin_) / seconds);
    }
  }
  if (options_.OnDevice() && place_from_start_) record.block_us = block_us_;
  record.matmul_ns = matmul_ns_;
  record.matmul_beside_ns = matmul_beside_ns_;
  record.beside_ns = beside_ns_;
  // Those of a rank that entered in the middle are not the first ones.
  if (options_.per_iteration && sampler_ == nullptr && place_from_start_)
    record.times_ns = iteration_ns_;
  record.wrong = place_wrong_;
  reporter_->Send(record);
  return FTAR_OK;
}

ftarResult_t Engine::Post(uint64_t seq, const Slot& slot, uint64_t batch) {
  while (!flights_.empty() && flights_.size() + batch > static_cast<size_t>(window_)) {
    const ftarResult_t status = WaitOldest();
    if (status != FTAR_OK) return status;
  }
  std::vector<ftarOpDesc> descs;
  std::vector<ftarOp_t> ops(batch, nullptr);
  std::vector<Flight> flights;
  for (uint64_t i = 0; i < batch; ++i) {
    Flight flight = NewPlacedFlight(seq + i, slot);
    flight.slot.index += static_cast<int>(i);
    flight.checked = slot.phase == Phase::kCheck || options_.CheckEvery();
    flight.round = flight.checked ? seq + i : place_round_;
    const ftarResult_t filled = flight.checked ? FillInput(flight) : FTAR_OK;
    if (filled != FTAR_OK) return filled;
    descs.push_back(DescribeOp(flight));
    flights.push_back(flight);
  }
  SetState(RankState::kStarts, seq);
  if (slot.phase == Phase::kTimed && timed_begin_ns_ == 0) {
    timed_begin_ns_ = last_done_ns_ =
        ClockNs(options_.cpu_time ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC);
    if (bulk_ != nullptr) bulk_begin_ = bulk_->bytes();
  }
  if (slot.phase == Phase::kTimed) StampHook(slot);
  const ftarResult_t status =
      ftarOpStartMany(session_->group(), descs.data(), sizeof descs[0], batch, ops.data());
  if (status != FTAR_OK) return status;
  for (uint64_t i = 0; i < batch; ++i) {
    flights[i].op = ops[i];
    flights_.push_back(flights[i]);
  }
  if (slot.phase == Phase::kTimed) ArmStrike(slot);
  // The clock stops when the last timed operation is delivered, before anything else is started.
  if (slot.phase == Phase::kTimed &&
      slot.index + static_cast<int>(batch) == RowOf(slot).iters * RowOf(slot).aggregate) {
    return Drain();
  }
  return FTAR_OK;
}

ftarResult_t Engine::Drain() {
  while (!flights_.empty()) {
    const ftarResult_t status = WaitOldest();
    if (status != FTAR_OK) return status;
  }
  return FTAR_OK;
}

ftarResult_t Engine::WaitOldest() {
  const Flight flight = flights_.front();
  ftarOutcome outcome = FTAR_OUTCOME_INIT;
  const ftarResult_t status = WaitFinal(flight.op, flight.seq, &outcome);
  if (!IsVerdict(status)) return status;
  // Streams that others are on have something to do meanwhile.
  const ftarResult_t passed = flights_.size() == 1 ? AwaitStreams() : FTAR_OK;
  if (passed != FTAR_OK) return passed;
  if (flight.slot.phase == Phase::kTimed) NoteTime(flight.slot, flight.slot.index);
  flights_.pop_front();
  Deliver(flight, outcome);
  ftarOpRelease(flight.op);
  return FTAR_OK;
}

// Operation `index` of the timed ones is done; an iteration's time is that of one operation of it.
void Engine::NoteTime(const Slot& slot, int index) {
  timed_end_ns_ = ClockNs(options_.cpu_time ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC);
  if (bulk_ != nullptr) bulk_end_ = bulk_->bytes();
  const int aggregate = RowOf(slot).aggregate;
  if ((index + 1) % aggregate != 0) return;
  if (options_.per_iteration) iteration_ns_.push_back((timed_end_ns_ - last_done_ns_) / aggregate);
  last_done_ns_ = timed_end_ns_;
}

ftarResult_t Engine::WaitFinal(ftarOp_t op, uint64_t seq, ftarOutcome* outcome) {
  SetState(RankState::kWaits, seq);
  // Under a foreign launcher nobody else watches for a hang.
  const int64_t give_up_ns = NowNs() + options_.hang_timeout_s * int64_t{1'000'000'000};
  while (true) {
    const ftarResult_t status = ftarOpWait(op, kWaitNs, outcome);
    if (!LivesOn(status)) return status;
    if (options_.role.index < 0 && NowNs() > give_up_ns) return FTAR_TIMEOUT;
    // Quorum and coordinator answer at once; asking again in a moment is enough.
    if (status != FTAR_TIMEOUT) SleepNs(10'000'000);
  }
}

void Engine::Deliver(const Flight& flight, const ftarOutcome& outcome) {
  ++done_;
  board_->delivered.store(done_, std::memory_order_relaxed);
  const int64_t took_ns = outcome.delivered_ns - outcome.start_ns;
  typical_ns_ = typical_ns_ == 0 ? took_ns : (3 * typical_ns_ + took_ns) / 4;
  if (flight.checked || flight.slot.phase == Phase::kBarrier || outcome.status != FTAR_OK) {
    OpRecord record;
    record.seq = outcome.seq;
    record.epoch = outcome.epoch;
    record.status = outcome.status;
    record.attempts = outcome.attempts;
    record.bytes_resent = outcome.bytes_resent;
    record.start_ns = outcome.start_ns;
    record.delivered_ns = outcome.delivered_ns;
    SetState(RankState::kVerifying, flight.seq);
    record.wrong = Check(flight, outcome, &record);
    wrong_total_ += record.wrong;
    if (place_wrong_ >= 0) place_wrong_ += static_cast<int64_t>(record.wrong);
    reporter_->Send(record);
  }
  if (outcome.epoch != last_epoch_) {
    last_epoch_ = outcome.epoch;
    session_->SendCounters(last_epoch_);
  }
}

uint64_t Engine::Check(const Flight& flight, const ftarOutcome& outcome, OpRecord* record) {
  const std::vector<OpMember> members = MembersOf(flight.op);
  record->who = DigestMembers(members);
  double weight_sum = 0;
  for (const OpMember& member : members) {
    weight_sum += member.weight;
    if (member.weight > 0) record->participants.push_back(member.replica);
  }
  if (outcome.status != FTAR_OK) {
    if (failure_.empty())
      failure_ = fmt::format("operation {}: {}", flight.seq, ftarResultString(outcome.status));
    return 0;
  }
  uint64_t wrong = 0;
  // What the outcome says of itself must agree with the list of participants.
  if (outcome.seq != flight.seq || weight_sum != outcome.weight_sum ||
      record->participants.size() != static_cast<size_t>(outcome.participants)) {
    ++wrong;
  }
  if (!flight.checked) return wrong;
  const Row& row = RowOf(flight.slot);
  const OpContext context = ContextOf(flight);
  const uint64_t width = TypeOf(row.dtype).bytes;
  const uint64_t recv_bytes = flight.shape->recv_elements * width;
  const char* recv = buffers_->Read(flight.buffers.recv, recv_bytes);
  if (recv == nullptr) return wrong + std::max<uint64_t>(flight.shape->recv_elements, 1);
  // A ring adds in its own order, so with rounding only agreement can be asked of it.
  if (!options_.rounding || outcome.plan != kRingPlan)
    wrong += case_->count_wrong(context, *flight.shape, members, recv);
  if (case_->same_output) record->digest = XXH3_64bits(recv, recv_bytes);
  if (!flight.slot.in_place) {
    // Out of place the input is never touched.
    const ftarRedop_t redop = CollectiveOf(row.kind).reduces ? row.redop : FTAR_SUM;
    const char* send = buffers_->Read(flight.buffers.send, flight.shape->send_elements * width);
    if (send == nullptr) return wrong + 1;
    wrong +=
        CountWrong(InputTile(row.dtype, redop, context.my_replica, flight.round, context.values), 0,
                   flight.shape->send_elements, send);
  }
  return wrong;
}

std::vector<OpMember> Engine::MembersOf(ftarOp_t op) const {
  std::vector<ftarMemberInfo> infos(kMembersMax);
  size_t n = 0;
  std::vector<OpMember> members;
  if (ftarOpParticipants(op, infos.data(), sizeof infos[0], infos.size(), &n) != FTAR_OK)
    return members;
  for (size_t i = 0; i < std::min(n, infos.size()); ++i) {
    members.push_back({infos[i].id, infos[i].replica, infos[i].weight});
  }
  return members;
}

OpContext Engine::ContextOf(const Flight& flight) const {
  return {&RowOf(flight.slot),  &layout_,
          session_->replica(),  flight.round,
          flight.slot.in_place, options_.rounding ? Values::kRounding : Values::kExact};
}

ftarOpDesc Engine::DescribeOp(const Flight& flight) const {
  const Row& row = RowOf(flight.slot);
  ftarOpDesc desc = FTAR_OP_DESC_INIT;
  desc.kind = row.kind;
  if (options_.OnDevice()) {
    desc.stream_kind = FTAR_STREAM_CUDA;
    desc.stream = buffers_->cuda()->stream(flight.place);
  }
  if (row.kind == FTAR_BARRIER) return desc;
  desc.dtype = row.dtype;
  if (CollectiveOf(row.kind).reduces) desc.redop = row.redop;
  desc.send = flight.buffers.send;
  desc.recv = flight.buffers.recv;
  desc.count = flight.shape->count;
  if (row.kind == FTAR_BROADCAST) desc.root = row.root;
  if (row.kind != FTAR_ALLREDUCE) desc.epoch = layout_.epoch;
  if (row.redop == FTAR_WAVG && CollectiveOf(row.kind).reduces)
    desc.weight = WeightOf(session_->replica());
  return desc;
}

// What the ranks of a foreign launcher tell each other: the time first, then the wrong elements.
ftarResult_t Engine::Share(uint64_t seq, const Slot& slot) {
  ftarResult_t status = Drain();
  if (status != FTAR_OK) return status;
  double time_ns = static_cast<double>(timed_end_ns_ - timed_begin_ns_);
  auto wrong = static_cast<uint64_t>(std::max<int64_t>(place_wrong_, 0));
  ftarOpDesc desc = FTAR_OP_DESC_INIT;
  desc.count = 1;
  if (slot.phase == Phase::kShareTime) {
    constexpr ftarRedop_t kOps[] = {FTAR_AVG, FTAR_AVG, FTAR_MIN, FTAR_MAX};
    desc.dtype = FTAR_F64;
    desc.redop = kOps[static_cast<int>(options_.average)];
    // "Rank 0's time" is an average in which nobody else counts.
    if (options_.average == Average::kRank0) desc.weight = layout_.my_index == 0 ? 1 : 0;
    desc.send = desc.recv = &time_ns;
  } else {
    desc.dtype = FTAR_U64;
    desc.send = desc.recv = &wrong;
  }
  ftarOp_t op = nullptr;
  status = ftarOpStart(session_->group(), &desc, &op);
  if (status != FTAR_OK) return status;
  ftarOutcome outcome = FTAR_OUTCOME_INIT;
  status = WaitFinal(op, seq, &outcome);
  ftarOpRelease(op);
  if (status == FTAR_OK) ++done_;
  // Nobody counts when rank 0 has just gone; then each keeps its own time.
  if (status == FTAR_ERR_ABSENT) status = FTAR_OK;
  timed_end_ns_ = timed_begin_ns_ + static_cast<int64_t>(time_ns);
  if (slot.phase == Phase::kShareWrong && place_wrong_ >= 0) {
    wrong_total_ += wrong - static_cast<uint64_t>(place_wrong_);
    place_wrong_ = static_cast<int64_t>(wrong);
  }
  return status;
}

ftarResult_t Engine::BeforeTimed(uint64_t seq, const Slot& slot) {
  board_->iteration.store(slot.iteration, std::memory_order_relaxed);
  if (slot.index % RowOf(slot).aggregate != 0) return FTAR_OK;
  if (board_->leave.load(std::memory_order_relaxed) != 0) return LeaveNow(seq);
  int newcomer = options_.role.world;
  for (const FaultSpec& fault : options_.faults) {
    if (fault.kind == FaultKind::kStart) ++newcomer;  // takes a place in the count, and no more
    if (fault.kind == FaultKind::kJoin) {
      const uint64_t end = schedule_.iterations();
      // A newcomer takes its time to start; the run waits for it near its end rather than miss it.
      const uint64_t hold = std::max(fault.iteration, end > 32 ? end - 32 : 0);
      if (slot.iteration == hold) awaited_.push_back(newcomer);
      ++newcomer;
    }
    if (!IsVictim(fault) || fault.iteration != slot.iteration) continue;
    if (fault.kind == FaultKind::kDelay) {
      SetState(RankState::kSleeping, seq);
      board_->strike_ns.store(NowNs(), std::memory_order_release);
      SleepNs(fault.delay_ms * 1'000'000);
    } else if (fault.kind == FaultKind::kLeave) {
      return LeaveNow(seq);
    }
  }
  return AwaitNewcomers(seq, slot.iteration);
}

// What is in flight ends as usual, after the leave.
ftarResult_t Engine::LeaveNow(uint64_t seq) {
  board_->strike_ns.store(NowNs(), std::memory_order_release);
  SetState(RankState::kLeaving, seq);
  ftarResult_t status = session_->Leave();
  if (status == FTAR_OK) status = Drain();
  return status == FTAR_OK ? FTAR_ERR_LEFT : status;
}

// The first process chooses the end that it is asked for, and none that anybody can have passed: it
// has started less than a window of operations from here on, and who is a window ahead of those
// waits for it.
bool Engine::EndsBefore(uint64_t seq) {
  if (board_ == command_ && command_->end_asked.load(std::memory_order_relaxed) != 0 &&
      command_->end_seq.load(std::memory_order_relaxed) == 0) {
    command_->end_seq.store(seq + 2 * static_cast<uint64_t>(window_), std::memory_order_release);
  }
  const uint64_t end = command_->end_seq.load(std::memory_order_acquire);
  return end != 0 && seq >= end;
}

// A leave ends at an operation that lies ahead, and a join waits for that end: the others must call
// on until the leaver is out.
ftarResult_t Engine::AwaitNewcomers(uint64_t seq, uint64_t iteration) {
  if (awaited_.empty() || SomebodyLeaves(iteration)) return FTAR_OK;
  const ftarResult_t status = Drain();
  if (status != FTAR_OK) return status;
  SetState(RankState::kHolding, seq);
  for (const int newcomer : awaited_) {
    // It may have been in and be gone again, struck.
    const BoardSlot& slot = all_->slot(newcomer);
    while (!session_->HasReplica(newcomer) && slot.delivered.load() == 0) SleepNs(1'000'000);
  }
  awaited_.clear();
  return FTAR_OK;
}

bool Engine::SomebodyLeaves(uint64_t iteration) const {
  return std::any_of(options_.faults.begin(), options_.faults.end(), [&](const FaultSpec& fault) {
    return fault.kind == FaultKind::kLeave && fault.iteration <= iteration &&
           session_->HasReplica(fault.rank);
  });
}

void Engine::ArmStrike(const Slot& slot) {
  if (!options_.fault_stage.empty()) return;  // the library's hook strikes
  for (const FaultSpec& fault : options_.faults) {
    if (!IsVictim(fault) || fault.iteration != slot.iteration || !StrikesBySignal(fault.kind))
      continue;
    std::mt19937_64 random(options_.seed);
    const double part = std::uniform_real_distribution<double>(0, 1)(random);
    striker_.Arm(fault.kind, static_cast<int64_t>(part * static_cast<double>(typical_ns_)));
  }
}

// The library's hook leaves no time behind.  A silent strike comes with the call of its operation;
// a death is dated by whoever sees it.
void Engine::StampHook(const Slot& slot) {
  for (const FaultSpec& fault : options_.faults) {
    if (IsVictim(fault) && fault.iteration == slot.iteration && StrikesByHook(fault.kind) &&
        fault.kind != FaultKind::kExit) {
      board_->strike_ns.store(NowNs(), std::memory_order_release);
    }
  }
}

void Engine::SetState(RankState state, uint64_t seq) {
  board_->seq.store(seq, std::memory_order_relaxed);
  board_->state.store(static_cast<int32_t>(state), std::memory_order_relaxed);
}

}  // namespace ftar::perf
