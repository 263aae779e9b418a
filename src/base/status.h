// Status and Expected: how a room reports failure to another room.
//
// A Status is one pointer; OK is null, so success costs one word. The codes are the public result
// codes of include/ftar/ftar.h, grouped by what died (usage, op, link, peer, epoch, group, host): a
// caller decides by the group, a user reads the text. The first function that decides on an error
// logs it; everybody else passes it on. Immutable once made; copies share nothing and may be used
// from any thread.
#ifndef FTAR_BASE_STATUS_H_
#define FTAR_BASE_STATUS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace ftar {

// Values equal the FTAR_* results of the C ABI; api/ checks that with static_assert.
enum class Code : int32_t {
  kOk = 0,
  kInProgress = 1,
  kTimeout = 2,
  kArg = 100,
  kHandle,
  kState,
  kConfig,
  kUnsupported,
  kForked,
  kVersion,
  kMismatch = 200,
  kAborted,
  kAbsent,
  kLink = 300,
  kCorrupt,
  kPeer = 400,
  kAuth,
  kEvicted = 500,
  kLeft,
  kQuorum = 600,
  kCoordinator,
  kMemory = 700,
  kSystem,
  kDevice,
  kInternal,
};

// The name of a code as users read it, for example "peer". Never null.
const char* CodeName(Code code);

// What is lost for good, the coarse question a caller asks first.
constexpr bool IsUsageError(Code c) { return c >= Code::kArg && c < Code::kMismatch; }
constexpr bool IsOpError(Code c) { return c >= Code::kMismatch && c < Code::kLink; }
constexpr bool IsLinkError(Code c) { return c >= Code::kLink && c < Code::kPeer; }
constexpr bool IsPeerError(Code c) { return c >= Code::kPeer && c < Code::kEvicted; }
constexpr bool IsEpochError(Code c) { return c >= Code::kEvicted && c < Code::kQuorum; }
constexpr bool IsGroupError(Code c) { return c >= Code::kQuorum && c < Code::kMemory; }
constexpr bool IsHostError(Code c) { return c >= Code::kMemory; }

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string text)
      : rep_(code == Code::kOk ? nullptr : std::make_unique<Rep>(Rep{code, std::move(text), {}})) {}
  // `argument` names the argument, knob or peer the error is about; it reaches
  // ftarErrorInfo.argument.
  Status(Code code, std::string argument, std::string text)
      : rep_(std::make_unique<Rep>(Rep{code, std::move(text), std::move(argument)})) {}

  Status(const Status& other) : rep_(other.rep_ ? std::make_unique<Rep>(*other.rep_) : nullptr) {}
  Status& operator=(const Status& other) {
    if (this != &other) rep_ = other.rep_ ? std::make_unique<Rep>(*other.rep_) : nullptr;
    return *this;
  }
  Status(Status&&) noexcept = default;
  Status& operator=(Status&&) noexcept = default;

  static Status Ok() { return {}; }
  // The text of the last failed system call: "what: strerror(error)".
  static Status System(std::string what, int error);

  bool ok() const { return rep_ == nullptr; }
  Code code() const { return rep_ ? rep_->code : Code::kOk; }
  const std::string& text() const { return rep_ ? rep_->text : EmptyText(); }
  const std::string& argument() const { return rep_ ? rep_->argument : EmptyText(); }
  // "peer: replica 3 ..." for logs.
  std::string ToString() const;

 private:
  struct Rep {
    Code code;
    std::string text;
    std::string argument;
  };
  static const std::string& EmptyText();
  std::unique_ptr<Rep> rep_;
};

// A value or the reason why there is none.
template <typename T>
class [[nodiscard]] Expected {
 public:
  Expected(T value) : value_(std::move(value)) {}          // NOLINT: implicit by design
  Expected(Status status) : status_(std::move(status)) {}  // NOLINT: implicit by design

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  T& value() & { return *value_; }
  const T& value() const& { return *value_; }
  T&& value() && { return std::move(*value_); }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T&& operator*() && { return std::move(*value_); }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace ftar

#define FTAR_RETURN_IF_ERROR(expr)                                                     \
  do {                                                                                 \
    if (::ftar::Status ftar_status_ = (expr); !ftar_status_.ok()) return ftar_status_; \
  } while (false)

#endif  // FTAR_BASE_STATUS_H_
