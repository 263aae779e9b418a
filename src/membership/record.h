// What a coordinator writes down for its successor, and its form as bytes. Pure; who keeps the
// bytes is the driver's business (coordinator/state_file.h).
#ifndef FTAR_MEMBERSHIP_RECORD_H_
#define FTAR_MEMBERSHIP_RECORD_H_

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "wire/codec.h"
#include "wire/view.h"

namespace ftar::membership {

// The view last numbered for good: nobody who holds a view of this epoch or an older one goes on,
// except the members of `view`. Prepares are not in it: without an Install, which is, they come to
// nothing (docs/protocol.md 8).
struct CoordinatorRecord {
  std::string job;
  Epoch epoch = 0;                 // 0: nothing yet
  std::optional<wire::View> view;  // none: the job of that epoch has ended
};

inline constexpr size_t kRecordHeaderBytes = 20;
inline constexpr size_t kRecordBytesMax = kRecordHeaderBytes + wire::kMessageBytesMax;

std::vector<std::byte> EncodeRecord(const CoordinatorRecord& record);
// What is no record, torn, corrupt or of another version is an error (kConfig) whose text says so.
Expected<CoordinatorRecord> DecodeRecord(std::span<const std::byte> bytes);

}  // namespace ftar::membership

#endif  // FTAR_MEMBERSHIP_RECORD_H_
