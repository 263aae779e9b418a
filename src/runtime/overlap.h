// Rule F8: operations in flight may share memory that they all only read, and no other.
#ifndef FTAR_RUNTIME_OVERLAP_H_
#define FTAR_RUNTIME_OVERLAP_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ftar::runtime {

struct ByteRange {
  uintptr_t begin = 0, end = 0;  // empty ranges overlap nothing

  bool Overlaps(const ByteRange& other) const {
    return begin < other.end && other.begin < end && begin < end && other.begin < other.end;
  }
};

// What an operation reads and what it writes; in place they are the same.
struct OpRanges {
  ByteRange read, written;
};

// The fields, as callers know them, in which two operations collide; null: they do not.
struct Clash {
  const char* first = nullptr;
  const char* second = nullptr;
};
Clash ClashOf(const OpRanges& first, const OpRanges& second);

// The ranges of several operations, sorted, so that many more can be held against them: n of them
// against m take (n + m) log n.
class OverlapIndex {
 public:
  explicit OverlapIndex(std::span<const OpRanges> ops);

  bool collide() const { return collide_; }  // two of its operations do
  bool CollidesWith(const OpRanges& other) const;

 private:
  struct Entry {
    ByteRange range;
    size_t op = 0;
    uintptr_t furthest = 0;  // end of this and of all before it
  };
  static void Sort(std::vector<Entry>* entries);
  static bool Meets(const std::vector<Entry>& entries, const ByteRange& range);
  bool WrittenByAnother(const Entry& read) const;

  std::vector<Entry> read_, written_;  // by begin
  bool collide_ = false;
};

}  // namespace ftar::runtime

#endif  // FTAR_RUNTIME_OVERLAP_H_
