// Structs that start with their size: how a caller built against another release is understood.
//
// A caller's struct may be shorter than ours (an older header: what is cut off keeps its default)
// or longer (a newer header: fine as long as the rest is zero, since zero means "as before" in
// every field that is ever added). The caller's memory beyond its `size` is never touched.
// Stateless; any thread.
#ifndef FTAR_API_STRUCTS_H_
#define FTAR_API_STRUCTS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "base/status.h"

namespace ftar::api {

// Checks a caller's struct whose own size is `size` against `known_bytes`. `name` is the argument
// that errors name. `alignment` keeps a size from ending inside a field.
Status CheckSize(const void* data, size_t size, size_t known_bytes, size_t alignment,
                 std::string_view name);

// Refuses a struct that is not there.
Status NullStruct(std::string_view name);

// `*out` holds the defaults on entry and the caller's values on return.
template <typename T>
Status ReadStruct(const T* in, std::string_view name, T* out) {
  if (in == nullptr) return NullStruct(name);
  // Only `size` is known to be there until it has been checked.
  size_t size = 0;
  std::memcpy(&size, in, sizeof(size));
  FTAR_RETURN_IF_ERROR(CheckSize(in, size, sizeof(T), alignof(T), name));
  std::memcpy(static_cast<void*>(out), in, std::min(size, sizeof(T)));
  out->size = sizeof(T);
  return Status::Ok();
}

// Checks a struct that the call will fill in, before the call does anything.
template <typename T>
Status CheckOutput(const T* out, std::string_view name) {
  if (out == nullptr) return NullStruct(name);
  size_t size = 0;
  std::memcpy(&size, out, sizeof(size));
  return CheckSize(out, size, sizeof(T), alignof(T), name);
}

// Fills in a checked output struct, no further than its size, which stays as it is.
template <typename T>
void WriteStruct(const T& from, T* out) {
  constexpr size_t kFirst = sizeof(size_t);
  const size_t size = std::min(out->size, sizeof(T));
  std::memcpy(reinterpret_cast<std::byte*>(out) + kFirst,
              reinterpret_cast<const std::byte*>(&from) + kFirst, size - kFirst);
}

// Copies text into a fixed field: cut to fit at the start of a UTF-8 character, ended with 0. It is
// one line, as in the log: control characters, which may be a caller's or a peer's, become spaces.
void CopyText(const std::string& text, char* field, size_t field_bytes);
template <size_t N>
void CopyText(const std::string& text, char (&field)[N]) {
  CopyText(text, field, N);
}

}  // namespace ftar::api

#endif  // FTAR_API_STRUCTS_H_
