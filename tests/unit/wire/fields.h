// Walks the fields of every wire struct, so that a test can fill and compare messages without
// naming their fields.
//
// A struct is known by its number of fields; when one is added, the structured binding no longer
// compiles and the number here is what to change. Header for tests; values only, any thread.
#ifndef FTAR_TESTS_UNIT_WIRE_FIELDS_H_
#define FTAR_TESTS_UNIT_WIRE_FIELDS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "wire/messages.h"

namespace ftar::wire::test {

template <typename T>
inline constexpr int kFields = -1;
#define FTAR_FIELDS(Type, count) \
  template <>                    \
  inline constexpr int kFields<Type> = count
FTAR_FIELDS(MemberId, 2);
FTAR_FIELDS(WireCosts, 2);
FTAR_FIELDS(MemberCard, 12);
FTAR_FIELDS(SeqBound, 2);
FTAR_FIELDS(Bound, 4);
FTAR_FIELDS(ViewEntry, 4);
FTAR_FIELDS(Electorate, 2);
FTAR_FIELDS(View, 7);
FTAR_FIELDS(Report, 6);
FTAR_FIELDS(Loss, 9);
FTAR_FIELDS(Signature, 13);
FTAR_FIELDS(Hello, 9);
FTAR_FIELDS(LinksUp, 2);
FTAR_FIELDS(Refuse, 2);
FTAR_FIELDS(BoundOf, 5);
FTAR_FIELDS(Decided, 3);
FTAR_FIELDS(Installed, 1);
FTAR_FIELDS(Reserved, 4);
FTAR_FIELDS(Confirmed, 1);
FTAR_FIELDS(Announced, 2);
FTAR_FIELDS(GroupProgress, 5);
FTAR_FIELDS(Heartbeat, 2);
FTAR_FIELDS(Evidence, 6);
FTAR_FIELDS(AskPrepare, 3);
FTAR_FIELDS(LeaveRequest, 0);
FTAR_FIELDS(Goodbye, 2);
FTAR_FIELDS(Welcome, 1);
FTAR_FIELDS(Rejected, 3);
FTAR_FIELDS(Connect, 1);
FTAR_FIELDS(Prepare, 6);
FTAR_FIELDS(Install, 2);
FTAR_FIELDS(Propose, 1);
FTAR_FIELDS(Confirm, 1);
FTAR_FIELDS(Announce, 1);
FTAR_FIELDS(VoidPlan, 1);
FTAR_FIELDS(Evicted, 3);
FTAR_FIELDS(CoordinatorBeat, 2);
FTAR_FIELDS(LateNotice, 4);
FTAR_FIELDS(NoQuorum, 1);
FTAR_FIELDS(Origin, 2);
FTAR_FIELDS(OpStatus, 9);
FTAR_FIELDS(GroupStatus, 7);
FTAR_FIELDS(ColumnStatus, 7);
FTAR_FIELDS(Verdict, 8);
FTAR_FIELDS(GroupVerdicts, 4);
FTAR_FIELDS(ColumnVerdicts, 5);
FTAR_FIELDS(AskVerdicts, 1);
FTAR_FIELDS(KeptOp, 3);
FTAR_FIELDS(Credit, 2);
FTAR_FIELDS(StepMark, 6);
FTAR_FIELDS(Want, 5);
FTAR_FIELDS(CallNotice, 5);
FTAR_FIELDS(Release, 1);
FTAR_FIELDS(LeaveReady, 2);
FTAR_FIELDS(Roster, 2);
FTAR_FIELDS(Behind, 2);
FTAR_FIELDS(Redirect, 5);
#undef FTAR_FIELDS

// References to all fields of `t`, in order.
template <typename T>
auto Tie(T& t) {
  constexpr int kCount = kFields<std::remove_const_t<T>>;
  static_assert(kCount >= 0, "say above how many fields this struct has");
#define FTAR_TIE(count, ...)       \
  if constexpr (kCount == count) { \
    auto& [__VA_ARGS__] = t;       \
    return std::tie(__VA_ARGS__);  \
  } else
  if constexpr (kCount == 0) {
    return std::tuple<>();
  } else
    FTAR_TIE(1, a)
  FTAR_TIE(2, a, b)
  FTAR_TIE(3, a, b, c)
  FTAR_TIE(4, a, b, c, d)
  FTAR_TIE(5, a, b, c, d, e)
  FTAR_TIE(6, a, b, c, d, e, f)
  FTAR_TIE(7, a, b, c, d, e, f, g)
  FTAR_TIE(8, a, b, c, d, e, f, g, h)
  FTAR_TIE(9, a, b, c, d, e, f, g, h, i)
  FTAR_TIE(11, a, b, c, d, e, f, g, h, i, j, k)
  FTAR_TIE(12, a, b, c, d, e, f, g, h, i, j, k, l)
  FTAR_TIE(13, a, b, c, d, e, f, g, h, i, j, k, l, m)
  static_assert(kCount < 0, "add FTAR_TIE for this number of fields");
#undef FTAR_TIE
}

// Gives every field a value of its own that is not its default.
class Filler {
 public:
  void Fill(std::string& s) { s = "text " + std::to_string(++count_); }
  void Fill(bool& b) { b = !b; }
  void Fill(double& d) { d = ++count_ + 0.25; }
  void Fill(Code& code) { code = Code::kAborted; }
  void Fill(EvidenceKind& kind) { kind = EvidenceKind::kOperator; }
  void Fill(VerdictKind& kind) { kind = VerdictKind::kSalvage; }
  void Fill(Bound::Kind& kind) { kind = Bound::Kind::kSeq; }
  // Of what there is: the decoder lets nothing else through.
  void Fill(Signature& call) {
    call = {2, 5, 3, kSignatureStrict, 1, 1, 8, ++count_ + 0u, ++count_ + 0u, {}, ++count_ + 0u, 0};
    Fill(call.root);
    Fill(call.scale);
  }
  void Fill(OpStatus& op) {
    std::apply([this](auto&... field) { (Fill(field), ...); }, Tie(op));
    op.chunks = static_cast<uint32_t>(64 * op.final_chunks.size() - 1);
  }
  template <typename T>
  void Fill(std::vector<T>& list) {
    list.resize(2);
    for (T& element : list) Fill(element);
  }
  template <typename T>
  void Fill(std::optional<T>& value) {
    Fill(value.emplace());
  }
  template <typename T>
  void Fill(T& value) {
    if constexpr (std::is_integral_v<T>) {
      value = static_cast<T>(++count_);
    } else {
      std::apply([this](auto&... field) { (Fill(field), ...); }, Tie(value));
    }
  }

 private:
  int count_ = 100;  // small enough for a byte at the depth of any byte field
};

template <typename T>
bool Same(const T& a, const T& b);

template <typename T>
bool SameField(const std::vector<T>& a, const std::vector<T>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!Same(a[i], b[i])) return false;
  }
  return true;
}
template <typename T>
bool SameField(const std::optional<T>& a, const std::optional<T>& b) {
  return a.has_value() == b.has_value() && (!a || Same(*a, *b));
}
template <typename T>
bool SameField(const T& a, const T& b) {
  return Same(a, b);
}

template <typename T>
bool Same(const T& a, const T& b) {
  if constexpr (kFields<T> >= 0) {
    return [&]<size_t... kIndex>(std::index_sequence<kIndex...>) {
      [[maybe_unused]] const auto left = Tie(a);
      [[maybe_unused]] const auto right = Tie(b);
      return (SameField(std::get<kIndex>(left), std::get<kIndex>(right)) && ...);
    }
    (std::make_index_sequence<kFields<T>>());
  } else {
    return a == b;
  }
}

inline bool SameMessage(const Message& a, const Message& b) {
  if (a.index() != b.index()) return false;
  return std::visit(
      [&b](const auto& body) { return Same(body, std::get<std::decay_t<decltype(body)>>(b)); }, a);
}

// One message of every kind, all fields set (`filled`) or all at their defaults.
inline std::vector<Message> AllMessages(bool filled) {
  return [filled]<size_t... kIndex>(std::index_sequence<kIndex...>) {
    std::vector<Message> all{Message(std::in_place_index<kIndex>)...};
    if (filled) {
      for (Message& message : all) std::visit([](auto& body) { Filler().Fill(body); }, message);
    }
    return all;
  }
  (std::make_index_sequence<std::variant_size_v<AnyMessage>>());
}

}  // namespace ftar::wire::test

#endif  // FTAR_TESTS_UNIT_WIRE_FIELDS_H_
