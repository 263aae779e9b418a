// Process watches between members of one host that have no shared memory link: tcp links between
// host-mates, and whoever else wants proof of a death (the coordinator). A ProcessWatch plus the
// local exchange by which two processes swap their words.
//
// The exchange runs in the background; where it does not succeed (another host, another network
// namespace) there is simply no such proof. One thread at a time.
#ifndef FTAR_TRANSPORT_HOST_WATCH_H_
#define FTAR_TRANSPORT_HOST_WATCH_H_

#include <memory>
#include <string>
#include <vector>

#include "base/recent_set.h"
#include "transport/local_exchange.h"
#include "transport/watch.h"

namespace ftar::transport {

class HostWatch {
 public:
  static Expected<std::unique_ptr<HostWatch>> Open(const DeviceConfig& config);

  // For MemberCard.addresses: "watch=@ftar-...".
  std::string address() const { return "watch=" + exchange_->name(); }
  // Starts to watch the process behind that name; it watches this one from then on as well.
  void Watch(MemberId peer, const std::string& name, TimeNs now);
  // Stops, for good: later offers of that peer are refused.
  void Forget(MemberId peer);
  // Stops until one of the two asks anew.
  void Remove(MemberId peer);
  bool Watches(MemberId peer) const { return watch_ != nullptr && watch_->Watches(peer); }

  // `ready`: wait_fd was readable. Appends peers that have exited, each once. Cheap when nothing is
  // ready.
  void Poll(TimeNs now, bool ready, std::vector<MemberId>* exited);
  int wait_fd() const { return epoll_.get(); }
  TimeNs next_deadline() const { return exchange_->next_deadline(); }
  void CloseInForkedChild();

 private:
  struct Offer {
    uint32_t magic = kMagic;
    uint32_t index = 0;
    static constexpr uint32_t kMagic = 0x77617466;
  };

  HostWatch() = default;
  Status Ensure();
  Expected<LocalExchange::Message> MakeOffer(MemberId peer);
  Status Take(MemberId peer, LocalExchange::Message message);

  UniqueFd epoll_;
  std::unique_ptr<LocalExchange> exchange_;
  std::unique_ptr<ProcessWatch> watch_;  // made for the first peer, since it is a thread
  RecentSet<MemberId> forgotten_{kRevokedKept};
};

}  // namespace ftar::transport

#endif  // FTAR_TRANSPORT_HOST_WATCH_H_
