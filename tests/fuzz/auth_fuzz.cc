// Fuzz target for the proof of the token, with a man in the middle: two honest ends talk, and the
// input changes, drops, repeats and inserts bytes between them. Neither may ever believe in a peer
// that is not the one that is there, and ends with different tokens never believe at all.
#include <deque>

#include "tests/fuzz/input.h"
#include "transport/auth.h"

namespace {

using ftar::fuzz::Input;
using ftar::fuzz::Require;
using ftar::transport::Authenticator;
using ftar::transport::AuthIdentity;
using ftar::transport::AuthPurpose;

// One direction of the wire.
struct Wire {
  std::vector<std::byte> bytes;
  bool touched = false;

  void Put(Authenticator* from) {
    const std::vector<std::byte> more = from->TakeOutput();
    bytes.insert(bytes.end(), more.begin(), more.end());
  }
  void Meddle(Input* input) {
    const uint32_t what = input->Below(8);
    if (what > 3 || bytes.empty() || bytes.size() > 4096) return;  // mostly it only watches
    const size_t at = input->Byte() % bytes.size();
    const std::byte byte{input->Byte()};
    if (what == 0) bytes[at] ^= byte;
    if (what == 1) bytes.insert(bytes.begin() + static_cast<ptrdiff_t>(at), byte);
    if (what == 2) bytes.erase(bytes.begin() + static_cast<ptrdiff_t>(at));
    if (what == 3) bytes.insert(bytes.end(), bytes.begin(), bytes.end());
    touched = touched || what != 0 || byte != std::byte{0};
  }
  void Give(Input* input, Authenticator* to) {
    const size_t piece = std::min<size_t>(bytes.size(), 1 + input->Byte());
    const size_t taken = to->Feed({bytes.data(), piece});
    Require(taken <= piece);
    bytes.erase(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(taken));
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  const bool same_token = input.Byte() % 4 != 0;
  const AuthIdentity dialler_id{"job", {1, 2}}, acceptor_id{"job", {3, 4}};
  Authenticator dialler(Authenticator::Role::kDialler, AuthPurpose::kLink, "token", dialler_id, 1);
  Authenticator acceptor(Authenticator::Role::kAcceptor, AuthPurpose::kLink,
                         same_token ? "token" : "other", acceptor_id, 1);
  Wire there, back;
  for (int round = 0; round < 64; ++round) {
    there.Put(&dialler);
    back.Put(&acceptor);
    if (!input.empty()) (input.Chance() ? there : back).Meddle(&input);
    there.Give(&input, &acceptor);
    back.Give(&input, &dialler);
  }
  using State = Authenticator::State;
  if (dialler.state() == State::kDone)
    Require(same_token && dialler.peer().member == acceptor_id.member &&
            dialler.peer().job == "job");
  if (acceptor.state() == State::kDone)
    Require(same_token && acceptor.peer().member == dialler_id.member &&
            acceptor.peer().job == "job");
  if (same_token && !there.touched && !back.touched)
    Require(dialler.state() != State::kFailed && acceptor.state() != State::kFailed);
  return 0;
}
