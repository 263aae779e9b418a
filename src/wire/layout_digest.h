// What the members of a layout (rule F7) have in common with no other list of members.
#ifndef FTAR_WIRE_LAYOUT_DIGEST_H_
#define FTAR_WIRE_LAYOUT_DIGEST_H_

#include <span>

#include "base/ids.h"

namespace ftar::wire {

// In the place of the root in the signature of a call that has segments: an epoch in which somebody
// leaves names two layouts, one before the boundary and one behind it. Any thread.
MemberId LayoutDigest(std::span<const MemberId> members);

}  // namespace ftar::wire

#endif  // FTAR_WIRE_LAYOUT_DIGEST_H_
