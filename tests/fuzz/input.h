// What a fuzz target draws its decisions from: bytes that run out. Whatever they are, something
// legal to try comes of them, so that a mutation changes the story instead of ending it.
#ifndef FTAR_TESTS_FUZZ_INPUT_H_
#define FTAR_TESTS_FUZZ_INPUT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "tests/unit/wire/fields.h"
#include "wire/codec.h"

namespace ftar::fuzz {

// A trap and not an assertion, so that it also counts in a release build.
inline void Require(bool holds) {
  if (!holds) __builtin_trap();
}

class Input {
 public:
  Input(const uint8_t* data, size_t size) : at_(data), end_(data + size) {}

  bool empty() const { return at_ == end_; }
  size_t size() const { return static_cast<size_t>(end_ - at_); }
  uint8_t Byte() { return at_ == end_ ? uint8_t{0} : *at_++; }
  uint32_t Below(uint32_t end) { return Byte() % end; }
  bool Chance() { return (Byte() & 1) != 0; }
  uint64_t Word() {
    uint64_t word = 0;
    std::memcpy(&word, at_, std::min(size(), sizeof word));
    at_ += std::min(size(), sizeof word);
    return word;
  }
  std::string_view Take(size_t bytes) {
    const std::string_view taken(reinterpret_cast<const char*>(at_), std::min(size(), bytes));
    at_ += taken.size();
    return taken;
  }
  std::string_view Rest() { return Take(size()); }

  // Numbers that mean something to the machine under test; Number() likes them and their
  // neighbours.
  void Know(uint64_t number) { known_[next_known_++ % known_.size()] = number; }
  uint64_t Number() {
    const uint8_t choice = Byte();
    if (choice < 160) return choice % 8;
    if (choice < 240) return known_[choice % known_.size()] + Below(3) - 1;
    return Word();
  }

 private:
  const uint8_t *at_, *end_;
  std::vector<uint64_t> known_ = std::vector<uint64_t>(8);
  size_t next_known_ = 0;
};

// Draws a message field by field: a decoder would let through only what mutation rarely finds.
class Drawer {
 public:
  explicit Drawer(Input* input) : input_(input) {}

  // Empty if the drawn message is none that the decoder lets through.
  std::optional<wire::Message> Message() {
    std::vector<wire::Message> all = wire::test::AllMessages(false);
    wire::Message& message = all[input_->Below(static_cast<uint32_t>(all.size()))];
    std::visit([this](auto& body) { Draw(body); }, message);
    Expected<wire::Message> decoded = wire::Decode(wire::Encode(message));
    if (!decoded.ok()) return std::nullopt;
    return std::move(*decoded);
  }

  void Draw(MemberId& id) { id = {0, input_->Below(6)}; }
  void Draw(std::string& text) {
    static constexpr const char* kTexts[] = {"", "job", "host", "key", "tcp=127.0.0.1:1"};
    text = kTexts[input_->Below(std::size(kTexts))];
  }
  // Most of them as there are.
  void Draw(wire::Signature& call) {
    const auto small = [this](uint32_t below) {
      return static_cast<uint8_t>(input_->Below(below));
    };
    call.kind = small(6);
    call.dtype = small(13);
    call.redop = small(7);
    call.plan = small(5);
    call.flags = small(2);
    call.element_bytes = static_cast<uint8_t>(1u << small(5));
    call.accumulator_bytes = static_cast<uint8_t>(call.element_bytes << small(4));
    call.count = input_->Below(1u << 16);
    Draw(call.step);
    Draw(call.root);
    Draw(call.layout);
    Draw(call.scale);
  }
  void Draw(bool& value) { value = input_->Chance(); }
  void Draw(double& value) {
    static constexpr double kValues[] = {0, 1, 0.5, 3, -1, 1e300};
    value = kValues[input_->Below(std::size(kValues))];
  }
  template <typename T>
  void Draw(std::vector<T>& list) {
    list.resize(input_->Below(4));
    for (T& element : list) Draw(element);
  }
  void Draw(std::vector<bool>&) = delete;
  template <typename T>
  void Draw(std::optional<T>& value) {
    if (input_->Chance()) Draw(value.emplace());
  }
  template <typename T>
  void Draw(T& value) {
    if constexpr (std::is_enum_v<T>) {
      value = static_cast<T>(input_->Below(8));
    } else if constexpr (std::is_integral_v<T>) {
      value = static_cast<T>(input_->Number());
    } else {
      std::apply([this](auto&... field) { (Draw(field), ...); }, wire::test::Tie(value));
    }
  }

 private:
  Input* const input_;
};

}  // namespace ftar::fuzz

#endif  // FTAR_TESTS_FUZZ_INPUT_H_
