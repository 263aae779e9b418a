// FlatBuffers to structs. The buffer has passed the verifier: offsets lie inside it and required
// fields are there. What is left to check here are enumerators and the memory the structs take.
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "wire/pack.h"

namespace ftar::wire {
namespace {

using flatbuffers::Offset;
using flatbuffers::Vector;

class Reader {
 public:
  explicit Reader(size_t bytes_max) : bytes_left_(bytes_max) {}
  const char* error() const { return error_; }

  // ---- parts
  static MemberId Id(const fb::Id* id) { return {id->hi(), id->lo()}; }

  void Get(const fb::Card& in, MemberCard& out) {
    out.id = Id(in.id());
    out.replica = in.replica();
    out.shard = in.shard();
    out.pid = in.pid();
    Text(in.host(), out.host);
    Text(in.host_key(), out.host_key);
    Text(in.rack(), out.rack);
    Text(in.addresses(), out.addresses);
    out.cores = in.cores();
    out.core_set = in.core_set();
    out.lane = in.lane();
    out.wire = {in.round_ns(), in.byte_ps()};
  }
  void Get(const fb::Limit& in, Bound& out) {
    Enum(in.kind(), Bound::Kind::kNone, Bound::Kind::kSeq, out.kind);
    out.step = in.step();
    out.default_seq = in.default_seq();
    Seqs(in.seqs(), out.seqs);
  }
  void Get(const fb::Entry& in, ViewEntry& out) {
    Get(*in.card(), out.card);
    out.joined_epoch = in.joined_epoch();
    Get(*in.first(), out.first);
    Get(*in.last(), out.last);
  }
  void Get(const fb::Electorate& in, Electorate& out) {
    out.epoch = in.epoch();
    Ids(in.replicas(), out.replicas);
  }
  void Get(const fb::List& in, View& out) {
    out.epoch = in.epoch();
    out.era = in.era();
    out.base = in.base();
    out.planned = in.planned();
    Get(*in.boundary(), out.boundary);
    List(in.entries(), out.entries);
    if (in.electorates() != nullptr) List(in.electorates(), out.electorates);
  }
  void Get(const fb::Told& in, Report& out) {
    out.promised = in.promised();
    Ids(in.promised_members(), out.promised_members);
    out.installed = in.installed();
    if (in.installed_view() != nullptr) Get(*in.installed_view(), out.installed_view.emplace());
    out.formed = in.formed();
    out.in_part = in.in_part();
  }
  void Get(const fb::Lost& in, Loss& out) {
    out.member = Id(in.member());
    out.replica = in.replica();
    out.shard = in.shard();
    Text(in.host(), out.host);
    Result(in.cause(), out.cause);
    Text(in.stage(), out.stage);
    out.last_progress_ns = in.last_progress_ns();
    Text(in.text(), out.text);
    out.seq = in.seq();
  }
  void Get(const fb::Call& in, Signature& out) {
    out.kind = in.kind();
    out.dtype = in.dtype();
    out.redop = in.redop();
    out.flags = in.flags();
    out.plan = in.plan();
    out.element_bytes = in.element_bytes();
    out.accumulator_bytes = in.accumulator_bytes();
    out.count = in.count();
    out.step = in.step();
    out.root = Id(in.root());
    out.layout = in.layout();
    out.window = in.window();
    out.scale = in.scale();
    if (const char* const fault = SignatureFault(out)) error_ = fault;
  }
  void Get(const fb::MemberLimit& in, BoundOf& out) {
    out.member = Id(in.member());
    Get(*in.first(), out.first);
    Get(*in.last(), out.last);
    out.fresh_first = in.fresh_first();
    out.fresh_last = in.fresh_last();
  }
  void Get(const fb::GroupProgress& in, GroupProgress& out) {
    out.group = in.group();
    out.called_end = in.called_end();
    out.delivered_end = in.delivered_end();
    out.counter = in.counter();
    Ids(in.waits_for(), out.waits_for);
  }
  void Get(const fb::OpStatus& in, OpStatus& out) {
    out.seq = in.seq();
    out.attempt = in.attempt();
    out.complete = in.complete();
    out.retriable = in.retriable();
    out.chunks = in.chunks();
    Numbers(in.final_chunks(), out.final_chunks);
    if (out.final_chunks.size() != (uint64_t{out.chunks} + 63) / 64)
      error_ = "message has another number of chunks than it tells of";
    Get(*in.signature(), out.signature);
    out.weight = in.weight();
    Ids(in.origin(), out.origin.members);
    out.origin.piece_bytes = in.piece_bytes();
  }
  void Get(const fb::GroupStatus& in, GroupStatus& out) {
    out.group = in.group();
    out.called_end = in.called_end();
    out.first_seq = in.first_seq();
    out.delivered_end = in.delivered_end();
    out.queued_end = in.queued_end();
    List(in.ops(), out.ops);
    List(in.failed(), out.failed);
  }
  void Get(const fb::Verdict& in, Verdict& out) {
    out.seq = in.seq();
    Enum(in.kind(), VerdictKind::kCommit, VerdictKind::kFail, out.kind);
    out.attempt = in.attempt();
    Result(in.code(), out.code);
    Text(in.text(), out.text);
    out.culprit = Id(in.culprit());
    Numbers(in.holders(), out.holders);
    Ids(in.origin(), out.origin.members);
    out.origin.piece_bytes = in.piece_bytes();
  }
  void Get(const fb::GroupVerdicts& in, GroupVerdicts& out) {
    out.group = in.group();
    out.called_end = in.called_end();
    out.queued_end = in.queued_end();
    List(in.verdicts(), out.verdicts);
  }
  void Get(const fb::KeptOp& in, KeptOp& out) {
    out.group = in.group();
    out.seq = in.seq();
    Numbers(in.chunks(), out.chunks);
  }

  // ---- member to coordinator
  void Get(const fb::Hello& in, Hello& out) {
    out.wire_version = in.wire_version();
    Text(in.job(), out.job);
    Get(*in.card(), out.card);
    out.replicas = in.replicas();
    out.shards = in.shards();
    out.min_replicas = in.min_replicas();
    Texts(in.agreed_config(), out.agreed_config);
    Get(*in.report(), out.report);
    if (in.roster() != nullptr) Text(in.roster(), out.roster);
  }
  void Get(const fb::LinksUp& in, LinksUp& out) {
    Ids(in.peers(), out.peers);
    out.wire = {in.round_ns(), in.byte_ps()};
  }
  void Get(const fb::Refuse& in, Refuse& out) {
    out.epoch = in.epoch();
    Get(*in.report(), out.report);
  }
  void Get(const fb::Decided& in, Decided& out) {
    out.epoch = in.epoch();
    out.shard = in.shard();
    List(in.bounds(), out.bounds);
  }
  void Get(const fb::Installed& in, Installed& out) { out.epoch = in.epoch(); }
  void Get(const fb::Reserved& in, Reserved& out) {
    out.epoch = in.epoch();
    out.shard = in.shard();
    out.idle = in.idle();
    Get(*in.earliest(), out.earliest);
  }
  void Get(const fb::Confirmed& in, Confirmed& out) { out.epoch = in.epoch(); }
  void Get(const fb::Announced& in, Announced& out) {
    out.epoch = in.epoch();
    out.shard = in.shard();
  }
  void Get(const fb::Heartbeat& in, Heartbeat& out) {
    out.installed = in.installed();
    List(in.groups(), out.groups);
  }
  void Get(const fb::Evidence& in, Evidence& out) {
    Enum(in.kind(), EvidenceKind::kProcessExited, EvidenceKind::kDeadline, out.kind);
    out.subject = Id(in.subject());
    Result(in.code(), out.code);
    out.last_progress_ns = in.last_progress_ns();
    Text(in.text(), out.text);
    out.seq = in.seq();
  }
  void Get(const fb::AskPrepare& in, AskPrepare& out) { out = {in.epoch(), in.group(), in.seq()}; }
  void Get(const fb::LeaveRequest&, LeaveRequest&) {}
  void Get(const fb::Goodbye& in, Goodbye& out) {
    Result(in.code(), out.code);
    Text(in.text(), out.text);
  }

  // ---- coordinator to member
  void Get(const fb::Welcome& in, Welcome& out) { List(in.peers(), out.peers); }
  void Get(const fb::Rejected& in, Rejected& out) {
    Result(in.code(), out.code);
    Text(in.argument(), out.argument);
    Text(in.text(), out.text);
  }
  void Get(const fb::Connect& in, Connect& out) { List(in.peers(), out.peers); }
  void Get(const fb::Prepare& in, Prepare& out) {
    out.epoch = in.epoch();
    out.base = in.base();
    Ids(in.survivors(), out.survivors);
    List(in.members(), out.members);
    out.leader_turn = in.leader_turn();
    List(in.lost(), out.lost);
  }
  void Get(const fb::Install& in, Install& out) {
    Get(*in.view(), out.view);
    List(in.lost(), out.lost);
  }
  void Get(const fb::Propose& in, Propose& out) { Get(*in.view(), out.view); }
  void Get(const fb::Confirm& in, Confirm& out) { Get(*in.view(), out.view); }
  void Get(const fb::Announce& in, Announce& out) { Get(*in.view(), out.view); }
  void Get(const fb::VoidPlan& in, VoidPlan& out) { out.epoch = in.epoch(); }
  void Get(const fb::Evicted& in, Evicted& out) {
    out.epoch = in.epoch();
    Get(*in.reason(), out.reason);
    out.awaits_goodbye = in.awaits_goodbye();
  }
  void Get(const fb::CoordinatorBeat& in, CoordinatorBeat& out) { out = {in.formed(), in.away()}; }
  void Get(const fb::LateNotice& in, LateNotice& out) {
    out = {Id(in.member()), in.group(), in.seq(), in.since_ns()};
  }
  void Get(const fb::NoQuorum& in, NoQuorum& out) { Text(in.text(), out.text); }

  // ---- member to member
  void Get(const fb::ColumnStatus& in, ColumnStatus& out) {
    out.epoch = in.epoch();
    Get(*in.report(), out.report);
    List(in.views(), out.views);
    out.step = in.step();
    out.steps_marked = in.steps_marked();
    List(in.groups(), out.groups);
    List(in.marks(), out.marks);
  }
  void Get(const fb::ColumnVerdicts& in, ColumnVerdicts& out) {
    out.epoch = in.epoch();
    out.step = in.step();
    List(in.views(), out.views);
    List(in.groups(), out.groups);
    List(in.marks(), out.marks);
  }
  void Get(const fb::AskVerdicts& in, AskVerdicts& out) { out.epoch = in.epoch(); }
  void Get(const fb::Credit& in, Credit& out) {
    out.era = in.era();
    List(in.kept(), out.kept);
  }
  void Get(const fb::StepMark& in, StepMark& out) {
    out.era = in.era();
    out.step = in.step();
    Seqs(in.starts(), out.starts);
    out.joined = in.joined();
    out.source = Id(in.source());
    out.layout = in.layout();
  }
  void Get(const fb::Want& in, Want& out) {
    out.era = in.era();
    out.group = in.group();
    out.seq = in.seq();
    out.attempt = in.attempt();
    Numbers(in.chunks(), out.chunks);
  }
  void Get(const fb::CallNotice& in, CallNotice& out) {
    out.era = in.era();
    out.group = in.group();
    out.seq = in.seq();
    Get(*in.signature(), out.signature);
    Ids(in.layout_members(), out.layout_members);
    if (HasSegments(out.signature) && out.layout_members.empty())
      error_ = "message describes segments of nobody";
  }
  void Get(const fb::Release& in, Release& out) { out.epoch = in.epoch(); }
  void Get(const fb::LeaveReady& in, LeaveReady& out) {
    out.epoch = in.epoch();
    Seqs(in.called(), out.called);
  }

  // ---- about those behind a relay
  void Get(const fb::Roster& in, Roster& out) {
    out.unit = Id(in.unit());
    Text(in.bytes(), out.bytes);
  }
  void Get(const fb::Behind& in, Behind& out) {
    List(in.cards(), out.cards);
    Texts(in.rosters(), out.rosters);
  }

  // ---- where the coordinator is
  void Get(const fb::Redirect& in, Redirect& out) {
    out.epoch = in.epoch();
    out.host = Id(in.host());
    Text(in.address(), out.address);
    out.here = in.here();
    out.leaves = in.leaves();
  }

 private:
  // Counts memory that is about to be taken; after the first refusal nothing more is decoded.
  bool Take(size_t bytes) {
    if (error_ != nullptr) return false;
    if (bytes > bytes_left_) {
      error_ = "message expands beyond what its length allows";
      return false;
    }
    bytes_left_ -= bytes;
    return true;
  }
  // The verifier knows where a vector lies, but not that its elements may need more alignment than
  // its length does.
  template <typename T>
  bool TakeAll(const Vector<T>* in, size_t alignment, size_t element_bytes) {
    if (in->size() > 0 && reinterpret_cast<uintptr_t>(in->Data()) % alignment != 0) {
      error_ = "message holds a misaligned vector";
      return false;
    }
    return Take(in->size() * element_bytes);
  }
  void Text(const flatbuffers::String* in, std::string& out) {
    if (Take(in->size())) out.assign(in->c_str(), in->size());
  }
  void Texts(const Vector<Offset<flatbuffers::String>>* in, std::vector<std::string>& out) {
    if (!Take(in->size() * sizeof(std::string))) return;
    out.resize(in->size());
    for (uint32_t i = 0; i < in->size() && error_ == nullptr; ++i) Text(in->Get(i), out[i]);
  }
  template <typename E>
  void Enum(uint8_t in, E first, E last, E& out) {
    if (in < static_cast<uint8_t>(first) || in > static_cast<uint8_t>(last)) {
      error_ = "message holds an unknown enumerator";
      return;
    }
    out = static_cast<E>(in);
  }
  void Result(int32_t in, Code& out) {
    static const std::string_view unknown = CodeName(static_cast<Code>(-1));
    out = static_cast<Code>(in);
    if (CodeName(out) == unknown) error_ = "message holds an unknown result code";
  }
  void Ids(const Vector<const fb::Id*>* in, std::vector<MemberId>& out) {
    if (!TakeAll(in, alignof(fb::Id), sizeof(MemberId))) return;
    out.reserve(in->size());
    for (const fb::Id* id : *in) out.push_back(Id(id));
  }
  void Seqs(const Vector<const fb::SeqAt*>* in, std::vector<SeqBound>& out) {
    if (!TakeAll(in, alignof(fb::SeqAt), sizeof(SeqBound))) return;
    out.reserve(in->size());
    for (const fb::SeqAt* at : *in) out.push_back({at->group(), at->seq()});
  }
  template <typename T>
  void Numbers(const Vector<T>* in, std::vector<T>& out) {
    if (TakeAll(in, alignof(T), sizeof(T))) out.assign(in->begin(), in->end());
  }
  template <typename Table, typename T>
  void List(const Vector<Offset<Table>>* in, std::vector<T>& out) {
    if (!Take(in->size() * sizeof(T))) return;
    out.resize(in->size());
    for (uint32_t i = 0; i < in->size() && error_ == nullptr; ++i) Get(*in->Get(i), out[i]);
  }

  size_t bytes_left_;
  const char* error_ = nullptr;
};

// True if message T stands at the same place in the variant and in the union.
template <typename T, fb::Body kBody>
constexpr bool kInOrder =
    std::is_same_v<std::variant_alternative_t<static_cast<size_t>(kBody) - 1, AnyMessage>, T>;

}  // namespace

Expected<Message> UnpackEnvelope(const fb::Envelope& envelope, size_t bytes_max) {
  Reader reader(bytes_max);
  Message message;
  switch (envelope.body_type()) {
#define FTAR_UNPACK(Name)                                            \
  case fb::Body::Name:                                               \
    static_assert(kInOrder<Name, fb::Body::Name>);                   \
    reader.Get(*envelope.body_as_##Name(), message.emplace<Name>()); \
    break;
    FTAR_WIRE_MESSAGES(FTAR_UNPACK)
#undef FTAR_UNPACK
    default: return Status(Code::kPeer, "message of an unknown kind");
  }
  static_assert(static_cast<size_t>(fb::Body::MAX) == std::variant_size_v<AnyMessage>);
  if (reader.error() != nullptr) return Status(Code::kPeer, reader.error());
  return message;
}

}  // namespace ftar::wire
