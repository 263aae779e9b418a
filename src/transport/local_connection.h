// One connection of a LocalExchange; see local_exchange.h. Internal to it.
#ifndef FTAR_TRANSPORT_LOCAL_CONNECTION_H_
#define FTAR_TRANSPORT_LOCAL_CONNECTION_H_

#include <string>
#include <vector>

#include "transport/local_exchange.h"

namespace ftar::transport {

class LocalExchange::Connection {
 public:
  enum class State { kAuth, kMessage, kOffered, kDone, kFailed };

  Connection(const DeviceConfig& config, AuthPurpose purpose, bool dialler, UniqueFd fd);

  void OnReady();
  // Acceptor in kOffered.
  void Answer(Expected<Message> answer);
  void Fail(Status status);

  State state = State::kAuth;
  UniqueFd fd;
  MemberId peer;
  Message own;  // dialler: the offer
  Message theirs;
  Status status;
  TimeNs deadline = kNever;
  bool dialler = false;
  bool final_failure = false;
  bool rejected_after_proof = false;
  bool answered = false;  // acceptor: the owner has said yes
  bool over() const { return state == State::kDone || state == State::kFailed; }
  bool authenticated() const {
    return state == State::kMessage || state == State::kOffered || state == State::kDone;
  }

 private:
  struct Header {
    uint32_t magic = kMagic;
    uint16_t refused = 0;
    uint16_t fds = 0;
    uint32_t bytes = 0;
    int32_t code = 0;
    static constexpr uint32_t kMagic = 0x4d415446;
  };
  static_assert(sizeof(Header) == 16);

  void RunAuth();
  void ReadMessage();
  bool TakeMessage();
  void Hangup(int error);
  bool SendBytes(const std::vector<std::byte>& bytes);
  bool SendMessage(const Message& message, const Status& refusal);

  Authenticator auth_;
  std::vector<std::byte> input_;
};

}  // namespace ftar::transport

#endif  // FTAR_TRANSPORT_LOCAL_CONNECTION_H_
