// Control messages over one TCP connection: authentication first (transport/auth.h), then
// length-prefixed encoded messages. The same on both ends: the coordinator's server holds one a
// member, a member's runtime holds one to the coordinator.
//
// Nonblocking; one thread at a time; owns its descriptor. What a peer says is bounded: nothing but
// the handshake before it has proved the token, no message above kMessageBytesMax, and what it does
// not read piles up to kQueuedBytesMax only.
#ifndef FTAR_COORDINATOR_MESSAGE_STREAM_H_
#define FTAR_COORDINATOR_MESSAGE_STREAM_H_

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "transport/auth.h"
#include "transport/fd.h"
#include "wire/messages.h"

namespace ftar::coordinator {

inline constexpr size_t kQueuedBytesMax = 32u << 20;

class MessageStream {
 public:
  enum class State { kConnecting, kHandshake, kOpen, kClosed };

  // A dialler's descriptor may still be connecting.
  MessageStream(transport::UniqueFd fd, transport::Authenticator::Role role,
                const std::string& token, MemberId self, TimeNs now);

  // Reads and writes what goes without blocking. True if anything moved. Messages come only after
  // the handshake.
  bool Poll(TimeNs now, std::vector<wire::Message>* out);
  // Queued until the handshake is through. A stream that is closed drops it.
  void Send(const wire::Message& message);
  void SendEncoded(const std::vector<std::byte>& bytes);  // for one message to many
  void Close(Status status);

  State state() const { return state_; }
  // Why kClosed: kAuth, kVersion, kPeer (not our protocol), kLink (closed or broken), or what Close
  // was told.
  const Status& status() const { return status_; }
  // Closed by a packet that says so: its end's process, or whatever stands between.
  bool reset() const { return reset_; }
  MemberId peer() const { return authenticator_.peer().member; }
  int fd() const { return fd_.get(); }
  bool wants_write() const { return state_ == State::kConnecting || !output_.empty(); }
  // Nothing of ours is still to be written.
  bool drained() const { return state_ != State::kOpen || output_.empty(); }
  TimeNs created_ns() const { return created_ns_; }
  TimeNs heard_ns() const { return heard_ns_; }
  // In a forked child; async-signal-safe.
  void CloseInForkedChild() { fd_.Reset(); }

 private:
  bool FinishConnecting();
  bool Read(TimeNs now, std::vector<wire::Message>* out);
  bool Write();
  size_t FeedHandshake(std::span<const std::byte> bytes);
  bool TakeMessages(std::vector<wire::Message>* out);

  transport::UniqueFd fd_;
  transport::Authenticator authenticator_;
  const bool has_token_;
  State state_ = State::kConnecting;
  Status status_;
  Status broken_;  // nothing can be written any more
  bool reset_ = false;
  TimeNs created_ns_, heard_ns_;
  std::vector<std::byte> input_;
  size_t input_taken_ = 0;
  std::vector<std::byte> output_;
  size_t output_sent_ = 0;
  std::vector<std::byte> waiting_;  // encoded messages from before the handshake's end
};

// Starts to connect to a resolved address ("10.0.0.3:4711", "[::1]:4711").
Expected<transport::UniqueFd> StartConnecting(const std::string& address);

// Blocking: name to addresses in the form that StartConnecting takes, each once. An error is
// kCoordinator and names the host.
Expected<std::vector<std::string>> ResolveHost(const std::string& host, uint16_t port);

}  // namespace ftar::coordinator

#endif  // FTAR_COORDINATOR_MESSAGE_STREAM_H_
