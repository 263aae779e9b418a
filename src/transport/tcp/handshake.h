// From a fresh socket to a stream of a link: connect, prove the token (auth.h), then say which link
// and stream this is and how many frames have been received so far, so that both sides know what
// must be sent again.
//
// Driven by the device: OnReady when the socket is ready, until state() is kGreeted (acceptor:
// decide and Answer), kDone or kFailed. One thread; owns its socket until TakeFd.
#ifndef FTAR_TRANSPORT_TCP_HANDSHAKE_H_
#define FTAR_TRANSPORT_TCP_HANDSHAKE_H_

#include <memory>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "transport/auth.h"
#include "transport/fd.h"
#include "transport/tcp/socket.h"
#include "transport/transport.h"

namespace ftar::transport::tcp {

enum class Verdict : uint16_t {
  kWelcome = 0,
  kRevoked = 1,    // the acceptor has dropped the dialler for good
  kCollision = 2,  // both dialled; the acceptor's own dial goes on
  kUnknown = 3,    // the acceptor no longer knows this link: too late to repair it
};

// What the dialler asks and the acceptor answers, behind the proof. Fixed layout, little endian; an
// address may follow.
struct LinkHello {
  uint32_t magic = kMagic;
  uint16_t verdict = 0;        // answer only
  uint16_t stream = 0;         // which of the link's streams
  uint16_t streams = 0;        // how many the dialler makes
  uint16_t address_bytes = 0;  // question only: the dialler's own listener follows
  uint32_t fresh = 0;          // the dialler's link has never been up
  uint64_t link_id = 0;        // chosen by the dialler, names this incarnation of the link
  uint64_t received = 0;       // frames received in order so far
  static constexpr uint32_t kMagic = 0x4c415446;
};
static_assert(sizeof(LinkHello) == 32);
inline constexpr int kStreamsMax = 16;

class Handshake {
 public:
  enum class State {
    kConnecting,  // dialler: the kernel has not finished
    kAuth,        // proving the token
    kHello,       // waiting for the other's hello
    kGreeted,     // acceptor: hello() is there, Answer it
    kDone,        // stream ready: peer(), hello(), TakeFd(), leftover()
    kFailed,      // status(), refused(), rejected_after_proof()
  };

  // Dialler. The hello is sent when the peer has proved the token.
  Handshake(const DeviceConfig& config, UniqueFd fd, MemberId peer, LinkHello hello,
            std::string own_address);
  // Acceptor.
  Handshake(const DeviceConfig& config, UniqueFd fd);

  // Reads and writes what is possible now.
  void OnReady();
  // Acceptor in kGreeted: sends the verdict; kDone if it is kWelcome, else kFailed.
  void Answer(Verdict verdict, uint64_t received);
  void Fail(Status status);

  State state() const { return state_; }
  bool dialler() const { return dialler_; }
  bool authenticated() const {
    return state_ == State::kHello || state_ == State::kGreeted || state_ == State::kDone;
  }
  bool wants_write() const { return state_ == State::kConnecting || !output_.empty(); }
  int fd() const { return fd_.get(); }
  UniqueFd& fd_owner() { return fd_; }
  const Status& status() const { return status_; }
  // The system said that nobody listens there.
  bool refused() const { return refused_; }
  // The peer hung up on our proof: its token differs, or it died at this moment.
  bool rejected_after_proof() const { return rejected_after_proof_; }
  // What failed cannot be mended by dialling again.
  bool final_failure() const { return final_failure_; }

  MemberId peer() const { return peer_; }  // who was dialled, or who has proved to be there

  const LinkHello& hello() const { return peer_hello_; }
  const LinkHello& own_hello() const { return own_hello_; }
  const std::string& peer_address() const { return peer_address_; }
  const std::vector<std::byte>& leftover() const { return input_; }

  TimeNs begun = 0, deadline = kNever;
  uint64_t id = 0;        // the device's key
  uint32_t interest = 0;  // epoll events armed now

 private:
  bool FinishConnect();
  void ReadMore();
  void Digest();
  void OnAuthenticated();
  void OnHello();
  void Flush();

  const bool dialler_;
  State state_;
  UniqueFd fd_;
  Authenticator auth_;
  MemberId peer_;
  LinkHello own_hello_, peer_hello_;
  std::string own_address_, peer_address_;
  std::vector<std::byte> input_, output_;
  Status status_;
  bool refused_ = false, rejected_after_proof_ = false, final_failure_ = false;
};

}  // namespace ftar::transport::tcp

#endif  // FTAR_TRANSPORT_TCP_HANDSHAKE_H_
