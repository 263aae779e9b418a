// Where somebody begins or ends in all columns (rules J1, J4), and a column's root. Values only.
#ifndef FTAR_MEMBERSHIP_BOUNDS_H_
#define FTAR_MEMBERSHIP_BOUNDS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "wire/messages.h"
#include "wire/view.h"

namespace ftar::membership {

// The latest of several bounds (rule J4): where all columns can begin.
class LatestBound {
 public:
  void Add(const wire::Bound& bound);
  // The latest bound of the same kind as `own`. Kinds differ only when one column marks steps and
  // another has not begun to; these have no common measure, and each keeps its own.
  wire::Bound Of(const wire::Bound& own) const;
  // The common bound; nothing if the kinds differ or one is no boundary at all.
  std::optional<wire::Bound> Common() const;

 private:
  std::optional<wire::Bound> step_, seq_;
  bool other_ = false;
};

// J1, J4: of the entries of a view that a change makes. Bounds are the leaders', here by column;
// one that was chosen now becomes the latest that any column chose.
void FillBounds(const std::map<int32_t, wire::Decided>& decided,
                std::vector<wire::ViewEntry>* entries);

// Who announces planned views to a column and begins its steps first: of those who stay, if anybody
// does, the one whose first operation is the earliest, so never a newcomer while there is an older
// member; then the one that has been in longest; then list order. The same for all who hold the
// view, coordinator included. Null if the column is empty.
const wire::ViewEntry* ColumnRoot(const wire::View& view, int32_t shard);

// The view with this column's entries alone, and without room for others: a job may have a hundred
// thousand members, and a column a dozen.
wire::View ColumnOf(const wire::View& view, int32_t shard);

}  // namespace ftar::membership

#endif  // FTAR_MEMBERSHIP_BOUNDS_H_
