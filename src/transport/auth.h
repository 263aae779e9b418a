// Mutual proof of the job's token on a byte stream, before anything else is said (design 11).
//
//   dialler                               acceptor
//   magic, version, purpose, nonce  --->
//                                   <---  magic, version, purpose, nonce
//   proof (HMAC-SHA256)             --->
//                                   <---  proof, name (job, member), tag over it
//   name, tag over it               --->
//
// Each proof covers both greetings and the side it comes from, so it can be neither replayed nor
// reflected; nonces are fresh from the system's generator; tags and proofs are compared in constant
// time. A peer that has not proved the token learns a random number and this library's wire
// version, nothing else. The version is compared before the proof, so that members of two releases
// say so (Code::kVersion) instead of calling each other's token wrong.
//
// Used on tcp links, on shm's and the process watch's local sockets, and on control connections.
// The machine does no I/O: feed it what arrived, write out what it takes. One thread; it owns
// copies of all it is given. The token itself is not kept, only what HMAC needs of it, until the
// machine is destroyed.
#ifndef FTAR_TRANSPORT_AUTH_H_
#define FTAR_TRANSPORT_AUTH_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/status.h"

namespace ftar::transport {

// What the connection is for; both sides must mean the same, so that no connection can be passed
// off as another.
enum class AuthPurpose : uint8_t { kLink = 1, kControl = 2, kSegment = 3, kWatch = 4 };

struct AuthIdentity {
  std::string job;
  MemberId member;
};

class Authenticator {
 public:
  enum class Role { kDialler, kAcceptor };
  enum class State { kRunning, kDone, kFailed };

  Authenticator(Role role, AuthPurpose purpose, const std::string& token, AuthIdentity self,
                uint16_t wire_version);
  ~Authenticator();
  Authenticator(const Authenticator&) = delete;
  Authenticator& operator=(const Authenticator&) = delete;

  // Takes as much of `bytes` as belongs to the exchange and returns how much that was; what follows
  // is the caller's.
  size_t Feed(std::span<const std::byte> bytes);
  // Bytes to send now, to be taken also after kDone and kFailed; empty if there are none.
  std::vector<std::byte> TakeOutput();

  State state() const { return state_; }
  // Why kFailed: kVersion, kAuth (proof or job wrong), kPeer (not our protocol).
  const Status& status() const { return status_; }
  // Who the peer is; valid when kDone.
  const AuthIdentity& peer() const { return peer_; }
  // True once this side has sent its proof: a peer that closes now probably did not like it.
  bool proof_sent() const { return proof_sent_; }

 private:
  static constexpr size_t kGreetingBytes = 40;
  static constexpr size_t kDigestBytes = 32;
  using Digest = std::array<std::byte, kDigestBytes>;
  enum class Step { kGreeting, kProof, kName, kFinished };

  size_t NeededBytes() const;
  void Advance();
  void OnGreeting();
  void OnProof();
  void OnName();
  void Fail(Code code, std::string text);
  void SendProof();
  void SendName();
  // False, and failed: there is no memory.
  bool Mac(const char* label, std::span<const std::byte> bytes, Digest* digest);

  Role role_;
  AuthIdentity self_;
  AuthIdentity peer_;
  uint16_t version_;
  AuthPurpose purpose_;
  std::string key_;
  State state_ = State::kRunning;
  Step step_ = Step::kGreeting;
  Status status_;
  bool proof_sent_ = false;
  std::array<std::byte, kGreetingBytes> own_greeting_{};
  std::array<std::byte, kGreetingBytes> peer_greeting_{};
  std::vector<std::byte> input_;
  std::vector<std::byte> output_;
};

}  // namespace ftar::transport

#endif  // FTAR_TRANSPORT_AUTH_H_
