// The shm device: links to members of the same host, one process watch for all of them, and the
// local socket by which segments are exchanged.
//
// Threads and ownership: see transport.h. While frames flow no system call is made: Poll looks at
// its descriptors only now and then, and at once after a sleep.
#ifndef FTAR_TRANSPORT_SHM_DEVICE_H_
#define FTAR_TRANSPORT_SHM_DEVICE_H_

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/recent_set.h"
#include "transport/local_exchange.h"
#include "transport/shm/link.h"
#include "transport/transport.h"
#include "transport/watch.h"

namespace ftar::transport::shm {

class ShmDevice : public Device {
 public:
  static Expected<std::unique_ptr<Device>> Open(const DeviceConfig& config);
  // Whether a ring of DeviceConfig::shm_ring_bytes takes any frame with so long a payload.
  static bool RingHolds(size_t shm_ring_bytes, size_t payload_bytes);
  ~ShmDevice() override;

  const char* name() const override { return "shm"; }
  std::string address() const override { return "shm=" + exchange_->name(); }
  bool Reaches(const wire::MemberCard& card) const override;
  Link* Connect(const wire::MemberCard& peer, TimeNs now) override;
  void Revoke(MemberId peer) override;
  void Forget(MemberId peer) override;
  Link* Find(MemberId peer) override;
  bool Poll(TimeNs now, size_t budget_bytes, std::vector<Completion>* out) override;
  int wait_fd() const override { return epoll_.get(); }
  bool PrepareSleep() override;
  void FinishSleep() override;
  TimeNs next_deadline() const override;
  Counters counters() const override;
  void CloseInForkedChild() override;
  void Close() override;

  // ---- for links
  BufferPool* pool() { return &pool_; }
  Counters& counting() { return counters_; }
  size_t ring_bytes() const { return ring_bytes_; }
  size_t payload_bytes_max() const { return config_.payload_bytes_max; }
  const Priorities* priorities() const { return config_.priorities.get(); }
  void Emit(Completion&& completion) { events_.push_back(std::move(completion)); }
  // kSent completions of a cancelled operation that nobody has fetched yet never come.
  void DropSent(const Link* link, uint32_t group, uint64_t seq) {
    std::erase_if(events_, [&](const Completion& c) {
      return c.kind == Completion::Kind::kSent && c.link == link && c.header.group == group &&
             c.header.seq == seq;
    });
  }
  // Takes the link's descriptors out of the epoll set and stops watching its process.
  void Remove(MemberId peer);
  void Detach(ShmLink* link);

 private:
  struct Source {
    ShmLink* link = nullptr;
    bool doorbell = false;
  };

  explicit ShmDevice(const DeviceConfig& config);
  Status Start();
  int lane_fd() const;
  void Dial(ShmLink* link, TimeNs now);
  Expected<LocalExchange::Message> Answer(MemberId peer, LocalExchange::Message message);
  Channel::Verdict Judge(ShmLink* link, MemberId peer);
  void OnResult(LocalExchange::Result result, TimeNs now);
  void OnDialFailed(ShmLink* link, const LocalExchange::Result& result, TimeNs now);
  // The exchange's end: checks what came and brings the link up. Without a socket it is the
  // acceptor's, whose socket follows.
  Status Join(ShmLink* link, std::shared_ptr<Channel> channel, const Channel::Offer& offer,
              LocalExchange::Message* message, UniqueFd socket);
  void ListenTo(ShmLink* link);
  void CheckWatch();
  void LoseAll(const Status& why);
  void CheckDescriptors(TimeNs now);
  void RunTimers(TimeNs now);
  bool EpollAdd(int fd, uint64_t key);

  DeviceConfig config_;
  size_t ring_bytes_;
  BufferPool pool_;
  Counters counters_;
  UniqueFd epoll_;
  std::unique_ptr<LocalExchange> exchange_;
  std::unique_ptr<ProcessWatch> watch_;
  std::unordered_map<MemberId, std::unique_ptr<ShmLink>> links_;
  std::vector<ShmLink*> up_;
  RecentSet<MemberId> revoked_{kRevokedKept};
  std::unordered_map<uint64_t, Source> sources_;
  std::vector<Completion> events_;
  std::vector<MemberId> exited_;  // scratch
  uint64_t next_key_ = 0;
  TimeNs now_ = 0;
  size_t first_link_ = 0;
  TimeNs check_at_ = 0;
  bool check_descriptors_ = true;
  bool closed_ = false;
};

}  // namespace ftar::transport::shm

#endif  // FTAR_TRANSPORT_SHM_DEVICE_H_
