#include "wire/messages.h"

#include <utility>

namespace ftar::wire {

void Loss::Name(const MemberCard& card) {
  member = card.id;
  replica = card.replica;
  shard = card.shard;
  host = card.host;
}

Loss LossOf(const MemberCard& card, Code cause, std::string stage, std::string text) {
  Loss loss;
  loss.Name(card);
  loss.cause = cause;
  loss.stage = std::move(stage);
  loss.text = std::move(text);
  return loss;
}

Message::Message() = default;
Message::Message(const Message& other) = default;
Message::Message(Message&& other) noexcept = default;
Message& Message::operator=(const Message& other) = default;
Message& Message::operator=(Message&& other) noexcept = default;
Message::~Message() = default;

}  // namespace ftar::wire
