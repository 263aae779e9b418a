#include "runtime/asides.h"

#include <algorithm>
#include <bit>

#include "runtime/no_cancel.h"

namespace ftar::runtime {
namespace {

// So that it seldom has to grow: a new block costs its pages, and goes to all the others first.
constexpr uint64_t kBytesMin = 4 << 20;

// Who lets go of it last closes a descriptor.
std::shared_ptr<std::byte> Wholly(std::shared_ptr<const transport::ExportedBlock> block) {
  std::byte* const data = block->data;
  return {data, [held = std::move(block)](std::byte*) mutable {
            const NoCancel whole;
            held.reset();
          }};
}

}  // namespace

Asides::~Asides() {
  for (const auto& [group, block] : blocks_) exports_->Free(block.memory.get());
}

std::shared_ptr<std::byte> Asides::Take(TimeNs now, GroupKey group, uint64_t bytes, Epoch view) {
  Block& block = blocks_[group];
  if (block.memory != nullptr && (block.view != view || block.bytes < bytes)) {
    exports_->Free(block.memory.get());
    block = {};
  }
  if (block.memory == nullptr) {
    const NoCancel whole;
    block.bytes = std::bit_ceil(std::max(bytes, kBytesMin));
    const auto fresh = exports_->Allocate(block.bytes, transport::Pages::kNow);
    if (fresh.ok()) block.memory = Wholly(exports_->Find(*fresh, block.bytes));
    block.view = view;
  }
  block.taken_ns = now;
  return block.memory;
}

void Asides::Trim(TimeNs now, TimeNs idle_ns) {
  std::erase_if(blocks_, [&](const auto& entry) {
    const Block& block = entry.second;
    if (now - block.taken_ns < idle_ns) return false;
    exports_->Free(block.memory.get());
    return true;
  });
}

}  // namespace ftar::runtime
