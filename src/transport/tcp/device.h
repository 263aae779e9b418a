// The tcp device: listener, handshakes, one epoll set for everything, and the links.
//
// Threads and ownership: see transport.h. Unauthenticated connections cost one small object each
// and are bounded in number (the oldest gives way) and in time; without a token only loopback peers
// are served.
#ifndef FTAR_TRANSPORT_TCP_DEVICE_H_
#define FTAR_TRANSPORT_TCP_DEVICE_H_

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/recent_set.h"
#include "transport/doorkeeper.h"
#include "transport/host_watch.h"
#include "transport/tcp/handshake.h"
#include "transport/tcp/link.h"
#include "transport/transport.h"

namespace ftar::transport::tcp {

class TcpDevice : public Device {
 public:
  static Expected<std::unique_ptr<Device>> Open(const DeviceConfig& config);
  ~TcpDevice() override;

  const char* name() const override { return "tcp"; }
  std::string address() const override;
  bool Reaches(const wire::MemberCard& card) const override;
  void SetPlacer(Placer* placer) override { placer_ = placer; }
  Link* Connect(const wire::MemberCard& peer, TimeNs now) override;
  void Revoke(MemberId peer) override;
  void Forget(MemberId peer) override;
  Link* Find(MemberId peer) override;
  bool Poll(TimeNs now, size_t budget_bytes, std::vector<Completion>* out) override;
  void Flush(TimeNs now) override;
  int wait_fd() const override { return epoll_.get(); }
  bool PrepareSleep() override;
  void FinishSleep() override {}
  TimeNs next_deadline() const override;
  Counters counters() const override;
  bool Disturb(MemberId peer, Disturbance what, TimeNs delay_ns) override;
  void CloseInForkedChild() override;
  void Close() override;

  // ---- for links
  const DeviceConfig& config() const { return config_; }
  const Priorities* priorities() const { return config_.priorities.get(); }
  BufferPool* pool() { return &pool_; }
  Placer* placer() { return placer_; }
  Counters& counting() { return counters_; }
  uint64_t turn() const { return turn_; }
  void Emit(Completion&& completion) { events_.push_back(std::move(completion)); }
  // kSent completions of a cancelled operation that nobody has fetched yet never come.
  void DropSent(const Link* link, uint32_t group, uint64_t seq) {
    std::erase_if(events_, [&](const Completion& c) {
      return c.kind == Completion::Kind::kSent && c.link == link && c.header.group == group &&
             c.header.seq == seq;
    });
  }
  void MarkDirty(TcpLink* link) {
    if (!std::exchange(link->dirty, true)) dirty_.push_back(link);
  }
  void Dial(TcpLink* link, int slot, TimeNs now);
  void AbandonHandshake(uint64_t id);
  // Begins to watch the process of a host-mate; `name` is its watch's address and may be empty.
  void WatchProcess(MemberId peer, const std::string& name, TimeNs now);
  uint64_t WatchStream(TcpLink* link, int slot, int fd);
  void ChangeInterest(uint64_t key, int fd, uint32_t interest);
  void ForgetStream(uint64_t key, int fd);

 private:
  // What an epoll key stands for; keys are never reused, so a stale event finds nothing.
  struct Source {
    TcpLink* link = nullptr;
    int slot = 0;
    bool handshake = false;
  };

  explicit TcpDevice(const DeviceConfig& config);
  Status Start();
  void AcceptAll(TimeNs now);
  void RefuseOne(TimeNs now);
  void AddHandshake(std::unique_ptr<Handshake> handshake, TimeNs now);  // with its deadline
  void LimitUnauthenticated();
  void DriveHandshake(uint64_t id, TimeNs now);
  void UpdateInterest(Handshake* handshake);
  void OnGreeted(Handshake* handshake, TimeNs now);
  Verdict Judge(Handshake* handshake, TimeNs now, TcpLink** link);
  void FinishHandshake(uint64_t id, TimeNs now);
  void OnDialDone(Handshake* handshake, TcpLink* link, TimeNs now);
  void Remove(MemberId peer);
  void RemoveHandshake(uint64_t id);
  void HandleEvents(TimeNs now, size_t budget_bytes, bool* any);
  void LoseAll(const Status& why);
  void ReadHotStream(TimeNs now, bool* any);
  bool MustAsk(TimeNs now);
  void RunTimers(TimeNs now);
  void CheckWatch(TimeNs now, bool ready);
  void FlushDirty(TimeNs now);
  bool EpollAdd(int fd, uint32_t interest, uint64_t key);
  TimeNs ComputeDeadline() const;

  DeviceConfig config_;
  BufferPool pool_;
  Placer* placer_ = nullptr;
  Counters counters_;
  UniqueFd epoll_;
  Listener listener_;
  std::string advertised_;  // "host:port"
  Doorkeeper door_;
  std::unordered_map<MemberId, std::unique_ptr<TcpLink>> links_;
  RecentSet<MemberId> revoked_{kRevokedKept};
  std::unordered_map<uint64_t, Source> sources_;
  std::map<uint64_t, std::unique_ptr<Handshake>> handshakes_;  // in order of age
  std::vector<TcpLink*> dirty_, flushing_;
  std::unique_ptr<HostWatch> host_watch_;  // null where local sockets cannot be had
  std::vector<MemberId> exited_;           // scratch
  std::vector<Completion> events_;
  uint64_t turn_ = 0;      // counts polls
  static constexpr uint64_t kListenerKey = 0, kWatchKey = 1;
  uint64_t next_key_ = 2;
  // The stream that alone had something to read last, and little: read straight away, which is half
  // of the system calls of asking first. Every so often all are asked.
  uint64_t hot_key_ = 0;
  int reads_without_asking_ = 0, vain_reads_ = 0;
  TimeNs ask_at_ = 0;
  TimeNs deadline_ = kNever;
  bool closed_ = false;
};

}  // namespace ftar::transport::tcp

#endif  // FTAR_TRANSPORT_TCP_DEVICE_H_
