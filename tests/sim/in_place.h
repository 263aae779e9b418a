// What a member on the fast path does with a shared operation's blocks (engine.h). In place they
// are saved and written over, or its sums wait aside, in memory that host-mates see, until all is
// done: the driver's two ways.
#ifndef FTAR_TESTS_SIM_IN_PLACE_H_
#define FTAR_TESTS_SIM_IN_PLACE_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lane.h"
#include "memory.h"

namespace ftar::sim {

class FastBlocks {
 public:
  // `keeps`: in place its sums wait aside.
  void Begin(const collective::OpSpec& spec, bool keeps) {
    way_ = !spec.in_place ? Way::kOutOfPlace : keeps ? Way::kAside : Way::kSaved;
    saved_.assign(spec.count, {});
    kept_.clear();
  }
  bool keeps_aside() const { return way_ == Way::kAside; }
  // One that is said to be done next. Texts as Memory's.
  std::string Make(GroupKey group, const collective::Work& work, Epoch era, Memory* memory,
                   MemberLane* lane);
  // It is over: what waits aside lands.
  std::string Land(Memory* memory);
  // It goes on like any other.
  std::string Adopt(uint64_t id, Memory* memory);

 private:
  enum class Way { kOutOfPlace, kSaved, kAside };
  struct Kept {
    std::shared_ptr<const Buffer> from;
    uint64_t first = 0;
    collective::BufferRef at;
  };

  Way way_ = Way::kOutOfPlace;
  Buffer saved_;
  std::vector<Kept> kept_;
};

}  // namespace ftar::sim

#endif  // FTAR_TESTS_SIM_IN_PLACE_H_
