// Inputs whose answer is exactly known, and the check of results against it.
//
// Purpose: element i of replica r's input in round k is a function of (r, k, i), so anyone can say
// what any set of participants must get.  Values are small enough that every sum and product is
// exact, or is rounded once as the library promises; so results are compared bit for bit.
// Values repeat with a prime period, which no chunk, page or shard size divides: data that landed
// in the wrong place is wrong data.
// Threads: pure functions.  Ownership: a Tile owns its bytes.
#ifndef FTAR_PERF_VERIFY_H_
#define FTAR_PERF_VERIFY_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ftar/ftar.h"

namespace ftar::perf {

inline constexpr size_t kPeriod = 8191;  // elements

// kExact: the answer is the same in any order of additions.  kRounding: full significands, so that
// the answer is that of member order, which the library promises for one-shot and direct plans.
enum class Values { kExact, kRounding };

// One period of values, as bytes of the data type.
struct Tile {
  size_t element_bytes = 0;
  std::vector<std::byte> bytes;
};

// A participant as the library reports it, cut down to what values depend on.
struct Participant {
  int32_t replica = 0;
  double weight = 1;
};

// The weight that a replica gives to a weighted average: differs between neighbours, exact in any
// type.
double WeightOf(int32_t replica);

Tile InputTile(ftarDtype_t dtype, ftarRedop_t redop, int32_t replica, uint64_t round,
               Values values = Values::kExact);

// What the participants must get, in their order.  A participant of weight 0 is not read.
Tile ExpectedTile(ftarDtype_t dtype, ftarRedop_t redop, std::span<const Participant> participants,
                  uint64_t round, Values values = Values::kExact);

// Writes `count` elements that continue the tile at element `first`.
void FillTiled(const Tile& tile, uint64_t first, uint64_t count, void* buffer);

// How many of the `count` elements differ from the tile that continues at element `first`.
uint64_t CountWrong(const Tile& tile, uint64_t first, uint64_t count, const void* buffer);

}  // namespace ftar::perf

#endif  // FTAR_PERF_VERIFY_H_
