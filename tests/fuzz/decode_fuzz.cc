// Fuzz target for the decoder of control messages: any bytes either decode to a message that can be
// written and read again, or are refused. Built with -DFTAR_LIBFUZZER=ON (clang) it is a libFuzzer
// program; the plain test replays the corpus through it.
#include <cstddef>
#include <cstdint>
#include <span>

#include "wire/codec.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto message = ftar::wire::Decode({reinterpret_cast<const std::byte*>(data), size});
  if (!message.ok()) return 0;
  // A trap and not an assertion, so that it also counts in a release build.
  if (!ftar::wire::Decode(ftar::wire::Encode(*message)).ok()) __builtin_trap();
  return 0;
}
