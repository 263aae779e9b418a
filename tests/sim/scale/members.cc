// The members of a large job: engines, and the links between them.
#include <algorithm>
#include <set>
#include <utility>

#include "scale/job.h"
#include "wire/codec.h"

namespace ftar::sim {

void ScaleJob::Feed(Member& member, const engine::Event& event) {
  if (!member.engine) return;
  const Owner owner(Role::kMember);
  member.engine->Step(now_, event);
  for (;;) {
    engine::Ready ready = member.engine->TakeReady();
    const TimeNs deadline = ready.next_deadline;
    if (!ready.empty()) {
      CarryOut(member, std::move(ready));
      continue;
    }
    if (deadline < member.wake) {
      member.wake = std::max(deadline, now_ + 1);
      At(member.wake, Wake{IndexOf(member), -1});
    }
    return;
  }
}

void ScaleJob::CarryOut(Member& member, engine::Ready ready) {
  const uint32_t self = IndexOf(member);
  for (const MemberId id : ready.revoke) std::erase(member.links, static_cast<uint32_t>(id.lo - 1));
  if (ready.view_changed) NoteView(member);
  Traffic* const counted = member.shard == 0 ? &counts_.members : nullptr;
  for (wire::Message& message : ready.to_coordinator)
    SendUp(member.conn, std::move(message), counted);
  for (engine::PeerMessage& word : ready.to_peers) {
    if (counted) {
      ++counted->messages;
      counted->bytes += wire::Encode(word.message).size();
    }
    Next(PeerWord{self, static_cast<uint32_t>(word.to.lo - 1),
                  std::make_shared<wire::Message>(std::move(word.message))});
  }
  for (const wire::MemberCard& card : ready.connect)
    Next(LinkUp{self, static_cast<uint32_t>(card.id.lo - 1)});
  for (engine::GroupTodo& item : ready.todo) {
    collective::Todo& todo = item.todo;
    if (todo.kind == collective::Todo::Kind::kSend) {
      if (counted) {
        ++counted->messages;
        counted->bytes += sizeof(wire::FrameHeader) + todo.frame().payload.bytes;
      }
      Next(PeerFrame{static_cast<uint32_t>(todo.frame().to.lo - 1),
                     {MemberId{(self + 1) * 0x9e3779b97f4a7c15ULL, self + 1}, todo.frame().header,
                      std::move(todo.frame().ext), 1}});
    } else if (todo.kind == collective::Todo::Kind::kWork && todo.work().id != 0) {
      member.engine->Step(now_, engine::WorkDone{item.group, todo.work().id});
    } else if (todo.kind == collective::Todo::Kind::kDeliver) {
      ++delivered_;
      const collective::Outcome& outcome = todo.outcome();
      if (outcome.status != Code::kOk || outcome.participants != expected_) ++delivered_wrong_;
    }
  }
  for (const engine::Notice& notice : ready.notices)
    evictions_ += notice.kind == engine::Notice::Kind::kEvicted ? 1 : 0;
}

void ScaleJob::NoteView(Member& member) {
  const auto view = member.engine->view();
  if (!view) return;
  if (view->epoch > newest_) {
    newest_ = view->epoch;
    living_in_ = 0;
    std::set<int32_t> replicas;
    for (const wire::ViewEntry& entry : view->entries) replicas.insert(entry.card.replica);
    newest_replicas_ = replicas.size();
  }
  if (view->epoch == newest_ && member.epoch != newest_) ++living_in_;
  member.epoch = view->epoch;
}

void ScaleJob::On(PeerWord& event) {
  Member& member = members_[event.to];
  const bool linked =
      std::find(member.links.begin(), member.links.end(), event.from) != member.links.end();
  const MemberId from{(event.from + 1) * 0x9e3779b97f4a7c15ULL, event.from + 1};
  const Words words = std::move(event.words);
  if (linked) Feed(member, engine::FromPeer{from, std::move(*words)});
}

void ScaleJob::On(PeerFrame& event) {
  Member& member = members_[event.to];
  const auto from = static_cast<uint32_t>(event.frame.from.lo - 1);
  const bool linked =
      std::find(member.links.begin(), member.links.end(), from) != member.links.end();
  if (linked) Feed(member, engine::FrameArrived{std::move(event.frame)});
}

void ScaleJob::On(const LinkUp& event) {
  for (const auto& [at, peer] : {std::pair{event.a, event.b}, std::pair{event.b, event.a}}) {
    if (!members_[event.a].engine || !members_[event.b].engine) return;
    members_[at].links.push_back(peer);
    Feed(members_[at], engine::LinkIsUp{MemberId{(peer + 1) * 0x9e3779b97f4a7c15ULL, peer + 1}});
  }
}

void ScaleJob::On(const LinkLost& event) {
  Member& member = members_[event.at];
  if (std::erase(member.links, event.peer) == 0) return;
  const MemberId peer{(event.peer + 1) * 0x9e3779b97f4a7c15ULL, event.peer + 1};
  Feed(member, engine::LinkIsDown{peer, Code::kLink, "connection closed"});
}

}  // namespace ftar::sim
