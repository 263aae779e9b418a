// Who is to blame, in the words that people are told: members by the last two views, whoever was
// last to end others' operations, and who is late. Under the job's lock.
#ifndef FTAR_RUNTIME_CULPRITS_H_
#define FTAR_RUNTIME_CULPRITS_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/job.h"
#include "runtime/op.h"
#include "wire/messages.h"
#include "wire/view.h"

namespace ftar::runtime {

std::string Shown(const Culprit& who);

class Culprits {
 public:
  void ViewChanged(ViewPtr view);

  Culprit Of(const wire::Loss& loss, Epoch epoch) const;
  // Of an operation that has ended, or a wait for it, with that code.
  Culprit Of(const Op& op, Code code) const;

  // Whom people were told of last, as having ended what was under way.
  const Culprit& last() const { return last_; }
  void Blame(const Culprit& who) { last_ = who; }
  void Blame(Culprit who, Code code) {
    last_ = std::move(who);
    last_.code = code;
  }
  // This member itself has no place: another one holds it.
  void BlameHolder(int32_t replica, int32_t shard);

  // A line for the log, once for each late member of an operation, and once for all beyond some:
  // the coordinator tells of them again and again.
  std::optional<std::string> NoteLate(GroupKey group, const Culprit& who);
  // Of whom people were told that it is late in an operation. Empty: of nobody.
  std::string LateText(const Op& op) const;

 private:
  // In the group's last operation that people were told of.
  struct Late {
    Seq seq = 0;
    std::vector<Culprit> who;
    bool more = false;
  };

  const Late* LateIn(const Op& op) const;
  const wire::ViewEntry* EntryOf(MemberId id, int32_t* rank) const;

  ViewPtr view_, previous_view_;
  Culprit last_;
  std::map<GroupKey, Late> late_;
};

}  // namespace ftar::runtime

#endif  // FTAR_RUNTIME_CULPRITS_H_
