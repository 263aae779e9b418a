// Passing descriptors between two members of one host: an abstract unix socket, the token's proof
// (auth.h), then one message each way, bytes and descriptors. Used by shm (segments, doorbells) and
// for process watches.
//
// It has its own listener and epoll set; the owner puts wait_fd into its set and calls Poll when
// that is readable and at next_deadline. One thread at a time. Descriptors in messages and results
// are owned by whoever holds the object; those that an unproven peer sends are never taken. Nothing
// listens outside the host: abstract sockets are local by construction.
#ifndef FTAR_TRANSPORT_LOCAL_EXCHANGE_H_
#define FTAR_TRANSPORT_LOCAL_EXCHANGE_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "transport/auth.h"
#include "transport/doorkeeper.h"
#include "transport/fd.h"
#include "transport/transport.h"

namespace ftar::transport {

class LocalExchange {
 public:
  static constexpr size_t kMessageBytesMax = 1024;
  static constexpr size_t kMessageFdsMax = 4;

  struct Message {
    std::vector<std::byte> bytes;
    std::vector<UniqueFd> fds;
  };
  struct Result {
    MemberId peer;
    uint64_t ticket = 0;  // of Dial; 0: the peer dialled
    Status status;  // dialler: why it failed; acceptor: failed after the answer (earlier failures
                    // are not told)
    bool refused = false;        // nobody listens there
    bool final_failure = false;  // dialling again cannot help
    bool rejected_after_proof = false;
    Message message;  // dialler: the acceptor's answer
    UniqueFd socket;  // stays open as long as the peer lives and keeps it
  };
  // Called for a proven dialler's offer. An error is sent to the dialler as a refusal.
  using Answerer = std::function<Expected<Message>(MemberId peer, Message offer)>;

  static Expected<std::unique_ptr<LocalExchange>> Open(const DeviceConfig& config,
                                                       AuthPurpose purpose);
  ~LocalExchange();

  // Where peers find it: "@ftar-1f...".
  const std::string& name() const { return name_; }
  // Outcome comes as a Result with this ticket, from Poll.
  uint64_t Dial(MemberId peer, const std::string& name, Message offer, TimeNs now);
  void Abandon(uint64_t ticket);
  void Poll(TimeNs now, const Answerer& answer, std::vector<Result>* results);
  int wait_fd() const { return epoll_.get(); }
  TimeNs next_deadline() const;
  uint64_t refused_count() const { return refused_count_; }
  void CloseInForkedChild();

 private:
  class Connection;

  LocalExchange(const DeviceConfig& config, AuthPurpose purpose);
  Status Start();
  void AcceptAll(TimeNs now);
  void MakeRoom();
  void Drive(uint64_t key, const Answerer& answer, std::vector<Result>* results);
  void Finish(uint64_t key, std::vector<Result>* results);
  bool Add(uint64_t key, std::unique_ptr<Connection> connection, TimeNs now);

  DeviceConfig config_;
  AuthPurpose purpose_;
  std::string name_;
  UniqueFd epoll_, listener_;
  Doorkeeper door_;
  std::map<uint64_t, std::unique_ptr<Connection>> connections_;  // in order of age
  std::vector<Result> ready_;                                    // failed at once
  uint64_t next_key_ = 1;
  uint64_t refused_count_ = 0;
};

}  // namespace ftar::transport

#endif  // FTAR_TRANSPORT_LOCAL_EXCHANGE_H_
