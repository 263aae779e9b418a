// Hosted weather: each member may coordinate (rule Q5). Who follows whom, and what becomes of the
// seat when its member goes; what src/runtime does on real sockets.
#include <algorithm>
#include <utility>

#include "node.h"
#include "story/director.h"
#include "world.h"

namespace ftar::sim {

namespace {
constexpr TimeNs kLook = 20 * kMillisecond;
constexpr int kRedirectsMax = 3;
}  // namespace

void World::StepSuccession(Node& node, const membership::SuccessionEvent& event) {
  if (!node.alive || node.over) return;
  if (node.stopped) {
    auto held = std::make_shared<const membership::SuccessionEvent>(event);
    node.backlog.emplace_back([this, &node, held] { StepSuccession(node, *held); });
    return;
  }
  node.succession->Step(now_, event);
  Pursue(node);
}

void World::Pursue(Node& node) {
  const membership::SuccessionReady ready = node.succession->TakeReady();
  if (ready.take_over) {
    if (trace_) Trace("hosts  " + ToString(node.card.id));
    OpenSeat(node.seat);
  }
  if (ready.dial) Dial(node, *ready.dial);
  CheckRests(&node.pursuit, ready.next_deadline, "the succession of " + ToString(node.card.id));
  if (ready.next_deadline >= node.pursue_at) return;
  node.pursue_at = std::max(ready.next_deadline, now_ + 1);
  AtNode(node, node.pursue_at, [this, &node] {
    node.pursue_at = kNever;
    node.pursuit.just_woken = true;
    StepSuccession(node, membership::SuccessionTick{});
    node.pursuit.just_woken = false;
  });
}

// Who knows nobody goes from one to the next: where the job meets is not what is looked at here.
void World::Dial(Node& node, MemberId target) {
  const uint64_t dial = ++node.dial;
  Node* const host =
      target.valid() ? Find(target) : nodes_[node.meeting_turn++ % nodes_.size()].get();
  AtNode(node, now_ + Delay(node.index, 0), [this, &node, host, dial] {
    if (node.dial == dial) Arrive(node, host, kRedirectsMax);
  });
}

// Somebody who does not coordinate says who does, as far as it knows.
void World::Arrive(Node& node, Node* host, int redirects) {
  if (node.over || node.connection != 0) return;
  const bool cut = director_ &&
                   (director_->Blocked(&node, nullptr) || director_->Blocked(nullptr, &node)) &&
                   host != &node;
  const bool there = host && host->alive && !host->over && !Severed(node, *host) && !cut &&
                     (now_ >= node.away_until || host == &node);
  const bool coordinates = there && host->seat.machine;
  if (coordinates && !host->stopped) {
    node.heard_at = now_;
    StepSuccession(node, membership::CoordinatorFound{host->card.id});
    Connected(node, host->seat);
    return WatchSilence(node);
  }
  Node* const next = there && !coordinates && !host->stopped && host->connection != 0
                         ? connections_[host->connection].seat->host
                         : nullptr;
  if (next && next != &node && redirects > 0) {
    return AtNode(node, now_ + Delay(node.index, 0),
                  [this, &node, next, redirects, dial = node.dial] {
                    if (node.dial == dial) Arrive(node, next, redirects - 1);
                  });
  }
  const bool silent = there && (coordinates || host->stopped);
  AtNode(node, now_ + (silent ? kLook : kMillisecond), [this, &node, dial = node.dial] {
    if (node.dial == dial && node.connection == 0) StepSuccession(node, membership::DialFailed{});
  });
}

// A member that hears nothing for a timeout gives its connection up.
void World::WatchSilence(Node& node) {
  AtNode(node, now_ + kLook, [this, &node, conn = node.connection, due = now_ + kLook] {
    if (node.connection != conn || conn == 0) return;
    // Late, it has stood still itself, and what has come meanwhile is read first.
    if (now_ != due || now_ - node.heard_at <= kTimeout) return WatchSilence(node);
    if (trace_) Trace("silent coordinator of " + ToString(node.card.id));
    node.connection = 0;
    FeedCoordinator(conn, membership::Disconnected{conn, "closed"});
    LoseConnection(node);
  });
}

void World::NoteSuccessors(Node& node) {
  membership::SuccessorsKnown known;
  for (const wire::MemberCard& card : node.engine->successors()) known.list.push_back(card.id);
  if (!known.list.empty()) StepSuccession(node, known);
}

// It coordinates on until it can hand over, for a while.
void World::RetireSeat(Node& node) {
  AtNode(node, now_ + kTimeout, [this, &node, life = node.seat.life] {
    if (node.seat.machine && node.seat.life == life) CloseSeat(node.seat);
  });
  FeedSeat(node.seat, membership::Retire{});
}

// All who were connected see it close.
void World::CloseSeat(Seat& seat) {
  seat.machine.reset();
  const uint64_t life = seat.life++;
  for (const auto& [conn, connection] : connections_) {
    if (connection.seat != &seat || connection.life != life) continue;
    Node* member = connection.member;
    if (member->connection != conn) continue;
    const TimeNs sent = WireOf(0, conn + kConnectionBase).free + 1;
    const TimeNs closed =
        now_ + (director_ ? director_->notice() : later_.Between(100'000, 5 * kMillisecond));
    AtNode(*member, std::max(sent, closed), [this, member, conn = conn] {
      if (member->connection != conn) return;
      member->connection = 0;
      LoseConnection(*member);
    });
  }
}

// For good.
void World::Part(Node& a, Node& b) {
  parted_.insert({a.index, b.index});
  parted_.insert({b.index, a.index});
  for (auto [member, host] : {std::pair{&a, &b}, std::pair{&b, &a}}) {
    if (member->connection == 0 || connections_[member->connection].seat->host != host) continue;
    LoseCoordinator(*member, now_ + director_->notice(), director_->notice(), 0);
  }
}

bool World::Severed(const Node& a, const Node& b) const {
  if (parted_.contains({a.index, b.index})) return true;
  return now_ < severed_until_ && ((side_ >> a.index ^ side_ >> b.index) & 1) != 0;
}

// The one whose view is the newest, if several think so.
World::Node* World::Host() const {
  Node* host = nullptr;
  Epoch newest = 0;
  for (const auto& node : nodes_) {
    if (!node->alive || node->stopped || !node->seat.machine) continue;
    const wire::View* view = node->seat.machine->view();
    if (host && (!view || view->epoch <= newest)) continue;
    host = node.get();
    newest = view ? view->epoch : 0;
  }
  return host;
}

std::shared_ptr<const wire::View> World::NewestView() const {
  std::shared_ptr<const wire::View> newest;
  for (const auto& node : nodes_) {
    const auto view = node->engine->view();
    if (node->alive && view && (!newest || view->epoch > newest->epoch)) newest = view;
  }
  return newest;
}

// The others have gone on without it. It hears so if it finds who coordinates by now, which may be
// somebody who came later than it knows.
bool World::IsLeftOut(const Node& node) const {
  const auto newest = NewestView();
  return node.engine->view() && newest && !newest->Find(node.card.id);
}

// Whether `node` has promised to go on without a member of its view or of the newest. (Who has not
// heard of the first view that it is in may have promised another one since.)
bool World::HasLeftOut(const Node& node, MemberId id) const {
  const auto newest = NewestView();
  for (const auto& view : {node.engine->view() ? node.engine->view() : newest, newest}) {
    if (view && node.conduct.prepared() > view->epoch && view->Find(id) &&
        !node.conduct.prepared_members().contains(id))
      return true;
  }
  return false;
}

// Who lives and is not out.
std::vector<const World::Node*> World::StillCounted() const {
  std::set<uint64_t> unreached;  // of two that cannot reach each other one has to go
  for (const auto& [a, b] : cut_) unreached.insert({a, b});
  const auto newest = NewestView();
  std::vector<const Node*> counted;
  for (const auto& node : nodes_) {
    const bool in = !newest || newest->Find(node->card.id);
    if (node->alive && !node->hung && !node->over && in && !unreached.contains(node->index))
      counted.push_back(node.get());
  }
  return counted;
}

// Rule Q3: who may be in the next view together. Those whom nobody here has promised to leave out;
// or those whom one promise names, or all, without whoever has promised to go on without them.
std::vector<std::set<MemberId>> World::Sides() const {
  const std::vector<const Node*> counted = StillCounted();
  std::vector<std::set<MemberId>> sides(1);
  for (const Node* node : counted) {
    const auto out = [node, this](const Node* by) { return HasLeftOut(*by, node->card.id); };
    if (std::ranges::none_of(counted, out)) sides[0].insert(node->card.id);
  }
  std::vector<const Node*> limits = counted;
  limits.push_back(nullptr);
  for (const Node* limit : limits) {
    std::vector<const Node*> side = counted;
    std::erase_if(side, [&](const Node* n) { return limit && HasLeftOut(*limit, n->card.id); });
    std::set<MemberId> ids;
    for (const Node* node : side) {
      if (std::ranges::none_of(side, [&](auto* n) { return HasLeftOut(*node, n->card.id); }))
        ids.insert(node->card.id);
    }
    sides.push_back(std::move(ids));
  }
  return sides;
}

// Rule Q4: true if those who are left are too few, by any view that one of them holds, to go on.
// Where nothing befalls anybody there are enough: who leaves hands over first.
bool World::QuorumIsLost() const {
  const std::vector<std::set<MemberId>> sides = Sides();
  // Whom all promises together leave out consents as soon as it hears so (rule Q5).
  std::set<MemberId> gone;
  for (const Node* node : StillCounted()) {
    if (!sides[0].contains(node->card.id)) gone.insert(node->card.id);
  }
  return TooFew(sides[0], gone) &&
         std::ranges::all_of(sides, [this](const auto& side) { return TooFew(side, {}); });
}

// `gone`: is not counted any more.
bool World::TooFew(const std::set<MemberId>& counted, const std::set<MemberId>& gone) const {
  for (const auto& node : nodes_) {
    // Of a plan that a newcomer has confirmed nobody here may know whether others have begun it.
    const auto view = node->engine->view() ? node->engine->view() : node->reported;
    if (!node->alive || node->over || !view) continue;
    std::set<int32_t> broken, replicas;
    for (const wire::ViewEntry& entry : view->entries) {
      replicas.insert(entry.card.replica);
      if (!counted.contains(entry.card.id)) broken.insert(entry.card.replica);
    }
    if (replicas.size() - broken.size() < static_cast<size_t>(weather_.min_replicas)) return true;
    if (weather_.harmless()) continue;
    std::vector<wire::Electorate> all = view->electorates;
    all.push_back({view->epoch, view->Successors()});
    for (wire::Electorate& electorate : all) {
      size_t here = 0;
      std::erase_if(electorate.replicas, [&](MemberId id) { return gone.contains(id); });
      for (const MemberId id : electorate.replicas) {
        const wire::ViewEntry* entry = view->Find(id);
        if (counted.contains(id) && entry && !broken.contains(entry->card.replica)) ++here;
      }
      const size_t count = electorate.replicas.size();
      const wire::ViewEntry* front = count > 0 ? view->Find(electorate.replicas.front()) : nullptr;
      const bool first =
          front && counted.contains(front->card.id) && !broken.contains(front->card.replica);
      if (2 * here < count || (2 * here == count && !first)) return true;
    }
  }
  return false;
}

}  // namespace ftar::sim
