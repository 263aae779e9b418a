// What a rank tells about its run: to the launcher as JSON lines, or straight to the table.
//
// Purpose: typed records on both sides of the pipe, so that judging them needs no process.
// Threads: plain data; encoding and decoding are pure.  Ownership: records own their strings.
#ifndef FTAR_PERF_RECORDS_H_
#define FTAR_PERF_RECORDS_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace ftar::perf {

// The rank has joined.
struct HelloRecord {
  int64_t pid = 0;
  std::string host;
  int32_t rank = -1, members = 0;
  uint64_t first_seq = 0, epoch = 0;
  int64_t time_ns = 0;
};

// One delivered operation that was checked.
struct OpRecord {
  uint64_t seq = 0, epoch = 0;
  int32_t status = 0;
  std::vector<int32_t> participants;  // replicas with weight > 0, in member order
  uint64_t who = 0;                   // a digest of the participants' incarnations and weights
  uint64_t digest = 0;                // of the result; 0 where members get different bytes
  uint64_t wrong = 0;
  int32_t attempts = 0;
  uint64_t bytes_resent = 0;
  int64_t start_ns = 0, delivered_ns = 0;
};

// One ftarEvent.
struct EventRecord {
  int32_t type = 0, cause = 0;
  uint64_t epoch = 0;
  int64_t time_ns = 0;
  int32_t replica = -1;  // whom it speaks of
  std::string text;
};

// One half of a line of the table.
struct RowRecord {
  uint64_t row = 0;
  bool in_place = false;
  int64_t time_ns = 0;  // per operation; 0: this rank entered in the middle
  int64_t wrong = -1;   // -1: unchecked
  int32_t members = 0;
  std::vector<int64_t> times_ns;  // per iteration, only with -I or --fresh
  std::vector<int64_t> ideal_ns;  // the ideal's, only with --ideal
  int64_t ideal_wrong = -1;       // part of wrong
  int64_t block_us = -1;          // of a GPU, over all timed operations
  int64_t moved = -1, ideal_moved = -1;  // bytes, over all timed operations, only with --ideal
  // With --matmul, 0 where unknown: a product alone and beside operations, and one of these then.
  int64_t matmul_ns = 0, matmul_beside_ns = 0, beside_ns = 0;
  int64_t bulk_rate = -1;  // of the operations of --beside, in bytes a second
};

inline constexpr std::array<const char*, 8> kCounterNames = {
    "links_opened", "links_closed",     "links_kept",    "bytes_sent",
    "bytes_resent", "control_messages", "ops_delivered", "view_changes"};
enum CounterIndex { kLinksOpened, kLinksClosed, kLinksKept, kBytesSent, kBytesResent };

// The library's counters: each time the epoch has changed, before the last operation, at the end.
struct CountersRecord {
  uint64_t epoch = 0;
  int64_t time_ns = 0;
  std::array<uint64_t, kCounterNames.size()> values{};
};

// The last record of a rank that was not killed.
struct EndRecord {
  int32_t status = 0;  // FTAR_OK when the schedule was finished
  uint64_t delivered = 0;
  std::string text;
};

using Record =
    std::variant<HelloRecord, OpRecord, EventRecord, RowRecord, CountersRecord, EndRecord>;

// One line without the newline.
std::string Encode(const Record& record);
// Nothing when the line is not one of ours.
std::optional<Record> Decode(std::string_view line);

}  // namespace ftar::perf

#endif  // FTAR_PERF_RECORDS_H_
