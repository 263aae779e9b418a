#include "api/structs.h"

namespace ftar::api {
namespace {

// A caller's size that is not even plausible is a missing initialiser, and reading that far to look
// for zeros would fault.
constexpr size_t kSizeMax = 65'536;

}  // namespace

Status CheckSize(const void* data, size_t size, size_t known_bytes, size_t alignment,
                 std::string_view name) {
  if (size < 2 * sizeof(size_t) || size % alignment != 0 || size > kSizeMax) {
    const std::string field = std::string(name) + ".size";
    return Status(Code::kArg, field,
                  size == 0 ? field + " is 0; initialise it with its FTAR_..._INIT macro"
                            : field + " is " + std::to_string(size) + ", not a struct's size");
  }
  const auto* bytes = static_cast<const unsigned char*>(data);
  for (size_t offset = known_bytes; offset < size; ++offset) {
    if (bytes[offset] == 0) continue;
    return Status(Code::kArg, std::string(name),
                  std::string(name) + " sets something this library does not know, at byte " +
                      std::to_string(offset) + " (it knows " + std::to_string(known_bytes) + ")");
  }
  return Status::Ok();
}

Status NullStruct(std::string_view name) {
  return Status(Code::kArg, std::string(name), std::string(name) + " is null");
}

void CopyText(const std::string& text, char* field, size_t field_bytes) {
  size_t length = std::min(text.size(), field_bytes - 1);
  if (length < text.size()) {
    // Never leave half a character behind: step back over its continuation bytes.
    while (length > 0 && (static_cast<unsigned char>(text[length]) & 0xC0) == 0x80) --length;
  }
  const auto control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  std::replace_copy_if(text.data(), text.data() + length, field, control, ' ');
  std::memset(field + length, 0, field_bytes - length);
}

}  // namespace ftar::api
