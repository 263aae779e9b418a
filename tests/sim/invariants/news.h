// News (contract 8): a member hears of everybody who comes, is lost or leaves, once.
#ifndef FTAR_TESTS_SIM_INVARIANTS_NEWS_H_
#define FTAR_TESTS_SIM_INVARIANTS_NEWS_H_

#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "wire/view.h"

namespace ftar::sim {

// Of one member. With its first view it hears who is in; that is told by the view.
class News {
 public:
  // What it has been told since the view before; `view` is the one that it holds now.
  std::string Heard(const std::vector<engine::Notice>& notices, const wire::View& view);
  // A step's `left`: who is lost or leaves since the one before, as of its view. Of a later one
  // there may be news already: where a member was stopped meanwhile, both come at once.
  std::string Begins(const engine::StepBegun& step);

 private:
  std::string Hear(const engine::Notice& notice);

  bool any_view_ = false;
  std::map<Epoch, int32_t> left_;  // that no step has told yet
  std::set<MemberId> in_, leaving_;
};

}  // namespace ftar::sim

#endif  // FTAR_TESTS_SIM_INVARIANTS_NEWS_H_
