#include "transport/faulty/link.h"

#include "transport/faulty/device.h"
#include "transport/steady_clock.h"

namespace ftar::transport::faulty {

void FaultyLink::Send(const wire::FrameHeader& header, std::span<const std::byte> ext,
                      std::span<const std::byte> payload, bool copy_payload, uint64_t cookie) {
  device_->FireRules(this, frames_++);
  // A mute link looks like a network that swallows everything: nothing fails, nothing is ever
  // acknowledged.
  if (mute_) return;
  if (delay_ns_ == 0 && waiting_.empty())
    return inner_->Send(header, ext, payload, copy_payload, cookie);
  auto frame = std::make_unique<OutFrame>();
  frame->header = header;
  frame->ext.assign(ext.begin(), ext.end());
  frame->payload = payload;
  frame->cookie = cookie;
  if (copy_payload) frame->MakePrivate(&pool_);
  waiting_.push_back({SteadyNow() + delay_ns_, std::move(frame)});
}

bool FaultyLink::Pass(TimeNs now) {
  bool any = false;
  while (!waiting_.empty() && waiting_.front().due <= now) {
    const OutFrame& frame = *waiting_.front().frame;
    inner_->Send(frame.header, frame.ext, frame.payload, !frame.copy.empty(), frame.cookie);
    waiting_.pop_front();
    any = true;
  }
  return any;
}

void FaultyLink::Silence(bool outgoing, bool incoming) {
  mute_ = mute_ || outgoing;
  deaf_ = deaf_ || incoming;
  if (mute_) waiting_.clear();
}

void FaultyLink::CancelOp(uint32_t group, uint64_t seq) {
  std::erase_if(waiting_, [&](const Waiting& w) { return w.frame->belongs_to(group, seq); });
  inner_->CancelOp(group, seq);
}

void FaultyLink::FinishOp(uint32_t group, uint64_t seq) {
  inner_->FinishOp(group, seq);  // what waits here is acknowledged in the end
}

std::string FaultyLink::Describe() const {
  return inner_->Describe() + "; faulty" + (mute_ ? ", mute" : "") + (deaf_ ? ", deaf" : "") +
         (delay_ns_ > 0 ? ", delays " + std::to_string(delay_ns_ / kMillisecond) + " ms" : "");
}

}  // namespace ftar::transport::faulty
