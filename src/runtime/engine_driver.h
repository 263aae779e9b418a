// Carries out what the engine says: staging, works, frames, links. And tells the engine what the
// devices saw.
//
// Everything here runs under the job's lock; nothing blocks. The driver owns the engine, the
// devices, the staging blocks and the received frames that the engine has not released; user
// buffers belong to the ops, which the host looks up. References to memory are resolved here, each
// with a bounds check: a wrong one is a fault of ours, ends this member and harms nobody else.
#ifndef FTAR_RUNTIME_ENGINE_DRIVER_H_
#define FTAR_RUNTIME_ENGINE_DRIVER_H_

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/recent_set.h"
#include "base/slot_table.h"
#include "engine/engine.h"
#include "reduce/reduce.h"
#include "runtime/accelerator.h"
#include "runtime/asides.h"
#include "runtime/flights.h"
#include "runtime/hand_over.h"
#include "runtime/lane.h"
#include "runtime/lane_way.h"
#include "runtime/memory.h"
#include "runtime/op.h"
#include "runtime/share_way.h"
#include "runtime/test_hook.h"
#include "transport/transport.h"

namespace ftar::runtime {

// What the driver hands on. Called under the job's lock, in the order in which the engine said it;
// of deliveries only those of one group keep theirs.
class DriverHost {
 public:
  virtual ~DriverHost() = default;
  virtual Op* FindOp(GroupKey group, Seq seq) = 0;
  virtual void SendToCoordinator(const wire::Message& message) = 0;
  virtual void OnStarted(const engine::Started& started) = 0;
  virtual void OnDelivered(GroupKey group, collective::Outcome&& outcome) = 0;
  // The same in two parts, of the operation that StartFast took last; its result is there at `now`.
  virtual void NoteFast(const collective::Outcome& outcome) = 0;
  virtual void OnDeliveredFast(TimeNs now) = 0;
  virtual void OnStep(const engine::StepBegun& step) = 0;
  virtual void OnNotice(const engine::Notice& notice) = 0;
  virtual void OnViewChanged() = 0;
  // A path of the link to `peer` is gone; the link goes on.
  virtual void OnPathLost(MemberId peer, const Status& why) = 0;
  virtual void OnPeerExited(MemberId peer) = 0;
};

using Devices = std::vector<std::unique_ptr<transport::Device>>;

// Of a call on the fast path to the last one.
enum class Likeness {
  kNone,
  kAlike,  // FastCall::like_last
  kSame,   // nor has anything happened here since that ended: what was looked at for it still holds
};

class EngineDriver final : public transport::Placer {
 public:
  // `lane` is the one in `config`, or null; it outlives the driver.
  // `exports`: what the devices share of this process's memory.
  EngineDriver(engine::Config config, Devices devices,
               std::shared_ptr<transport::ExportedMemory> exports, HostLane* lane,
               DriverHost* host, const Logger* log);
  ~EngineDriver() override;
  EngineDriver(const EngineDriver&) = delete;
  EngineDriver& operator=(const EngineDriver&) = delete;

  engine::Engine& engine() { return *engine_; }
  const engine::Engine& engine() const { return *engine_; }
  const Devices& devices() const { return devices_; }
  TestHook& hook() { return hook_; }
  void StrikeBefore(Seq seq) { Strike(FaultStage::kBefore, seq, -1); }
  bool dropping() const { return dropping_; }  // test hook: the network is gone, silently
  StagingPool& staging() { return pool_; }
  // From now on operations may lie in the GPU's memory. Once.
  void Use(std::unique_ptr<Accelerator> accelerator) { accelerator_ = std::move(accelerator); }
  // Null if there is none.
  Accelerator* accelerator() { return accelerator_.get(); }

  std::byte* PlaceFor(MemberId from, const wire::FrameHeader& header) override;

  void Feed(TimeNs now, const engine::Event& event) {
    Guard([&] { Step(now, event); });
  }
  // The fast path (engine.h). False: it does not take this call. `op` gets its number, and FindOp
  // has to know it from then on.
  bool StartFast(TimeNs now, Op* op, Likeness likeness);
  bool in_fast() const { return engine_->in_fast(); }
  // Whether the one that StartFast took is shared.
  bool shares_fast() const { return engine_->fast_room() == collective::LaneRoom::kShared; }
  // Whether the last look at it left something that can be done at once.
  bool fast_has_more() const { return fast_has_more_; }
  // Of what StartFast took: its line goes out, and its input with it.
  void PublishFast(const Op& op);
  // While that is on its way: as much as can be done of what comes behind the others' lines.
  void ForeseeFast(TimeNs now, const Op& op);
  // Looks whether the others' lines are there, as often as takes no longer than the own one needs
  // to be seen by all. What it costs to look otherwise is spared where it would be in vain.
  // And the fence before the look at the flags (F4 d) is made while there is time.
  bool AwaitFast(const Op& op) const;
  // Nobody sleeps through what was written to the lane. Once behind it, soon.
  void Announce();
  // Something is missing; something of a shared one was done; its result is made, or it has left
  // the fast path.
  enum class FastState { kWaits, kMoved, kOver };
  FastState LookFast(const Op& op);
  // It is on the fast path no more: delivered, or an operation like any other.
  void EndFast(TimeNs now, const Op& op);
  // Takes what the devices have, bounded, and feeds it. True if there was anything.
  bool Poll(TimeNs now);
  // Carries out all that the engine wants, until it wants nothing more.
  void Run(TimeNs now);
  // While it lives, Run leaves what is sent with the links; they write it when it goes. For several
  // small things, which one system call takes as well as one of them.
  class Gathering {
   public:
    Gathering(EngineDriver* driver, TimeNs now) : driver_(driver), now_(now) {
      driver_->gathering_ = true;
    }
    ~Gathering() {
      Write();
      driver_->gathering_ = false;
    }
    Gathering(const Gathering&) = delete;
    Gathering& operator=(const Gathering&) = delete;
    void Write() { driver_->WriteSent(now_); }

   private:
    EngineDriver* const driver_;
    const TimeNs now_;
  };
  // There was no memory for what had to be done, so that nothing here can be relied on any more. It
  // does nothing more by itself; the host gives up: Abandon, ForgetAll, perhaps again when there is
  // memory.
  bool broken() const { return broken_; }
  // Run would find something to do.
  bool has_more() const { return stepped_ || sent_ || broken_ || !deferred_.empty(); }
  // Others read here until they are told not to, and inputs come back now: so that is told first.
  void Break();
  void Abandon(TimeNs now, const Status& why);
  TimeNs next_deadline() const { return next_deadline_; }
  TimeNs devices_deadline() const;
  bool sending() const;  // frames of ours still wait in a link

  // Sleeping: arms all doorbells, or none if there is work already.
  bool PrepareSleep();
  void FinishSleep();
  // While somebody sleeps: whether others ring when they write to the lane. Who turns it on looks
  // there afterwards.
  void HeedLane(bool heeds);
  bool heeds_lane() const { return heeds_lane_; }
  // After calls while somebody sleeps: others ring for those, too. False: there is news already.
  bool KeepArmed();
  // Revokes every peer: after return nobody else reads or writes memory of this member.
  void ForgetAll(TimeNs now);
  void Close();
  void CloseInForkedChild();

  struct Counters {
    uint64_t links_opened = 0, links_closed = 0, links_kept = 0, frames_unroutable = 0, works = 0,
             lines = 0, fast = 0, staging_bytes = 0, gpu_plans = 0, gpu_block_us = 0;
    uint64_t bytes_moved = 0;  // read and written by the host's works, and for the lane
  };
  Counters counters() const;
  transport::Device::Counters device_counters() const;
  struct LinkReport {
    MemberId peer;
    std::string transport, text;
    bool up = false;
  };
  std::vector<LinkReport> Links() const;  // for dumps

 private:
  struct Peer {
    transport::Device* device = nullptr;
    transport::Link* link = nullptr;
    bool up = false;
    bool member = false;    // of the view, and staying in it
    bool faulted = false;   // said something that is no message: not listened to any more
    bool late = false;      // has not answered, and is dialled again
    wire::MemberCard card;  // empty where the peer dialled us
    // A link gives its memory back in order: a frame that rests in it holds back everything behind.
    // So what has come behind the oldest one is counted, and that one is moved out before its
    // sender stalls.
    uint64_t received_bytes = 0;
    struct Resting {
      uint64_t inbound = 0;
      uint64_t received_bytes = 0;  // when it came
    };
    std::deque<Resting> resting;  // the first one still rests; of those behind it some may not
    // Frames whose bytes are still on their way out of the GPU's memory, and all behind them but
    // acks.
    struct Waiting {
      uint64_t number = 0;  // of the plan that brings the bytes
      uint64_t cookie = 0;
      GroupKey group = 0;
      collective::SendFrame frame;
      std::vector<std::byte> control;  // a control frame's payload
    };
    std::deque<Waiting> waiting;
    std::vector<std::byte> control;  // a message's pieces, until the last one comes
  };
  struct Inbound {
    MemberId from;
    transport::Link* link = nullptr;  // null: revoked, the bytes are in `own`
    uint64_t token = 0;
    std::span<const std::byte> payload;
    std::shared_ptr<const void> lent;  // the payload lies in its sender's memory, kept mapped
    bool on_device = false;            // and that is a GPU's
    bool streamed = false;             // past its writer's caches
    StagingBlock own;
    Home own_home = Home::kHost;
  };
  struct Staging {
    StagingBlock block;
    Home home = Home::kHost;
    uint64_t bytes = 0;
    uint32_t flights = 0;
    bool released = false;
  };
  struct Saved {  // of a user's buffer, in staging
    GroupKey group = 0;
    collective::BufferRef user, kept;
  };
  struct Deferred {
    GroupKey group = 0;
    uint64_t number = 0;  // of the last plan that may touch its buffers
    collective::Outcome outcome;
  };

  template <typename Act>
  void Guard(const Act& act) {
    if (broken_) return;
    try {
      act();
    } catch (...) {
      Break();
    }
  }

  void WriteSent(TimeNs now);
  void Step(TimeNs now, const engine::Event& event) {
    stepped_ = true;
    engine_->Step(now, event);
  }

  // engine_driver_device.cc: operations in the GPU's memory
  bool OnDevice(GroupKey group, Seq seq) const;
  bool InDeviceMemory(GroupKey group, const collective::BufferRef& ref);
  bool PollAccelerator(TimeNs now);
  void DoDeviceWork(TimeNs now, GroupKey group, const collective::Work& work);
  Expected<uint64_t> SubmitWork(TimeNs now, GroupKey group, const collective::Work& work,
                                std::byte* dst);
  Epoch CurrentEpoch() const;
  bool PinInbound(TimeNs now, uint64_t id);
  bool FetchInbound(TimeNs now, const collective::Work& work);
  bool LendsDevice(transport::Link* link, GroupKey group, const collective::BufferRef& ref);
  void SendStaged(TimeNs now, Peer* peer, GroupKey group, const collective::SendFrame& frame);
  Expected<uint64_t> Stage(TimeNs now, GroupKey group, const collective::SendFrame& frame,
                           collective::BufferRef* staged);
  void SendBehind(Peer* peer, GroupKey group, const collective::SendFrame& frame, uint64_t number);
  void FlushWaiting(Peer* peer);
  void DropWaiting(GroupKey group, Seq seq);
  bool QuietAccelerator();
  StagingBlock TakeBlock(Home home, size_t bytes);
  void GiveBlock(Home home, StagingBlock block, TimeNs now);

  // engine_driver_events.cc: what devices say
  void OnCompletion(TimeNs now, transport::Device& device, transport::Completion& completion);
  void OnReceived(TimeNs now, const transport::Completion& completion);
  void OnControlFrame(TimeNs now, Peer* sender, const transport::Completion& completion);
  void OnLinkUp(TimeNs now, transport::Device& device, const transport::Completion& completion);
  void OnLinkDown(TimeNs now, transport::Device& device, const transport::Completion& completion);
  bool TryNextDevice(TimeNs now, const transport::Device& device, Peer* peer, const Status& why);
  void LinkFault(TimeNs now, MemberId peer, Code code, const std::string& text);
  void Redial(TimeNs now);
  void ConnectPeer(TimeNs now, const wire::MemberCard& card);
  void RevokePeer(TimeNs now, MemberId peer);
  void ForgetPeer(TimeNs now, MemberId peer);
  void LetGo(TimeNs now, MemberId peer);

  // engine_driver.cc: what the engine says
  void Execute(TimeNs now, engine::Ready& ready);
  void ExecuteTodos(TimeNs now, engine::Ready& ready);
  void ExecuteTodo(TimeNs now, GroupKey group, collective::Todo& todo);
  void StrikeAtStability();
  void CountKeptLinks();
  void DisturbLinks(transport::Device::Disturbance what, MemberId peer);
  void SendControl(const engine::PeerMessage& message);
  void SendControlPiece(Peer* peer, uint64_t offset, bool more, std::span<const std::byte> bytes);
  void SendFrame(TimeNs now, GroupKey group, const collective::SendFrame& frame);
  void Publish(TimeNs now, GroupKey group, const collective::Publication& said);
  void PublishInput(GroupKey group, const wire::LaneLine& line, std::span<const std::byte> input);
  void TellWords(GroupKey group, const collective::LaneWords& words);
  FastState MakeFastResult(const Op& op);
  void MakeFast(const Op& op, uint64_t count);
  bool GatherFast(const Op& op);
  // engine_driver_share.cc
  std::optional<transport::Link::Place> ShowToAll(std::span<const std::byte> memory);
  bool Shows(TimeNs now, Op* op);
  bool HasArea(const Op& op);
  std::optional<transport::Link::Place> ShowAside(TimeNs now, Op* op);
  ShareWay& ShareWayOf(const Op& op) { return share_ways_[op.request.spec.in_place ? 1 : 0]; }
  bool IsToStay(const Op& op) const;
  bool StreamsSums(const Op& op);
  bool StreamsToArea(const Op& op, const HandOver& else_by) const;
  void NoteShared(TimeNs now, const Op& op);
  void PublishShares(const Op& op);
  const std::byte* SharedBytes(const Op& op, const collective::BufferRef& ref) const;
  std::shared_ptr<const std::byte> SeeAt(int segment, transport::Link::Place at, uint64_t offset,
                                         uint64_t bytes) const;
  FastState DoShares(const Op& op, collective::FastLook found);
  bool DoShare(const Op& op);
  void NoteInputsRead(const Op& op, const collective::Work& work, TimeNs spent);
  void NoteSumsRead(const Op& op, const collective::Work& work, TimeNs spent);
  void PutAside(const Op& op, uint64_t offset, uint64_t bytes);
  bool SaveFast(const Op& op, const collective::BufferRef& at);
  bool FindSources(const Op& op, const collective::Work& work);
  bool KeepSums(const Op& op, const collective::Work& work);
  TimeNs LandKept(const Op& op);
  bool LandEarly(const Op* op);
  void AdoptFast(GroupKey group, Seq seq, uint64_t id);
  void DropSavedFast(TimeNs now, const Op& op);
  // Null: it is not there.
  const std::byte* InLane(GroupKey group, const collective::BufferRef& ref) const;
  bool MayStartFast(const Op& op);
  bool RecurFast(TimeNs now, Op* op);
  bool HoldsFastResult(const Op& op);
  std::byte* FastResult(const Op& op);
  void NoteLine(const wire::LaneLine& line, uint64_t input_bytes);
  void Nudge();
  void NudgeOne(MemberId id);
  bool LaneHasNews();
  bool LookAtLane(TimeNs now);
  std::string OutsideText(GroupKey group, const collective::Work& work);
  // What is handed over to peers of this host, and who writes it: the link, or a reduction.
  enum class Handed : uint8_t { kInput, kResult, kLent };
  static constexpr size_t kHandedKinds = 3;
  HandOver& WayOf(Handed what, const Op& op);
  static Handed HandedAs(const Op& op, wire::FrameKind kind);
  void ChooseWay(GroupKey group, const transport::Link& link, wire::FrameHeader* header,
                 uint64_t payload_bytes);
  void NoteHandedOver(const transport::Completion& sent);
  void NoteMoved(const collective::Work& work);
  void NoteRead(GroupKey group, const collective::Work& work, TimeNs spent);
  void ReduceResult(const Op* op, const collective::Work& work, std::byte* dst);
  void Reduce(const collective::Work& work, uint64_t first, uint64_t count, std::byte* dst);
  void ReduceAndStream(const collective::Work& work, std::byte* dst);
  static bool IsShare(const collective::Work& work);
  enum class Carried { kOutside, kInPlace, kMoved };
  Carried CarryOut(GroupKey group, const collective::Work& work, std::byte* dst);
  bool ReduceWork(GroupKey group, const collective::Work& work, std::byte* dst);
  void DoWork(TimeNs now, GroupKey group, const collective::Work& work);
  void BlameSpoiler(TimeNs now, MemberId by);
  bool GatherSources(GroupKey group, const collective::Work& work);
  CopyMode ReadMode(const Op& op) const;
  void CopyBytes(GroupKey group, const collective::Work& work, const std::byte* src,
                 std::byte* dst);
  bool Exchange(GroupKey group, const collective::Work& work, std::byte* dst);
  void Deliver(TimeNs now, GroupKey group, collective::Outcome outcome);
  void DeliverNow(TimeNs now, GroupKey group, collective::Outcome&& outcome);
  void Allocate(TimeNs now, GroupKey group, const collective::Todo& todo);
  void Fail(TimeNs now, Code code, const std::string& text);
  // `peer`: to whom the frame at hand goes; invalid where there is none.
  void Strike(FaultStage stage, Seq seq, int64_t chunk, MemberId peer = {}) {
    if (hook_.armed()) StrikeNow(stage, seq, chunk, peer);
  }
  void StrikeNow(FaultStage stage, Seq seq, int64_t chunk, MemberId peer);

  // engine_driver_buffers.cc: memory and who still reads it
  // Null if the reference reaches outside of what it names. `write`: kSend and kInbound are
  // refused.
  std::byte* Resolve(GroupKey group, const collective::BufferRef& ref, bool write);
  // Whose lent memory the work has read while it was being taken back.
  std::optional<MemberId> Spoiler(const collective::Work& work);
  void NoteSaved(GroupKey group, const collective::BufferRef& from,
                 const collective::BufferRef& to);
  void RestoreInputs();
  void FreeStaging(TimeNs now, GroupKey group, uint64_t id);
  void ReleaseInbound(TimeNs now, uint64_t id);
  void DetachInbound(uint64_t id);
  void ForgetReleased(Peer& peer);
  void KeepLinkMoving(Peer& peer);
  void DropInbound(TimeNs now, uint64_t id);
  uint64_t StartFlight(MemberId to, GroupKey group, Seq seq, const collective::BufferRef& payload);
  void EndFlight(TimeNs now, uint64_t cookie);
  template <typename Wanted>
  void EndFlights(TimeNs now, const Wanted& wanted);
  void EndFlightsTo(TimeNs now, MemberId peer);
  void LandFlight(TimeNs now, const Flight& flight);
  void CancelSends(TimeNs now, GroupKey group, Seq seq);
  void FinishSends(GroupKey group, Seq seq);
  bool IsFree(GroupKey group, Seq seq, uint64_t number) const;
  bool WaitsBehind(GroupKey group, std::deque<Deferred>::iterator end);
  void DeliverFinished(TimeNs now);

  const size_t control_piece_bytes_;  // any link takes a frame of so many
  std::unique_ptr<engine::Engine> engine_;
  Devices devices_;
  const std::shared_ptr<transport::ExportedMemory> exports_;
  HostLane* const lane_;
  DriverHost* const host_;
  const Logger* const log_;
  // Of an operation larger than this no result is in the caches when the last one is there: its
  // members' inputs and outputs together are four times as large, at least.
  const uint64_t cached_bytes_max_;
  TestHook hook_;
  StagingPool pool_;
  std::unique_ptr<Accelerator> accelerator_;
  struct DeviceWork {
    uint64_t number = 0;  // of its last plan
    GroupKey group = 0;
    collective::Work work;  // id 0: nobody is told
    Epoch epoch = 0;        // of the view in which it was begun
    // What it reads of peers' memory stays mapped.
    std::vector<std::shared_ptr<const void>> lent;
  };
  std::deque<DeviceWork> device_works_;
  struct Staged {  // what was brought out last: the next peer gets the same bytes
    GroupKey group = 0;
    collective::BufferRef from, to;
    uint64_t number = 0;
  };
  Staged staged_;
  uint64_t next_staged_ = 0;
  // Of the last work that nobody was told the end of: an input that is given back. What is lent
  // behind it waits for it, as the peer's kernels do not stand in line with ours.
  uint64_t silent_number_ = 0;
  TimeNs polled_ns_ = 0;
  std::unordered_map<MemberId, Peer> peers_;
  RecentSet<MemberId> revoked_{transport::kRevokedKept};
  SlotTable<Inbound> inbound_;
  std::vector<Saved> saved_;
  std::map<std::pair<GroupKey, uint64_t>, Staging> staging_;  // each group counts its own
  Flights flights_;
  std::vector<std::pair<GroupKey, Seq>> landing_;  // operations whose results arrive in place
  // Delivered when the GPU has let go of their buffers and, without fault tolerance, their last
  // send has left.
  std::deque<Deferred> deferred_;
  std::vector<transport::Completion> completions_;
  std::vector<MemberId> never_up_;       // those among them that have ended
  std::vector<reduce::Source> sources_;  // scratch
  wire::LaneLine fast_line_;
  transport::LaneMemory::Places places_;  // of its input and its sums, if it is shared
  bool shows_sums_ = false;               // all who are to read them have them mapped
  struct Shown {  // a range that all peers have mapped, of a block that begins at `base`
    const std::byte *begin = nullptr, *end = nullptr, *base = nullptr;
    uint64_t block = 0, frees = 0, links = 0;
  };
  std::array<Shown, 4> shown_;
  size_t next_shown_ = 0;
  uint64_t links_changed_ = 0;
  ShareWay share_ways_[2];          // where two share memory of the user's; second: in place
  LaneWay lane_way_;                // of what is copied into the lane
  TimeNs fast_begin_ns_ = 0;        // of an operation that is timed for that; 0: it is not
  TimeNs lines_seen_ns_ = 0;        // those of all, of the shared operation on the fast path
  HandOver hand_over_;              // of what is shared in the lane
  HandOver ways_[2][kHandedKinds];  // of the rest; second: of operations that no cache holds
  bool host_mates_ = false;         // some link shares memory
  StagingBlock fast_result_;  // that its user must not see yet
  Asides asides_;
  struct KeptSums {  // of the operation on the fast path, which land when all is done
    std::shared_ptr<const std::byte> mapped;  // another member's; null: own ones
    bool streamed = false;                    // past its caches
    const std::byte* data = nullptr;
    collective::BufferRef at;
  };
  std::vector<KeptSums> kept_sums_;
  engine::Ready ready_;       // scratch
  GroupKey hook_group_ = 0;
  TimeNs next_deadline_ = 0;  // at first it is to be asked what it has to say: of one, its view
  TimeNs redial_ns_ = kNever;  // who is late
  TimeNs last_trim_ns_ = 0;
  bool dropping_ = false;  // test hook: say and hear nothing
  bool failed_ = false, broken_ = false;
  bool armed_ = false, heeds_lane_ = false;
  bool stepped_ = true;  // since the engine was last asked what it wants
  bool sent_ = false;    // since the devices were last told to write
  bool gathering_ = false;
  bool fast_has_more_ = false;
  struct Foreseen {  // of the operation on the fast path, until the caller has its thread back
    bool gathered = false;  // sources_ are its inputs
    reduce::FewSum sum = nullptr;  // of them
  } foreseen_;
  Counters counters_;
};

}  // namespace ftar::runtime

#endif  // FTAR_RUNTIME_ENGINE_DRIVER_H_
