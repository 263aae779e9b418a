// What holds between this member of a group and each other one, in one era.
#ifndef FTAR_COLLECTIVE_PEERS_H_
#define FTAR_COLLECTIVE_PEERS_H_

#include <algorithm>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "wire/messages.h"
#include "wire/view.h"

namespace ftar::collective {

struct Peer {
  MemberId id;
  Seq ack = 0, ack_sent = 0;  // complete_end, said by it and to it
  Seq ack_due = 0;            // what it must be told at least
  bool ready = false;         // it granted us credit (F2)
  std::vector<wire::KeptOp> kept;
};

// Few, and found by id. Where one is stays until another one is added, or some are forgotten.
class Peers {
 public:
  Peer* Find(MemberId id) {
    const auto found = std::ranges::lower_bound(by_id_, id, {}, &Peer::id);
    return found != by_id_.end() && found->id == id ? &*found : nullptr;
  }
  const Peer* Find(MemberId id) const { return const_cast<Peers*>(this)->Find(id); }
  Peer& Of(MemberId id) {  // adds it
    const auto found = std::ranges::lower_bound(by_id_, id, {}, &Peer::id);
    if (found != by_id_.end() && found->id == id) return *found;
    Peer fresh;
    fresh.id = id;
    return *by_id_.insert(found, std::move(fresh));
  }
  bool Ready(MemberId id) const {
    const Peer* const peer = Find(id);
    return peer && peer->ready;
  }
  // Says that it is complete here and in whatever comes before.
  bool HasAcked(MemberId id, Seq seq) const {
    const Peer* const peer = Find(id);
    return peer && peer->ack > seq;
  }
  void ForgetAllBut(const wire::View& view) {
    std::erase_if(by_id_, [&view](const Peer& peer) { return !view.Find(peer.id); });
  }
  auto begin() { return by_id_.begin(); }
  auto end() { return by_id_.end(); }

 private:
  std::vector<Peer> by_id_;
};

}  // namespace ftar::collective

#endif  // FTAR_COLLECTIVE_PEERS_H_
