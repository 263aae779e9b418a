#include "perf/collector.h"

#include <algorithm>

#include "fmt/format.h"
#include "fmt/ranges.h"

namespace ftar::perf {
namespace {

constexpr size_t kDisagreementsMax = 20;

}  // namespace

std::string Difference(const OpRecord& left, const OpRecord& right) {
  if (left.status != right.status)
    return fmt::format("status {} and {}", left.status, right.status);
  if (left.participants != right.participants) {
    return fmt::format("participants {} and {}", left.participants, right.participants);
  }
  if (left.epoch != right.epoch)
    return fmt::format("epoch {:#x} and {:#x}", left.epoch, right.epoch);
  if (left.who != right.who) return "incarnations or weights of the participants";
  if (left.digest != right.digest) {
    return fmt::format("result digest {:016x} and {:016x}", left.digest, right.digest);
  }
  return "";
}

Collector::Collector(const Options& options, const Schedule& schedule, Table* table)
    : options_(options), schedule_(schedule), table_(table) {}

void Collector::OnStart(int rank, bool original) { histories_[rank].original = original; }

void Collector::OnRecord(int rank, const Record& record) {
  History& history = histories_[rank];
  if (const auto* hello = std::get_if<HelloRecord>(&record)) {
    history.hello = *hello;
    CheckHeader();
  } else if (const auto* op = std::get_if<OpRecord>(&record)) {
    OnOp(rank, *op);
  } else if (const auto* event = std::get_if<EventRecord>(&record)) {
    history.events.push_back(*event);
  } else if (const auto* counters = std::get_if<CountersRecord>(&record)) {
    history.counters.push_back(*counters);
  } else if (const auto* row = std::get_if<RowRecord>(&record)) {
    rows_[{row->row, row->in_place}][rank] = *row;
    CheckRow(row->row, row->in_place);
  } else if (const auto* end = std::get_if<EndRecord>(&record)) {
    history.end = *end;
  }
}

void Collector::OnGone(int rank) {
  histories_[rank].gone = true;
  CheckHeader();
  // Rows may have been waiting for this rank alone.
  std::vector<std::pair<size_t, bool>> waiting;
  for (const auto& [key, records] : rows_) waiting.push_back(key);
  for (const auto& [row, in_place] : waiting) CheckRow(row, in_place);
}

void Collector::OnOp(int rank, const OpRecord& record) {
  histories_[rank].ops.push_back(record);
  wrong_ += record.wrong;
  std::vector<OpRecord>& ops = histories_[rank].ops;
  if (limit_ > 0 && ops.size() > 2 * limit_)
    ops.erase(ops.begin(), ops.end() - static_cast<ptrdiff_t>(limit_));
  if (limit_ > 0 && record.seq > limit_)
    first_.erase(first_.begin(), first_.lower_bound(record.seq - limit_));
  const auto [it, inserted] = first_.try_emplace(record.seq, First{rank, record});
  if (inserted) return;
  ++compared_;
  const std::string difference = Difference(it->second.record, record);
  if (difference.empty() || disagreements_.size() >= kDisagreementsMax) return;
  disagreements_.push_back(fmt::format("operation {}: ranks {} and {} disagree: {}", record.seq,
                                       it->second.rank, rank, difference));
}

void Collector::CheckHeader() {
  if (header_printed_) return;
  std::vector<HelloRecord> ranks;
  for (const auto& [rank, history] : histories_) {
    if (!history.original) continue;
    if (!history.hello && !history.gone) return;
    if (history.hello) ranks.push_back(*history.hello);
  }
  header_printed_ = true;
  table_->Header(ranks);
}

void Collector::CheckRow(size_t row, bool in_place) {
  const auto it = rows_.find({row, in_place});
  if (it == rows_.end() || !header_printed_) return;
  std::vector<RowRecord> records;
  for (const auto& [rank, history] : histories_) {
    const auto record = it->second.find(rank);
    if (record != it->second.end()) {
      records.push_back(record->second);
    } else if (history.original && !Lost(history)) {
      return;  // this rank is still busy with it
    }
  }
  if (records.empty()) return;
  table_->Add(records);
  rows_.erase(it);
}

std::vector<std::string> Collector::Complaints() const {
  std::vector<std::string> complaints;
  bool root_may_go = false;
  for (const FaultSpec& fault : options_.faults) {
    root_may_go = root_may_go || (RemovesVictim(fault.kind) && fault.rank == options_.root);
  }
  const auto world = static_cast<size_t>(options_.ranks);
  for (const auto& [seq, first] : first_) {
    const OpRecord& op = first.record;
    const bool broadcast = schedule_.rows()[schedule_.At(seq).row].kind == FTAR_BROADCAST;
    if (op.status != FTAR_OK && !(broadcast && root_may_go)) {
      complaints.push_back(
          fmt::format("operation {} ended in {}", seq, ftarResultString(op.status)));
    } else if (op.status == FTAR_OK && options_.faults.empty() && op.participants.size() != world) {
      complaints.push_back(
          fmt::format("operation {} had participants {} of {}", seq, op.participants, world));
    }
    if (complaints.size() >= kDisagreementsMax) break;
  }
  if (first_.empty() || options_.faults.empty()) return complaints;
  const std::vector<int32_t>& last = first_.rbegin()->second.record.participants;
  for (const FaultSpec& fault : options_.faults) {
    if (RemovesVictim(fault.kind) &&
        std::find(last.begin(), last.end(), fault.rank) != last.end()) {
      complaints.push_back(fmt::format("rank {} was to go by {}, and is in the last operation",
                                       fault.rank, ToString(fault)));
    }
  }
  for (const auto& [rank, history] : histories_) {
    const bool struck = std::any_of(
        options_.faults.begin(), options_.faults.end(),
        [&](const FaultSpec& fault) { return fault.rank == rank && RemovesVictim(fault.kind); });
    if (history.original || !history.hello || struck) continue;
    if (std::find(last.begin(), last.end(), rank) == last.end()) {
      complaints.push_back(fmt::format("rank {} joined, and is not in the last operation", rank));
    }
  }
  return complaints;
}

}  // namespace ftar::perf
