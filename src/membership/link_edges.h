// Links that failed between living members, and whom to give up for them (rule Q7): the fewest
// replicas that cover all broken links. Values only; the caller says who is preferred among equals.
// Single-threaded.
#ifndef FTAR_MEMBERSHIP_LINK_EDGES_H_
#define FTAR_MEMBERSHIP_LINK_EDGES_H_

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"

namespace ftar::membership {

class LinkEdges {
 public:
  struct Edge {
    MemberId reporter, subject;
    std::string text;
    TimeNs since_ns = 0;
  };
  void Add(TimeNs now, MemberId reporter, MemberId subject, std::string text);
  void Remove(MemberId reporter, MemberId subject);  // the link is back
  void Forget(MemberId member);                      // all edges of a member that is out
  bool empty() const { return edges_.empty(); }
  bool Reported(MemberId reporter, MemberId subject) const;
  void ForgetReportsOf(MemberId reporter);
  std::vector<Edge> edges() const;
  // When the oldest edge was reported; kNever without edges. A closed link is often the shadow of a
  // death that somebody else is about to prove, so the caller waits a little from here before it
  // judges.
  TimeNs oldest_ns() const;

 private:
  std::map<std::pair<MemberId, MemberId>, Edge> edges_;  // key: smaller id first
};

// The vertex to give up first: one of a smallest set that touches every edge, among those the one
// with the highest `preference`. Vertices are numbers of the caller's, here replicas. No edges:
// nothing. Exact up to covers of 6, then by degree. To `steps` is added how many it has searched,
// each of a few dozen edges at most; null: nobody asks.
std::optional<int32_t> FirstOfSmallestCover(const std::set<std::pair<int32_t, int32_t>>& edges,
                                            const std::function<int64_t(int32_t)>& preference,
                                            size_t* steps = nullptr);

}  // namespace ftar::membership

#endif  // FTAR_MEMBERSHIP_LINK_EDGES_H_
