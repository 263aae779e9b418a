// Members publish in their lanes, and others see it.
#include <algorithm>
#include <utility>

#include "node.h"
#include "story/director.h"
#include "world.h"

namespace ftar::sim {

namespace {
constexpr TimeNs kSeenMax = 400 * kMicrosecond, kSeenSoonMax = 4 * kMicrosecond;
}  // namespace

// Where all is alike little else happens meanwhile.
TimeNs World::SeenMax() const { return weather_.alike != 0 ? kSeenSoonMax : kSeenMax; }

// In half of the weather with lanes everybody sees everybody; in the other half not quite.
void World::OpenLane(Node& node, engine::Config* config) {
  const bool blind = weather_.lanes > 1;
  node.lane = std::make_unique<MemberLane>(
      &lane_host_, node.card.id, [this, blind, reader = node.index](MemberId writer) {
        return !blind || (seed_ * 31 + reader * 7 + writer.lo * 3) % 5 != 0;
      });
  for (Use* use : {&node.main, &node.urgent}) node.lane->Attach(use->group, &use->memory);
  config->group.lane = node.lane.get();
  // In every other one most are shared: only the shortest go in one pass.
  if (seed_ % 2 == 1) config->group.oneshot_max_bytes = 2 * kElementBytes;
  config->group.block_least = config->group.block_most = 3 * kElementBytes;
  // In some of either each sums all where it can, however many they are.
  config->group.all_sum_bytes_min = 0;
  if (seed_ % 4 >= 2) config->group.all_sum_members_max = kReplicasMax;
}

// In a story a member's wire to itself says when its stores are seen.
TimeNs World::SeenBy(const Node& writer, const Node& reader) {
  return director_ ? director_->WireTime(writer.index, reader.index)
                   : lanes_.Between(0, SeenMax());
}

void World::TellAllOfLane(Node& writer, TimeNs seen_at) {
  for (const auto& other : nodes_) {
    const bool self = other.get() == &writer;
    if (other->alive) TellOfLane(*other, seen_at + (self ? 0 : SeenBy(writer, *other)));
  }
}

void World::Publish(Node& node, GroupKey group, const collective::Publication& said) {
  Buffer input;
  FailIf(node.Of(group).memory.Read(said.input, &input));
  if (trace_)
    Trace("line   " + ToString(node.card.id) + " op " + std::to_string(said.line.seq) +
          " attempt " + std::to_string(EpochCounter(said.line.attempt)));
  TellAllOfLane(node, node.lane->Publish(group, said.line, std::move(input), SeenBy(node, node)));
}

void World::Tell(Node& node, GroupKey group, const collective::LaneWords& words) {
  if (trace_)
    Trace("words  " + ToString(node.card.id) + " op " + std::to_string(words.seq) + " made " +
          std::to_string(words.made / kElementBytes) + (words.done ? ", done" : ""));
  TellAllOfLane(node, node.lane->Tell(group, words, SeenBy(node, node)));
}

// What a work has made, for those who do not read it where it lies.
void World::PutAside(Node& node, GroupKey group, const collective::Work& work) {
  if (!node.lane || work.kind != collective::Work::Kind::kReduceFinal || !work.shown) return;
  Buffer made;
  FailIf(node.Of(group).memory.Read(work.dst, &made));
  node.lane->PutAside(group, work.seq, work.dst.offset / kElementBytes, made);
}

// It polls, unless a patient user looks.
void World::TellOfLane(Node& node, TimeNs at) {
  AtNode(node, at, [this, &node] {
    if (weather_.alike != 0 && node.engine->in_fast()) return;
    if (node.engine->HasLaneNews()) Feed(node, engine::Tick{});
  });
}

// The user's thread publishes, and looks for some time; whatever happens to its member before the
// end stops the fast path.
bool World::CallFast(Node& node) {
  const collective::OpSpec& called = node.main.unnumbered.back();
  const bool shows = director_ || lanes_.Below(8) != 0;
  const bool stays = shows && !called.in_place && !MemberLane::IsForArea(called.count);
  const collective::FastCall call{now_, &called, false, shows, stays};
  collective::LaneLine& line = node.line;
  if (!node.engine->RecurFast(kGroup, call, &line) &&
      !node.engine->StartFast(kGroup, call, &line))
    return false;
  const Seq seq = node.fast = line.seq;
  node.looks = 0;
  if (trace_) Trace("called " + ToString(node.card.id) + " op " + std::to_string(seq) + ", fast");
  OnStarted(node, node.main, seq);
  PublishFast(node, line);
  if (node.engine->ForeseeFast(now_)) node.foreseen = node.engine->fast_work();
  LookFast(node, seq);
  LookAgain(node, seq, now_ + lanes_.Between(1, SeenMax()));
  return true;
}

void World::PublishFast(Node& node, const collective::LaneLine& line) {
  const collective::OpSpec& spec = node.main.specs.at(line.seq);
  const collective::BufferRef all{collective::BufferRef::Kind::kSend, line.seq, 0,
                                  spec.count * kElementBytes};
  if (node.engine->fast_room() != collective::LaneRoom::kShared)
    return Publish(node, kGroup, {line, all});
  if (trace_) Trace("line   " + ToString(node.card.id) + " op " + std::to_string(line.seq));
  Buffer input;
  FailIf(node.main.memory.Read(all, &input));
  node.blocks.Begin(spec, (spec.count + node.index) % 2 == 0);
  const bool keeps = node.blocks.keeps_aside();
  TellAllOfLane(node, node.lane->PublishShared(kGroup, line, input, keeps, SeenBy(node, node)));
}

void World::LookAgain(Node& node, Seq seq, TimeNs at) {
  AtNode(node, OfUser(node, at), [this, &node, seq] { LookFast(node, seq); });
}

void World::LookFast(Node& node, Seq seq) {
  if (node.fast != seq || !node.engine->in_fast()) return;
  using collective::FastLook;
  const FastLook found = node.engine->LookFast(now_);
  if (found == FastLook::kStopped) return Drain(node);
  if (found == FastLook::kShare || found == FastLook::kTell) {
    if (ShareFast(node, found)) LookAgain(node, seq, now_ + WorkTime());
    return;
  }
  if (found == FastLook::kWait) {
    const bool shared = node.engine->fast_room() == collective::LaneRoom::kShared;
    constexpr int kPatientLooks = 8;
    const bool patient = shared || weather_.alike != 0;
    if (patient && node.looks++ < kPatientLooks)
      return LookAgain(node, seq, now_ + lanes_.Between(1, SeenMax()));
    return weather_.alike != 0 ? Drain(node) : void();
  }
  Buffer result;
  if (found == FastLook::kRead || found == FastLook::kForeseen) {
    const bool foreseen = found == FastLook::kForeseen;
    FailIf(node.main.memory.RunFast(foreseen ? node.foreseen : node.engine->fast_work(),
                                    node.engine->view()->era, &result));
  }
  // It may be slow to look at the flags, and finds them as they are then.
  AtNode(node, OfWork(node, now_ + WorkTime()),
         [this, &node, seq, result = std::move(result)]() mutable {
           EndFast(node, seq, std::move(result));
         });
}

// A block, or the word that it has all.
bool World::ShareFast(Node& node, collective::FastLook found) {
  if (found == collective::FastLook::kShare) {
    FailIf(node.blocks.Make(kGroup, node.engine->fast_work(), node.engine->view()->era,
                            &node.main.memory, node.lane.get()));
  }
  Tell(node, kGroup, node.engine->SharedFast());
  return failure_.empty();
}

void World::EndFast(Node& node, Seq seq, Buffer result) {
  if (node.fast != seq || !node.engine->in_fast()) return;
  const bool shared = node.engine->fast_room() == collective::LaneRoom::kShared;
  if (const auto outcome = node.engine->EndFast(now_, now_)) {
    if (!shared) node.main.memory.Find(seq)->recv = std::move(result);
    if (shared) FailIf(node.blocks.Land(&node.main.memory));
    OnDelivered(node, node.main, *outcome);
    return GoOn(node);
  }
  Drain(node);
}

}  // namespace ftar::sim
