// One collective, as far as ftar-perf must know it: shape, bus factor, inputs and the known answer.
//
// Purpose: the engine runs any collective through these five functions; each lives in its own file
// under cases/.
// Threads: pure functions.  Ownership: nothing is owned.
#ifndef FTAR_PERF_CASE_H_
#define FTAR_PERF_CASE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "ftar/ftar.h"
#include "perf/schedule.h"
#include "perf/verify.h"

namespace ftar::perf {

struct Shape {
  uint64_t count = 0;  // what the descriptor says
  uint64_t send_elements = 0;
  uint64_t recv_elements = 0;
  uint64_t bytes = 0;  // what the table says and bandwidth counts
};

// A member as ftarOpParticipants reports it.
struct OpMember {
  ftarId id{};
  int32_t replica = 0;
  double weight = 1;
};

// Which member owns which segment: the group's list when the row began.  Collectives without
// segments use it only for its size.
struct Layout {
  uint64_t epoch = 0;
  std::vector<int32_t> replicas;
  int my_index = -1;
};

struct OpContext {
  const Row* row = nullptr;
  const Layout* layout = nullptr;
  int32_t my_replica = 0;
  uint64_t round = 0;  // inputs differ from round to round
  bool in_place = false;
  Values values = Values::kExact;
};

struct Case {
  ftarKind_t kind;
  bool same_output;  // every member gets the same bytes, so digests can be compared
  Shape (*shape)(const Row& row, int members);
  double (*bus_factor)(int members);
  // Writes this member's input.
  void (*fill)(const OpContext& context, const Shape& shape, void* send);
  // Wrong elements of this member's output, given who took part.
  uint64_t (*count_wrong)(const OpContext& context, const Shape& shape,
                          std::span<const OpMember> members, const void* recv);
};

const Case& CaseOf(ftarKind_t kind);

extern const Case kAllReduceCase;
extern const Case kReduceScatterCase;
extern const Case kAllGatherCase;
extern const Case kBroadcastCase;
extern const Case kBarrierCase;

}  // namespace ftar::perf

#endif  // FTAR_PERF_CASE_H_
