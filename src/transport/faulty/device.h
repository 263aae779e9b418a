// Faults on purpose: a decorator over any device, for tests and for `ftar-perf --fault`. Rules fire
// at exact frames of a link, so a run can be repeated; Disturb fires at once. What the inner device
// can do itself (reset a path, damage a frame on the wire) is handed down; silence and delay are
// done here.
//
// Threads and ownership as in transport.h; the decorator owns the inner device and hands out links
// of its own.
#ifndef FTAR_TRANSPORT_FAULTY_DEVICE_H_
#define FTAR_TRANSPORT_FAULTY_DEVICE_H_

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "transport/faulty/link.h"
#include "transport/transport.h"

namespace ftar::transport::faulty {

struct FaultRule {
  Device::Disturbance what = Device::Disturbance::kSilence;
  MemberId peer;  // invalid: every peer
  uint64_t at_frame =
      0;  // the link's outgoing frames, counted from 0: fires before this one is sent
  TimeNs delay_ns = 0;
};
struct FaultPlan {
  std::vector<FaultRule> rules;
  bool refuse_connects = false;  // dialling fails, and who dials us is dropped
};

class FaultyDevice : public Device {
 public:
  FaultyDevice(std::unique_ptr<Device> inner, FaultPlan plan);

  const char* name() const override { return name_.c_str(); }
  std::string address() const override { return inner_->address(); }
  bool Reaches(const wire::MemberCard& card) const override { return inner_->Reaches(card); }
  void SetPlacer(Placer* placer) override { inner_->SetPlacer(placer); }
  Link* Connect(const wire::MemberCard& peer, TimeNs now) override;
  void Revoke(MemberId peer) override;
  void Forget(MemberId peer) override;
  Link* Find(MemberId peer) override;
  bool Poll(TimeNs now, size_t budget_bytes, std::vector<Completion>* out) override;
  void Flush(TimeNs now) override { inner_->Flush(now); }
  int wait_fd() const override { return inner_->wait_fd(); }
  bool PrepareSleep() override;
  void FinishSleep() override { inner_->FinishSleep(); }
  TimeNs next_deadline() const override;
  Counters counters() const override { return inner_->counters(); }
  bool Disturb(MemberId peer, Disturbance what, TimeNs delay_ns) override;
  void CloseInForkedChild() override { inner_->CloseInForkedChild(); }
  void Close() override { inner_->Close(); }

  // ---- for links
  void FireRules(FaultyLink* link, uint64_t frame);

 private:
  FaultyLink* Wrap(MemberId peer, Link* inner);
  bool DisturbLink(FaultyLink* link, Disturbance what, TimeNs delay_ns);
  // False if the completion must not be seen.
  bool Translate(Completion* completion);

  std::unique_ptr<Device> inner_;
  FaultPlan plan_;
  std::string name_;
  std::unordered_map<MemberId, std::unique_ptr<FaultyLink>> links_;
  std::vector<Completion> events_, scratch_;
};

}  // namespace ftar::transport::faulty

#endif  // FTAR_TRANSPORT_FAULTY_DEVICE_H_
