// What members hold for the truth about who is in.
#ifndef FTAR_TESTS_SIM_INVARIANTS_VIEWS_H_
#define FTAR_TESTS_SIM_INVARIANTS_VIEWS_H_

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "wire/view.h"

namespace ftar::sim {

class Views {
 public:
  // `shards` 0: relays stand between, and a member's view shows its own column alone.
  Views(int shards, int min_replicas) : shards_(shards), min_replicas_(min_replicas) {}

  // One view an epoch; every member's epochs grow. Replicas are whole but for those that are
  // leaving, whose members may go one by one. Who stays keeps the place in the list, newcomers come
  // behind (rule F6). A loss leaves no view of fewer replicas than the job needs (rule Q4).
  std::string Installed(MemberId member, std::shared_ptr<const wire::View> view);
  // Its user wants it to: what is left of its replica, or of the job, is what its user has left.
  void Leaves(MemberId member) { leaving_.insert(member); }

 private:
  bool Leaves(const wire::ViewEntry& entry) const;
  bool HasLeavers(const wire::View& view) const;
  std::string CheckReplicas(const wire::View& view) const;
  std::string CheckOrder(const wire::View& before, const wire::View& view) const;
  std::string CheckQuorum(const wire::View& before, const wire::View& view) const;

  const int shards_, min_replicas_;
  std::set<MemberId> leaving_;
  std::set<Epoch> with_leavers_;  // views with some, in any column: others may have none left
  std::map<std::pair<Epoch, int32_t>, std::shared_ptr<const wire::View>> known_;
  std::map<MemberId, std::shared_ptr<const wire::View>> last_;
};

}  // namespace ftar::sim

#endif  // FTAR_TESTS_SIM_INVARIANTS_VIEWS_H_
