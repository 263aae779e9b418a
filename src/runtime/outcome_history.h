// A group's last outcomes, for those who ask later. Deliveries come in order of seq, and almost
// without gaps (a leaver passes what nobody calls), so a place is found by counting. Of outcomes
// that are alike, one after the other, what does not differ is kept once: they are most of a job's,
// and what each of many members took part with is long. What is used again keeps its memory. Not
// synchronised: the job's lock covers it.
#ifndef FTAR_RUNTIME_OUTCOME_HISTORY_H_
#define FTAR_RUNTIME_OUTCOME_HISTORY_H_

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

#include "collective/types.h"

namespace ftar::runtime {

class OutcomeHistory {
 public:
  static constexpr size_t kMax = 1024;

  // Without memory it throws and stays as it was.
  [[gnu::hot]] void Add(const collective::Outcome& outcome) {
    if (!IsUsual(outcome)) return AddUnusual(outcome);
    places_[(end_++ - first_) % kMax].moment = outcome.moment();
  }

  // Its result was there only now.
  void NewestIsThere(TimeNs now) {
    places_[(end_ - 1 - first_) % kMax].moment.delivered_ns = now;
  }

  // Nothing if it is none of the last ones.
  std::optional<collective::Outcome> Find(Seq seq) const {
    if (places_.empty() || seq < first_ || seq >= end_) return std::nullopt;
    const Place& place = places_[(seq - first_) % kMax];
    if (place.moment.seq != seq) return std::nullopt;
    collective::Outcome outcome = kinds_[place.kind].outcome;
    outcome.Set(place.moment);
    outcome.alike = 0;  // others of its kind may have had another number
    return outcome;
  }

  // The newest is the one before it.
  Seq end() const { return end_; }

 private:
  static constexpr size_t kNone = ~size_t{0};

  struct Place {
    collective::Outcome::Moment moment{.seq = kNoSeq};
    size_t kind = kNone;
  };
  struct Kind {
    collective::Outcome outcome;
    size_t places = 0;         // that are of it
    size_t next_free = kNone;  // of those that no place is of
  };

  // It is like the one before it, and like the one whose place it takes.
  bool IsUsual(const collective::Outcome& outcome) const {
    return usual_ != 0 && outcome.alike == usual_ && outcome.seq == end_ &&
           places_.size() == kMax && places_[(end_ - first_) % kMax].kind == newest_;
  }

  // Kept apart from where it is seldom needed, and needs registers.
  [[gnu::noinline]] void AddUnusual(const collective::Outcome& outcome) {
    if (places_.empty()) places_.reserve(kMax);
    const size_t kind = KindOf(outcome);
    if (kinds_[kind].places++ == 0) free_ = kinds_[kind].next_free;
    if (places_.empty()) first_ = end_ = outcome.seq;
    if (end_ != outcome.seq) Pass(outcome.seq);
    *NextPlace() = {outcome.moment(), kind};
    newest_ = kind;
    usual_ = outcome.alike;
  }

  // That of the newest, or one that is free yet.
  size_t KindOf(const collective::Outcome& outcome) {
    if (newest_ != kNone && kinds_[newest_].outcome.SameButMoment(outcome)) return newest_;
    if (free_ == kNone) {
      kinds_.emplace_back();
      free_ = kinds_.size() - 1;
    }
    kinds_[free_].outcome = outcome;
    return free_;
  }

  // That of end_.
  Place* NextPlace() {
    const Seq seq = end_++;
    if (places_.size() < kMax) return &places_.emplace_back();
    Place* const place = &places_[(seq - first_) % kMax];
    if (place->kind != kNone) LetGo(place->kind);
    return place;
  }

  // What has no outcome has an empty place; beyond kMax of them all are empty.
  void Pass(Seq seq) {
    const Seq passed = std::min<Seq>(seq - end_, kMax);
    for (Seq i = 0; i < passed; ++i) *NextPlace() = {};
    end_ = seq;
  }

  void LetGo(size_t kind) {
    if (--kinds_[kind].places > 0) return;
    kinds_[kind].next_free = free_;
    free_ = kind;
  }

  std::vector<Place> places_;
  std::vector<Kind> kinds_;
  size_t newest_ = kNone, free_ = kNone;
  uint64_t usual_ = 0;  // Outcome::alike of the newest
  Seq first_ = 0, end_ = 0;
};

}  // namespace ftar::runtime

#endif  // FTAR_RUNTIME_OUTCOME_HISTORY_H_
