// Fuzz target for a member: peers and a coordinator that have proved the token and then say
// anything, while its user goes on calling. It must neither crash nor spin, and every work and
// frame that it asks for must lie inside memory that is there.
#include <cstdio>
#include <set>
#include <string>
#include <variant>

#include "engine/engine.h"
#include "lab.h"
#include "memory.h"
#include "tests/fuzz/input.h"

namespace {

using ftar::MemberId;
using ftar::collective::SendFrame;
using ftar::collective::Todo;
using ftar::fuzz::Drawer;
using ftar::fuzz::Input;
using ftar::fuzz::Require;
using ftar::lab::kGroup;
using namespace ftar::engine;

ftar::lab::LabOptions DrawOptions(Input* input) {
  ftar::lab::LabOptions options;
  constexpr ftar::plan::PlanKind kPlans[] = {
      ftar::plan::PlanKind::kDirect, ftar::plan::PlanKind::kRing, ftar::plan::PlanKind::kOneShot};
  options.plan = kPlans[input->Below(3)];
  options.in_place = input->Chance();
  return options;
}

class Member {
 public:
  explicit Member(Input* input)
      : input_(input), drawer_(input), options_(DrawOptions(input)), lab_(options_) {
    lab_.Form();
    input_->Know(engine().view()->epoch);
  }

  void Run() {
    for (int events = 0; events < 200 && !input_->empty(); ++events) {
      now_ += input_->Byte() * ftar::kMillisecond;
      Play();
      Drain();
    }
  }

 private:
  Engine& engine() { return lab_.engine(1); }
  void Feed(const Event& event) { engine().Step(now_, event); }
  MemberId Peer() { return {0, 2 + input_->Below(2)}; }

  void Play() {
    switch (input_->Below(16)) {
      case 0:
      case 1: return Call();
      case 2: return Feed(Tick{});
      case 3: return input_->Chance() ? Feed(CoordinatorDown{}) : Feed(CoordinatorUp{});
      case 4: return Feed(LinkIsDown{Peer(), ftar::Code::kLink, "gone"});
      case 5: return Feed(LinkIsUp{Peer()});
      case 6: return Feed(PeerExited{Peer()});
      case 7: return FinishWork();
      case 8: return Feed(BeginStep{-1, input_->Chance()});
      case 9: return SelfWill();
      case 10: return FromTheCoordinator();
      case 11: return FromAPeer();
      default: return Frame();
    }
  }

  void SelfWill() {
    switch (input_->Below(8)) {
      case 0: return Feed(RequestLeave{});
      case 1: return Feed(AbortSelf{ftar::Code::kAborted, "enough"});
      case 2: return Feed(ReportSelf{ftar::Code::kPeer, "ill"});
      default: return Feed(EvictPeer{Peer(), "unwanted"});
    }
  }

  void Call() {
    ftar::collective::OpSpec spec = lab_.DefaultSpec();
    spec.count = input_->Below(4) * 5;
    spec.plan = options_.plan;
    spec.weight = input_->Below(3);
    calls_.push_back(spec);
    Feed(StartOp{kGroup, spec, calls_.size() - 1});
  }

  void FinishWork() {
    if (works_.empty()) return;
    auto at = works_.begin();
    std::advance(at, input_->Below(static_cast<uint32_t>(works_.size())));
    const uint64_t id = *at;
    works_.erase(at);
    memory_.WorkIsDone(id);
    Feed(WorkDone{kGroup, id});
  }

  void FromTheCoordinator() {
    if (auto message = drawer_.Message()) Feed(FromCoordinator{std::move(*message)});
  }
  void FromAPeer() {
    const MemberId from = Peer();
    auto message = drawer_.Message();
    if (!message || revoked_.contains(from)) return;
    if (auto* const notice = std::get_if<ftar::wire::CallNotice>(&*message)) {
      // There is memory for one group, and so much is an element in it.
      notice->group = kGroup;
      notice->signature.element_bytes = ftar::sim::kElementBytes;
      notice->signature.accumulator_bytes = ftar::sim::kElementBytes;
    }
    Feed(FromPeer{from, std::move(*message)});
  }

  // Like one that this member has sent itself, with some of it changed.
  void Frame() {
    ftar::collective::InboundFrame frame;
    frame.from = Peer();
    if (revoked_.contains(frame.from)) return;  // the driver sees to that
    if (!sent_.empty()) {
      const SendFrame& like = sent_[input_->Byte() % sent_.size()];
      frame.header = like.header;
      frame.ext = like.ext;
    }
    ftar::wire::FrameHeader& header = frame.header;
    constexpr ftar::wire::FrameKind kKinds[] = {
        ftar::wire::FrameKind::kAck, ftar::wire::FrameKind::kRaw, ftar::wire::FrameKind::kPartial,
        ftar::wire::FrameKind::kFinal};
    const uint8_t change = input_->Byte();
    if ((change & 1) != 0) header.kind = kKinds[input_->Below(4)];
    if ((change & 2) != 0) header.chunk = static_cast<uint32_t>(input_->Number());
    if ((change & 4) != 0) header.seq = input_->Number();
    if ((change & 8) != 0) header.complete_end = input_->Number();
    if ((change & 16) != 0) header.attempt = input_->Number();
    if ((change & 32) != 0) header.flags = input_->Byte() & 7;
    if ((change & 64) != 0) (input_->Chance() ? header.era : header.offset) = input_->Number();
    if ((change & 128) != 0) Damage(&frame);
    if (header.kind == ftar::wire::FrameKind::kAck) header.payload_bytes = 0;
    header.payload_bytes -= header.payload_bytes % ftar::sim::kElementBytes;
    if (header.payload_bytes > 0) {
      frame.inbound =
          memory_.AddInbound(ftar::sim::Buffer(header.payload_bytes / ftar::sim::kElementBytes),
                             {header.kind, header.era, header.seq, frame.from, nullptr});
    }
    Feed(FrameArrived{std::move(frame)});
  }

  void Damage(ftar::collective::InboundFrame* frame) {
    switch (input_->Below(4)) {
      case 0: frame->ext.resize(input_->Byte()); break;
      case 1: frame->header.signature = input_->Number(); break;
      case 2: frame->header.payload_bytes = input_->Byte() * 4u; break;
      default:
        if (!frame->ext.empty()) frame->ext[input_->Byte() % frame->ext.size()] ^= std::byte{1};
    }
    frame->header.ext_bytes = static_cast<uint32_t>(frame->ext.size());
  }

  void Drain() {
    for (int rounds = 0;; ++rounds) {
      Require(rounds < 1000);
      Ready ready = engine().TakeReady();
      if (ready.empty()) return;
      revoked_.insert(ready.revoke.begin(), ready.revoke.end());
      for (const Started& started : ready.started) Open(started);
      for (GroupTodo& item : ready.todo) Carry(item.todo);
      if (const auto view = engine().view()) input_->Know(view->epoch);
    }
  }

  void Open(const Started& started) {
    if (started.seq == ftar::kNoSeq) return;
    const auto& spec = calls_[started.handle];
    ftar::sim::Memory::OpBuffers& buffers = memory_.Open(started.seq);
    buffers.in_place = spec.in_place;
    buffers.send.resize(spec.count);
    buffers.recv.resize(spec.count);
  }

  static void Expect(const std::string& fault) {
    if (!fault.empty()) fprintf(stderr, "%s\n", fault.c_str());
    Require(fault.empty());
  }

  void Carry(Todo& todo) {
    ftar::sim::Buffer payload;
    bool spoiled = false;
    switch (todo.kind) {
      case Todo::Kind::kAllocate: return memory_.Allocate(todo.id, todo.bytes);
      case Todo::Kind::kFree: return memory_.Free(todo.id);
      case Todo::Kind::kReleaseInbound: return Expect(memory_.ReleaseInbound(todo.id));
      case Todo::Kind::kDeliver: return memory_.Close(todo.outcome().seq);
      case Todo::Kind::kCancelSends:
      case Todo::Kind::kPublish:  // there is no lane here
      case Todo::Kind::kTell:
      case Todo::Kind::kAdopt:
      case Todo::Kind::kFinishSends: return;
      case Todo::Kind::kWork:
        Expect(memory_.Run(todo.work(), engine().view()->era, &spoiled));
        if (todo.work().id != 0) works_.insert(todo.work().id);
        return;
      case Todo::Kind::kSend:
        Expect(memory_.Read(todo.frame().payload, &payload));
        todo.frame().header.payload_bytes =
            static_cast<uint32_t>(payload.size() * ftar::sim::kElementBytes);
        todo.frame().header.ext_bytes = static_cast<uint32_t>(todo.frame().ext.size());
        input_->Know(todo.frame().header.era);
        if (sent_.size() < 64) sent_.push_back(todo.frame());
    }
  }

  Input* const input_;
  Drawer drawer_;
  const ftar::lab::LabOptions options_;
  ftar::lab::Lab lab_;
  ftar::sim::Memory memory_;
  ftar::TimeNs now_ = ftar::kSecond;
  std::vector<ftar::collective::OpSpec> calls_;
  std::set<uint64_t> works_;
  std::set<MemberId> revoked_;
  std::vector<SendFrame> sent_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  Member(&input).Run();
  return 0;
}
