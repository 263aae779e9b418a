// Who is suspected, and for how long nothing is done about it (rule Q7): evidence that waits for a
// better one, or for who is back.
//
// Think of a teacher who sees pupils leave the room. One who leaves is gone, unless he comes back
// at once. When most leave together she looks at the door first: it may be the room. And who was
// away, and is held by the hand of others, gets more time than who has let go of all.
//
// It knows connections, silences and proofs by what it is told; who lives, and who has links to
// whom, its owner says. Pure: time is an argument. Single-threaded.
#ifndef FTAR_MEMBERSHIP_SUSPECTS_H_
#define FTAR_MEMBERSHIP_SUSPECTS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/ids.h"

namespace ftar::membership {

class Suspects {
 public:
  // Its links, as the others of its column who are here tell. Who holds one lives, as far as they
  // can say.
  enum class Links : uint8_t { kUnknown, kNobodyTells, kSome, kNone };
  struct Suspicion {
    TimeNs since = 0, act_at = 0;
    std::string stage, text;  // of the loss that comes of it
    int extended = 0;         // how often it got more time
    bool reset = false;       // see Disconnected
    bool said = false;
    bool replaced = false;  // somebody waits for its place
  };
  struct Closed {  // a control connection
    std::string text;
    Links links = Links::kUnknown;
    bool reset = false;   // see Disconnected
    bool away = false;    // it has reason to look for another coordinator, or connection
    TimeNs grace_ns = 0;  // FailureDetector::Grace
  };
  struct Due {  // whose time is over
    std::vector<MemberId> ids;
    TimeNs since = kNever;  // the first of their suspicions
    bool fresh = false;     // somebody has not got more time yet
  };
  struct Census {                // of connections when one is suspected
    size_t members = 0;          // who are in
    size_t all = 0, closed = 0;  // of members, and of newcomers that have closed as well
    bool alone = false;          // of several members none can reach this side
    bool ends = false;           // the job does if all are lost who are suspected
  };
  struct Verdict {
    bool lost = false;
    bool waits = false;       // is told for the first time that it gets more time
    std::string stage, text;  // of the loss
  };

  explicit Suspects(TimeNs cluster_ns) : cluster_ns_(cluster_ns) {}
  void Configure(TimeNs timeout_ns) { timeout_ns_ = timeout_ns; }

  // ---- evidence ----
  void OnClosed(TimeNs now, MemberId id, Closed closed);
  void OnNewcomerClosed(TimeNs now);
  // Stands unless something else is heard in time. Who is suspected already stays so for the reason
  // before.
  void Await(TimeNs now, MemberId id, TimeNs wait_ns, std::string stage, std::string text);
  // All connections are made anew: who is back first may be cut off once more before the others are
  // here.
  void ExpectTrouble(TimeNs now);
  bool OnHeard(MemberId id);  // true: it was silent, and is not suspected any more
  // Somebody has been started in its place, so it is waited for no longer than any other would be.
  void Replace(MemberId id);
  void ReplaceAll();
  // Has time for a reason that the loss of all its links takes away; then it is to be hastened.
  bool PutOff(TimeNs now, MemberId id, bool relay) const;
  void Hasten(TimeNs now, MemberId id);
  void Drop(MemberId id) { suspicions_.erase(id); }
  void Clear() { suspicions_.clear(); }

  // ---- judgement ----
  Due DueAt(TimeNs now) const;
  // Connections that have closed at the same time as, or after, one that did `since`.
  size_t NewcomersClosed(TimeNs now, TimeNs since);
  // Of one that is due: whoever sees more than half of its connections close at once suspects
  // itself first: they have time to come back, and so have those without whom the job ends. While
  // nobody at all can reach it, there is also nobody who would wait for a decision.
  Verdict Judge(TimeNs now, MemberId id, Links links, const Census& census);
  TimeNs NextDeadline() const;

  bool empty() const { return suspicions_.empty(); }
  const Suspicion* Find(MemberId id) const;
  std::vector<MemberId> Ids() const;

 private:
  static constexpr int kExtendedMost = 2;
  TimeNs PatienceWith(const Closed& closed) const;

  const TimeNs cluster_ns_;  // what closes within this is one happening
  TimeNs timeout_ns_ = 10 * kSecond;
  std::map<MemberId, Suspicion> suspicions_;
  TimeNs trouble_until_ = 0;              // connections had to be made anew not long before
  std::vector<TimeNs> newcomers_closed_;  // their connections' ends, of one timeout
};

}  // namespace ftar::membership

#endif  // FTAR_MEMBERSHIP_SUSPECTS_H_
