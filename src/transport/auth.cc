#include "transport/auth.h"

#include <openssl/crypto.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <algorithm>
#include <cstring>

namespace ftar::transport {
namespace {

// The greeting: magic (6), version (2, little endian), purpose (1), reserved (7 zero), nonce (24).
// Its layout is the same in every wire version, or versions could not be compared.
constexpr char kMagic[6] = {'F', 'T', 'A', 'R', 'a', '1'};
constexpr size_t kVersionAt = 6;
constexpr size_t kPurposeAt = 8;
constexpr size_t kNonceAt = 16;
// The name: length of the job's name (2), member id (16), then the job's name; the tag follows.
constexpr size_t kNameFixedBytes = 2 + 16;
constexpr size_t kJobBytesMax = 256;

uint16_t LoadU16(const std::byte* p) {
  uint16_t value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

const char* PurposeName(AuthPurpose purpose) {
  switch (purpose) {
    case AuthPurpose::kLink: return "data link";
    case AuthPurpose::kControl: return "control connection";
    case AuthPurpose::kSegment: return "shared-memory link";
    case AuthPurpose::kWatch: return "process watch";
  }
  return "unknown use";
}

// Names from the wire reach logs; keep them printable.
std::string Printable(std::string text) {
  for (char& c : text) {
    if (c < 0x20 || c > 0x7e) c = '?';
  }
  return text;
}

}  // namespace

Authenticator::Authenticator(Role role, AuthPurpose purpose, const std::string& token,
                             AuthIdentity self, uint16_t wire_version)
    : role_(role), self_(std::move(self)), version_(wire_version), purpose_(purpose), key_(token) {
  self_.job.resize(std::min(self_.job.size(), kJobBytesMax));
  std::memcpy(own_greeting_.data(), kMagic, sizeof kMagic);
  std::memcpy(own_greeting_.data() + kVersionAt, &version_, sizeof version_);
  own_greeting_[kPurposeAt] = static_cast<std::byte>(purpose);
  auto* nonce = reinterpret_cast<unsigned char*>(own_greeting_.data() + kNonceAt);
  if (RAND_bytes(nonce, kGreetingBytes - kNonceAt) != 1) {
    Fail(Code::kSystem, "the system gives no random numbers");
    return;
  }
  if (role_ == Role::kDialler) output_.assign(own_greeting_.begin(), own_greeting_.end());
}

Authenticator::~Authenticator() { OPENSSL_cleanse(key_.data(), key_.size()); }

size_t Authenticator::Feed(std::span<const std::byte> bytes) {
  size_t taken = 0;
  while (state_ == State::kRunning) {
    const size_t needed = NeededBytes();
    const size_t more = std::min(needed - input_.size(), bytes.size() - taken);
    input_.insert(input_.end(), bytes.begin() + taken, bytes.begin() + taken + more);
    taken += more;
    if (input_.size() < needed) break;
    // The name's length is known only once its fixed part is there.
    if (step_ == Step::kName && NeededBytes() > input_.size()) continue;
    Advance();
  }
  return taken;
}

std::vector<std::byte> Authenticator::TakeOutput() { return std::exchange(output_, {}); }

size_t Authenticator::NeededBytes() const {
  switch (step_) {
    case Step::kGreeting: return kGreetingBytes;
    case Step::kProof: return kDigestBytes;
    case Step::kName:
      if (input_.size() < kNameFixedBytes) return kNameFixedBytes;
      return kNameFixedBytes + std::min<size_t>(LoadU16(input_.data()), kJobBytesMax) +
             kDigestBytes;
    case Step::kFinished: break;
  }
  return 0;
}

void Authenticator::Advance() {
  switch (step_) {
    case Step::kGreeting: OnGreeting(); break;
    case Step::kProof: OnProof(); break;
    case Step::kName: OnName(); break;
    case Step::kFinished: break;
  }
  input_.clear();
}

void Authenticator::OnGreeting() {
  std::copy(input_.begin(), input_.end(), peer_greeting_.begin());
  if (std::memcmp(peer_greeting_.data(), kMagic, sizeof kMagic) != 0) {
    return Fail(Code::kPeer, "the other side does not speak libftar's protocol");
  }
  const uint16_t version = LoadU16(peer_greeting_.data() + kVersionAt);
  // The acceptor answers before it compares, or the dialler would never learn of the difference.
  if (role_ == Role::kAcceptor)
    output_.insert(output_.end(), own_greeting_.begin(), own_greeting_.end());
  if (version != version_) {
    return Fail(Code::kVersion, "the peer speaks wire version " + std::to_string(version) +
                                    ", this process " + std::to_string(version_) +
                                    ": all of a job need the same release");
  }
  const auto purpose = static_cast<AuthPurpose>(peer_greeting_[kPurposeAt]);
  if (purpose != purpose_) {
    return Fail(Code::kPeer,
                std::string("a ") + PurposeName(purpose_) + " reached a " + PurposeName(purpose));
  }
  if (role_ == Role::kDialler) SendProof();
  step_ = Step::kProof;
}

void Authenticator::OnProof() {
  Digest expected;
  if (!Mac(role_ == Role::kAcceptor ? "ftar dialler" : "ftar acceptor", {}, &expected)) return;
  if (CRYPTO_memcmp(expected.data(), input_.data(), kDigestBytes) != 0) {
    return Fail(Code::kAuth, key_.empty() ? "the peer has a token, this process has none: set "
                                            "FTAR_TOKEN or FTAR_TOKEN_FILE"
                                          : "the peer does not know the job's token");
  }
  if (role_ == Role::kAcceptor) {
    SendProof();
    SendName();
  }
  step_ = Step::kName;
}

void Authenticator::OnName() {
  const size_t body_bytes = input_.size() - kDigestBytes;
  const std::span<const std::byte> body(input_.data(), body_bytes);
  Digest expected;
  if (!Mac(role_ == Role::kAcceptor ? "ftar dialler name" : "ftar acceptor name", body, &expected))
    return;
  if (CRYPTO_memcmp(expected.data(), input_.data() + body_bytes, kDigestBytes) != 0) {
    return Fail(Code::kAuth, "the peer's name is not signed with the job's token");
  }
  std::memcpy(&peer_.member.hi, body.data() + 2, 8);
  std::memcpy(&peer_.member.lo, body.data() + 10, 8);
  peer_.job.assign(reinterpret_cast<const char*>(body.data()) + kNameFixedBytes,
                   body_bytes - kNameFixedBytes);
  // The dialler names itself even to a peer of another job: both sides then know why they part.
  if (role_ == Role::kDialler) SendName();
  if (state_ == State::kFailed) return;
  if (peer_.job != self_.job) {
    return Fail(Code::kAuth, "the peer belongs to job '" + Printable(peer_.job) +
                                 "', this process to '" + Printable(self_.job) + "'");
  }
  step_ = Step::kFinished;
  state_ = State::kDone;
}

void Authenticator::Fail(Code code, std::string text) {
  state_ = State::kFailed;
  status_ = Status(code, std::move(text));
}

void Authenticator::SendProof() {
  Digest proof;
  if (!Mac(role_ == Role::kDialler ? "ftar dialler" : "ftar acceptor", {}, &proof)) return;
  output_.insert(output_.end(), proof.begin(), proof.end());
  proof_sent_ = true;
}

void Authenticator::SendName() {
  std::vector<std::byte> body(kNameFixedBytes + self_.job.size());
  const auto job_bytes = static_cast<uint16_t>(self_.job.size());
  std::memcpy(body.data(), &job_bytes, 2);
  std::memcpy(body.data() + 2, &self_.member.hi, 8);
  std::memcpy(body.data() + 10, &self_.member.lo, 8);
  std::copy_n(reinterpret_cast<const std::byte*>(self_.job.data()), self_.job.size(),
              body.begin() + kNameFixedBytes);
  Digest tag;
  if (!Mac(role_ == Role::kDialler ? "ftar dialler name" : "ftar acceptor name", body, &tag))
    return;
  output_.insert(output_.end(), body.begin(), body.end());
  output_.insert(output_.end(), tag.begin(), tag.end());
}

bool Authenticator::Mac(const char* label, std::span<const std::byte> bytes, Digest* digest) {
  // Always in the order dialler, acceptor, so that both sides hash the same transcript.
  const auto& first = role_ == Role::kDialler ? own_greeting_ : peer_greeting_;
  const auto& second = role_ == Role::kDialler ? peer_greeting_ : own_greeting_;
  std::vector<unsigned char> text(label, label + std::strlen(label) + 1);
  const auto append = [&text](std::span<const std::byte> part) {
    const auto* p = reinterpret_cast<const unsigned char*>(part.data());
    text.insert(text.end(), p, p + part.size());
  };
  append(first);
  append(second);
  append(bytes);
  unsigned int digest_bytes = kDigestBytes;
  // A digest that is none would pass for another token's.
  if (HMAC(EVP_sha256(), key_.data(), static_cast<int>(key_.size()), text.data(), text.size(),
           reinterpret_cast<unsigned char*>(digest->data()), &digest_bytes) != nullptr)
    return true;
  Fail(Code::kMemory, "there is no memory to prove who this is");
  return false;
}

}  // namespace ftar::transport
