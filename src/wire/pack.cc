// Structs to FlatBuffers. One overload of Pack a table, in the order of messages.fbs; children are
// written before their parent.
#include "wire/pack.h"

#include <type_traits>
#include <utility>
#include <vector>

namespace ftar::wire {
namespace {

using Builder = flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;
using flatbuffers::Vector;

// ---- parts

fb::Id Pack(MemberId id) { return {id.hi, id.lo}; }

Offset<Vector<const fb::Id*>> PackIds(Builder& b, const std::vector<MemberId>& ids) {
  std::vector<fb::Id> packed;
  packed.reserve(ids.size());
  for (MemberId id : ids) packed.push_back(Pack(id));
  return b.CreateVectorOfStructs(packed);
}

Offset<Vector<const fb::SeqAt*>> PackSeqs(Builder& b, const std::vector<SeqBound>& seqs) {
  std::vector<fb::SeqAt> packed;
  packed.reserve(seqs.size());
  for (const SeqBound& bound : seqs) packed.emplace_back(bound.seq, bound.group);
  return b.CreateVectorOfStructs(packed);
}

// Elements of vectors, declared here because PackList looks only at what stands above it.
Offset<fb::Card> Pack(Builder& b, const MemberCard& card);
Offset<fb::Entry> Pack(Builder& b, const ViewEntry& entry);
Offset<fb::Electorate> Pack(Builder& b, const Electorate& electorate);
Offset<fb::List> Pack(Builder& b, const View& view);
Offset<fb::Lost> Pack(Builder& b, const Loss& loss);
Offset<fb::MemberLimit> Pack(Builder& b, const BoundOf& bound);
Offset<fb::GroupProgress> Pack(Builder& b, const GroupProgress& group);
Offset<fb::OpStatus> Pack(Builder& b, const OpStatus& op);
Offset<fb::GroupStatus> Pack(Builder& b, const GroupStatus& group);
Offset<fb::Verdict> Pack(Builder& b, const Verdict& verdict);
Offset<fb::GroupVerdicts> Pack(Builder& b, const GroupVerdicts& group);
Offset<fb::KeptOp> Pack(Builder& b, const KeptOp& op);
Offset<fb::StepMark> Pack(Builder& b, const StepMark& mark);

// A vector of tables: each element by its own Pack.
template <typename T>
auto PackList(Builder& b, const std::vector<T>& list) {
  std::vector<decltype(Pack(b, std::declval<const T&>()))> packed;
  packed.reserve(list.size());
  for (const T& element : list) packed.push_back(Pack(b, element));
  return b.CreateVector(packed);
}

Offset<fb::Card> Pack(Builder& b, const MemberCard& card) {
  const fb::Id id = Pack(card.id);
  return fb::CreateCard(b, &id, card.replica, card.shard, card.pid, b.CreateString(card.host),
                        b.CreateString(card.host_key), b.CreateString(card.rack),
                        b.CreateString(card.addresses), card.cores, card.core_set, card.lane,
                        card.wire.round_ns, card.wire.byte_ps);
}

Offset<fb::Limit> Pack(Builder& b, const Bound& bound) {
  return fb::CreateLimit(b, static_cast<uint8_t>(bound.kind), bound.step, bound.default_seq,
                         PackSeqs(b, bound.seqs));
}

Offset<fb::Entry> Pack(Builder& b, const ViewEntry& entry) {
  return fb::CreateEntry(b, Pack(b, entry.card), entry.joined_epoch, Pack(b, entry.first),
                         Pack(b, entry.last));
}

Offset<fb::Electorate> Pack(Builder& b, const Electorate& electorate) {
  return fb::CreateElectorate(b, electorate.epoch, PackIds(b, electorate.replicas));
}

Offset<fb::List> Pack(Builder& b, const View& view) {
  const auto boundary = Pack(b, view.boundary);
  const auto entries = PackList(b, view.entries);
  decltype(PackList(b, view.electorates)) electorates;
  if (!view.electorates.empty()) electorates = PackList(b, view.electorates);
  return fb::CreateList(b, view.epoch, view.era, view.base, view.planned, boundary, entries,
                        electorates);
}

Offset<fb::Told> Pack(Builder& b, const Report& report) {
  Offset<fb::List> view;
  if (report.installed_view) view = Pack(b, *report.installed_view);
  return fb::CreateTold(b, report.promised, PackIds(b, report.promised_members), report.installed,
                        view, report.formed, report.in_part);
}

Offset<fb::Lost> Pack(Builder& b, const Loss& loss) {
  const fb::Id member = Pack(loss.member);
  return fb::CreateLost(b, &member, loss.replica, loss.shard, b.CreateString(loss.host),
                        static_cast<int32_t>(loss.cause), b.CreateString(loss.stage),
                        loss.last_progress_ns, b.CreateString(loss.text), loss.seq);
}

Offset<fb::Call> Pack(Builder& b, const Signature& call) {
  const fb::Id root = Pack(call.root);
  return fb::CreateCall(b, call.kind, call.dtype, call.redop, call.flags, call.plan,
                        call.element_bytes, call.accumulator_bytes, call.count, call.step, &root,
                        call.layout, call.scale, call.window);
}

Offset<fb::MemberLimit> Pack(Builder& b, const BoundOf& bound) {
  const fb::Id member = Pack(bound.member);
  return fb::CreateMemberLimit(b, &member, Pack(b, bound.first), Pack(b, bound.last),
                               bound.fresh_first, bound.fresh_last);
}

Offset<fb::GroupProgress> Pack(Builder& b, const GroupProgress& group) {
  return fb::CreateGroupProgress(b, group.group, group.called_end, group.delivered_end,
                                 group.counter, PackIds(b, group.waits_for));
}

Offset<fb::OpStatus> Pack(Builder& b, const OpStatus& op) {
  return fb::CreateOpStatus(b, op.seq, op.attempt, op.complete, op.retriable, op.chunks,
                            b.CreateVector(op.final_chunks), Pack(b, op.signature), op.weight,
                            PackIds(b, op.origin.members), op.origin.piece_bytes);
}

Offset<fb::GroupStatus> Pack(Builder& b, const GroupStatus& group) {
  return fb::CreateGroupStatus(b, group.group, group.called_end, group.first_seq,
                               group.delivered_end, group.queued_end, PackList(b, group.ops),
                               PackList(b, group.failed));
}

Offset<fb::Verdict> Pack(Builder& b, const Verdict& verdict) {
  const fb::Id culprit = Pack(verdict.culprit);
  return fb::CreateVerdict(b, verdict.seq, static_cast<uint8_t>(verdict.kind), verdict.attempt,
                           static_cast<int32_t>(verdict.code), b.CreateString(verdict.text),
                           &culprit, b.CreateVector(verdict.holders),
                           PackIds(b, verdict.origin.members), verdict.origin.piece_bytes);
}

Offset<fb::GroupVerdicts> Pack(Builder& b, const GroupVerdicts& group) {
  return fb::CreateGroupVerdicts(b, group.group, group.called_end, group.queued_end,
                                 PackList(b, group.verdicts));
}

Offset<fb::KeptOp> Pack(Builder& b, const KeptOp& op) {
  return fb::CreateKeptOp(b, op.group, op.seq, b.CreateVector(op.chunks));
}

// ---- member to coordinator

Offset<fb::Hello> Pack(Builder& b, const Hello& m) {
  return fb::CreateHello(b, m.wire_version, b.CreateString(m.job), Pack(b, m.card), m.replicas,
                         m.shards, m.min_replicas, b.CreateVectorOfStrings(m.agreed_config),
                         Pack(b, m.report), m.roster.empty() ? 0 : b.CreateString(m.roster));
}
Offset<fb::LinksUp> Pack(Builder& b, const LinksUp& m) {
  return fb::CreateLinksUp(b, PackIds(b, m.peers), m.wire.round_ns, m.wire.byte_ps);
}
Offset<fb::Refuse> Pack(Builder& b, const Refuse& m) {
  return fb::CreateRefuse(b, m.epoch, Pack(b, m.report));
}
Offset<fb::Decided> Pack(Builder& b, const Decided& m) {
  return fb::CreateDecided(b, m.epoch, m.shard, PackList(b, m.bounds));
}
Offset<fb::Installed> Pack(Builder& b, const Installed& m) {
  return fb::CreateInstalled(b, m.epoch);
}
Offset<fb::Reserved> Pack(Builder& b, const Reserved& m) {
  return fb::CreateReserved(b, m.epoch, m.shard, m.idle, Pack(b, m.earliest));
}
Offset<fb::Confirmed> Pack(Builder& b, const Confirmed& m) {
  return fb::CreateConfirmed(b, m.epoch);
}
Offset<fb::Announced> Pack(Builder& b, const Announced& m) {
  return fb::CreateAnnounced(b, m.epoch, m.shard);
}
Offset<fb::Heartbeat> Pack(Builder& b, const Heartbeat& m) {
  return fb::CreateHeartbeat(b, m.installed, PackList(b, m.groups));
}
Offset<fb::Evidence> Pack(Builder& b, const Evidence& m) {
  const fb::Id subject = Pack(m.subject);
  return fb::CreateEvidence(b, static_cast<uint8_t>(m.kind), &subject, static_cast<int32_t>(m.code),
                            m.last_progress_ns, b.CreateString(m.text), m.seq);
}
Offset<fb::AskPrepare> Pack(Builder& b, const AskPrepare& m) {
  return fb::CreateAskPrepare(b, m.epoch, m.group, m.seq);
}
Offset<fb::LeaveRequest> Pack(Builder& b, const LeaveRequest&) { return fb::CreateLeaveRequest(b); }
Offset<fb::Goodbye> Pack(Builder& b, const Goodbye& m) {
  return fb::CreateGoodbye(b, static_cast<int32_t>(m.code), b.CreateString(m.text));
}

// ---- coordinator to member

Offset<fb::Welcome> Pack(Builder& b, const Welcome& m) {
  return fb::CreateWelcome(b, PackList(b, m.peers));
}
Offset<fb::Rejected> Pack(Builder& b, const Rejected& m) {
  return fb::CreateRejected(b, static_cast<int32_t>(m.code), b.CreateString(m.argument),
                            b.CreateString(m.text));
}
Offset<fb::Connect> Pack(Builder& b, const Connect& m) {
  return fb::CreateConnect(b, PackList(b, m.peers));
}
Offset<fb::Prepare> Pack(Builder& b, const Prepare& m) {
  return fb::CreatePrepare(b, m.epoch, m.base, PackIds(b, m.survivors), PackList(b, m.members),
                           m.leader_turn, PackList(b, m.lost));
}
Offset<fb::Install> Pack(Builder& b, const Install& m) {
  return fb::CreateInstall(b, Pack(b, m.view), PackList(b, m.lost));
}
Offset<fb::Propose> Pack(Builder& b, const Propose& m) {
  return fb::CreatePropose(b, Pack(b, m.view));
}
Offset<fb::Confirm> Pack(Builder& b, const Confirm& m) {
  return fb::CreateConfirm(b, Pack(b, m.view));
}
Offset<fb::Announce> Pack(Builder& b, const Announce& m) {
  return fb::CreateAnnounce(b, Pack(b, m.view));
}
Offset<fb::VoidPlan> Pack(Builder& b, const VoidPlan& m) { return fb::CreateVoidPlan(b, m.epoch); }
Offset<fb::Evicted> Pack(Builder& b, const Evicted& m) {
  return fb::CreateEvicted(b, m.epoch, Pack(b, m.reason), m.awaits_goodbye);
}
Offset<fb::CoordinatorBeat> Pack(Builder& b, const CoordinatorBeat& message) {
  return fb::CreateCoordinatorBeat(b, message.formed, message.away);
}
Offset<fb::LateNotice> Pack(Builder& b, const LateNotice& m) {
  const fb::Id member = Pack(m.member);
  return fb::CreateLateNotice(b, &member, m.group, m.seq, m.since_ns);
}
Offset<fb::NoQuorum> Pack(Builder& b, const NoQuorum& m) {
  return fb::CreateNoQuorum(b, b.CreateString(m.text));
}

// ---- member to member

Offset<fb::ColumnStatus> Pack(Builder& b, const ColumnStatus& m) {
  return fb::CreateColumnStatus(b, m.epoch, Pack(b, m.report), PackList(b, m.views), m.step,
                                m.steps_marked, PackList(b, m.groups), PackList(b, m.marks));
}
Offset<fb::ColumnVerdicts> Pack(Builder& b, const ColumnVerdicts& m) {
  return fb::CreateColumnVerdicts(b, m.epoch, m.step, PackList(b, m.views), PackList(b, m.groups),
                                  PackList(b, m.marks));
}
Offset<fb::AskVerdicts> Pack(Builder& b, const AskVerdicts& m) {
  return fb::CreateAskVerdicts(b, m.epoch);
}
Offset<fb::Credit> Pack(Builder& b, const Credit& m) {
  return fb::CreateCredit(b, m.era, PackList(b, m.kept));
}
Offset<fb::StepMark> Pack(Builder& b, const StepMark& m) {
  const fb::Id source = Pack(m.source);
  return fb::CreateStepMark(b, m.era, m.step, PackSeqs(b, m.starts), m.joined, &source, m.layout);
}
Offset<fb::Want> Pack(Builder& b, const Want& m) {
  return fb::CreateWant(b, m.era, m.group, m.seq, m.attempt, b.CreateVector(m.chunks));
}
Offset<fb::CallNotice> Pack(Builder& b, const CallNotice& m) {
  return fb::CreateCallNotice(b, m.era, m.group, m.seq, Pack(b, m.signature),
                              PackIds(b, m.layout_members));
}
Offset<fb::Release> Pack(Builder& b, const Release& m) { return fb::CreateRelease(b, m.epoch); }
Offset<fb::LeaveReady> Pack(Builder& b, const LeaveReady& m) {
  return fb::CreateLeaveReady(b, m.epoch, PackSeqs(b, m.called));
}

// ---- about those behind a relay

Offset<fb::Roster> Pack(Builder& b, const Roster& m) {
  const fb::Id unit = Pack(m.unit);
  return fb::CreateRoster(b, &unit, b.CreateString(m.bytes));
}
Offset<fb::Behind> Pack(Builder& b, const Behind& m) {
  return fb::CreateBehind(b, PackList(b, m.cards), b.CreateVectorOfStrings(m.rosters));
}

// ---- where the coordinator is

Offset<fb::Redirect> Pack(Builder& b, const Redirect& m) {
  const fb::Id host = Pack(m.host);
  return fb::CreateRedirect(b, m.epoch, &host, b.CreateString(m.address), m.here, m.leaves);
}

template <typename Table>
void Finish(Builder& b, Offset<Table> body) {
  fb::FinishEnvelopeBuffer(b,
                           fb::CreateEnvelope(b, fb::BodyTraits<Table>::enum_value, body.Union()));
}

}  // namespace

void PackEnvelope(Builder& builder, const Message& message) {
  std::visit([&builder](const auto& body) { Finish(builder, Pack(builder, body)); }, message);
}

}  // namespace ftar::wire
