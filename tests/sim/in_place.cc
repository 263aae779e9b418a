#include "in_place.h"

namespace ftar::sim {

std::string FastBlocks::Make(GroupKey group, const collective::Work& work, Epoch era,
                             Memory* memory, MemberLane* lane) {
  const uint64_t first = work.dst.offset / kElementBytes;
  const bool sums = work.kind == collective::Work::Kind::kReduceFinal;
  if (way_ != Way::kAside) {
    std::string wrong = way_ == Way::kSaved ? memory->Save(work.dst, &saved_) : "";
    bool spoiled = false;
    if (wrong.empty()) wrong = memory->Run(work, era, &spoiled);
    Buffer made;
    if (wrong.empty() && sums && work.shown) {
      wrong = memory->Read(work.dst, &made);
      lane->PutAside(group, work.seq, first, made);
    }
    return wrong;
  }
  if (!sums) {
    const collective::BufferRef& from = work.sources[0].buffer;
    if (auto kept = lane->KeptSums(group, from.id)) {
      kept_.push_back({std::move(kept), from.offset / kElementBytes, work.dst});
      return "";
    }
  }
  Buffer made;
  std::string wrong = memory->RunAside(work, era, &made);
  if (sums && work.shown) lane->PutAside(group, work.seq, first, made);
  kept_.push_back({std::make_shared<Buffer>(std::move(made)), 0, work.dst});
  return wrong;
}

std::string FastBlocks::Land(Memory* memory) {
  std::string wrong;
  for (const Kept& kept : kept_) {
    if (wrong.empty()) wrong = memory->Write(kept.at, *kept.from, kept.first);
  }
  kept_.clear();
  return wrong;
}

std::string FastBlocks::Adopt(uint64_t id, Memory* memory) {
  std::string wrong;
  for (const Kept& kept : kept_) {
    if (wrong.empty()) wrong = memory->Save(kept.at, &saved_);
  }
  if (wrong.empty()) wrong = Land(memory);
  memory->Adopt(id, std::exchange(saved_, {}));
  return wrong;
}

}  // namespace ftar::sim
