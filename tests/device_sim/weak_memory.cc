#include "weak_memory.h"

#include <algorithm>

namespace ftar::device_sim {
namespace {

uint32_t& At(View* view, uint32_t word) {
  if (view->size() <= word) view->resize(word + 1, 0);
  return (*view)[word];
}

}  // namespace

void Join(View* view, const View& other) {
  if (view->size() < other.size()) view->resize(other.size(), 0);
  for (size_t i = 0; i < other.size(); ++i) (*view)[i] = std::max((*view)[i], other[i]);
}

void WeakMemory::Reset(double staleness) {
  staleness_ = staleness;
  for (Word& word : words_) word.messages.assign(1, {});
}

// Words keep their numbers from run to run: the addresses are the same.
uint32_t WeakMemory::WordOf(uintptr_t address) {
  const auto [place, is_new] = numbers_.try_emplace(address, static_cast<uint32_t>(words_.size()));
  if (is_new) words_.push_back({.messages = {{}}});
  return place->second;
}

Value WeakMemory::Load(View* view, uintptr_t address, bool acquires) {
  const uint32_t number = WordOf(address);
  const std::vector<Message>& messages = words_[number].messages;
  uint32_t& oldest = At(view, number);
  auto read = static_cast<uint32_t>(messages.size() - 1);
  if (read > oldest && random_->Chance(staleness_)) {
    read = oldest + static_cast<uint32_t>(random_->Below(read - oldest + 1));
  }
  oldest = read;
  const Message& message = messages[read];
  if (acquires && message.view != nullptr) Join(view, *message.view);
  return message.value;
}

void WeakMemory::Store(View* view, uintptr_t address, Value value, bool releases) {
  const uint32_t number = WordOf(address);
  std::vector<Message>& messages = words_[number].messages;
  At(view, number) = static_cast<uint32_t>(messages.size());
  messages.push_back({.value = value, .view = nullptr});
  if (releases) messages.back().view = std::make_shared<const View>(*view);
}

Value WeakMemory::Last(uintptr_t address) { return words_[WordOf(address)].messages.back().value; }

bool WeakMemory::MustSeeLast(const View& view, uintptr_t address) {
  const uint32_t number = WordOf(address);
  const uint32_t oldest = number < view.size() ? view[number] : 0;
  return oldest + 1 == words_[number].messages.size();
}

}  // namespace ftar::device_sim
