// A member's or a relay's connection to the coordinator, or to a relay: dialled again for ever,
// with growing pauses, until it is told to stop. Of several names, which relays have, the next one
// is tried when one does not answer, and the first one again after each loss.
//
// One that says nothing for a while is dialled anew beside the old connection, which a firewall may
// have forgotten, or on which TCP pauses longer and longer though the way is good again; of several
// names then the next one. It takes the old one's place when its other end has proved to be there.
//
// Where any member may coordinate (hosted) it dials what it is told, once, and says how that ended:
// it is up when whoever is there says that it coordinates. Whom to dial is Hosting's to say.
//
// Nonblocking; runs under the job's lock. Names are resolved elsewhere, since that blocks: its
// owner asks wants_addresses and gives a Resolver's answer. Messages sent while the connection is
// down are dropped, as the engine's contract allows: after Up it introduces itself again.
#ifndef FTAR_COORDINATOR_CONTROL_CONNECTION_H_
#define FTAR_COORDINATOR_CONTROL_CONNECTION_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/log.h"
#include "base/status.h"
#include "coordinator/host_port.h"
#include "coordinator/message_stream.h"
#include "transport/fd.h"
#include "wire/messages.h"

namespace ftar::coordinator {

class ControlConnection {
 public:
  static constexpr TimeNs kHandshakeMax = 5 * kSecond;
  struct Settings {
    std::vector<HostPort> names;  // not empty
    std::string log_name = "runtime";
    std::string token;
    MemberId self;
    // Between two attempts, and for the first one after a loss; the next ones get more time. A
    // restarted coordinator waits one timeout for all who were there, so both are less than that.
    TimeNs pause_max_ns = 1 * kSecond;
    TimeNs handshake_timeout_ns = 5 * kSecond;
    TimeNs silence_ns = 10 * kSecond;  // a coordinator that says nothing for so long counts as gone
    bool hosted = false;
    // What is given up, and when, in a job with this knob.
    void SetPatience(TimeNs timeout_ns);
  };
  ControlConnection(Settings settings, const Logger* log);

  // What happened since last time, in order: at most one up and one down a poll.
  struct Result {
    bool any = false;
    // Another connection to who is above: nothing more comes from the old one, and what was sent on
    // it may be lost.
    bool renewed = false;
    bool went_up = false, went_down = false;
    std::vector<wire::Message> messages;  // between up and down
    // Hosted: what whoever answered said first; without went_up it coordinates not, or no longer.
    std::optional<wire::Redirect> redirect;
    bool dial_failed = false, silent = false;  // the latter: and somebody may be there
  };
  void Poll(TimeNs now, Result* result);
  // Hosted: one attempt, instead of any that is under way.
  void DialAddress(TimeNs now, const std::string& address);
  void DialName(TimeNs now, const HostPort& name);
  void Send(const wire::Message& message);

  // Of this name.
  const HostPort& name() const { return spare_asks_ ? settings_.names[*spare_name_] : name_; }
  bool wants_addresses(TimeNs now) const;
  void SetAddresses(TimeNs now, Expected<std::vector<std::string>> addresses);

  bool up() const { return up_; }
  bool ever_up() const { return ever_up_; }
  // Why the last attempt failed. kAuth and kVersion do not go away by trying again.
  const Status& last_error() const { return last_error_; }
  // The same for people, also while the first attempt is under way.
  std::string trouble() const;
  bool hopeless() const { return hopeless_; }
  // The last attempts ended alike, by a token or a job that is not the other side's.
  bool refused_often() const { return refusals_ >= kRefusalsMax; }
  int fd() const { return stream_ ? stream_->fd() : -1; }
  bool wants_write() const { return stream_ && stream_->wants_write(); }
  TimeNs next_deadline() const;
  uint64_t messages_sent() const { return messages_sent_; }
  uint64_t messages_received() const { return messages_received_; }
  const std::string& shown_address() const { return shown_; }

  void Close();
  void CloseInForkedChild();

 private:
  void Dial(TimeNs now);
  bool several() const { return !settings_.hosted && settings_.names.size() > 1; }
  std::unique_ptr<MessageStream> NewStream(transport::UniqueFd fd, TimeNs now) const;
  void DropStreams();
  void Lose(TimeNs now, Status why);
  void EndAttempt(TimeNs now);
  void BeginAttempt(TimeNs now);
  void UseName(size_t index);
  void HearGreeting(TimeNs now, Result* result);
  void ComeUp(TimeNs now, Result* result);
  void Expire(TimeNs now);
  TimeNs SpareAfter() const { return settings_.silence_ns / 5 * 2; }
  void LookAfterSpare(TimeNs now, Result* result);
  void DropSpare();
  TimeNs SparePause() const;
  bool SpareIsOver(TimeNs now) const;
  void DialSpare(TimeNs now, const std::string& address);
  void DialNextSpare(TimeNs now);
  bool SpareAnswers(TimeNs now);
  void TakeSpare(TimeNs now);
  const char* Unanswered() const;

  const Settings settings_;
  const Logger* const log_;
  std::unique_ptr<MessageStream> stream_;
  std::string dialled_;  // where to; resolved
  MemberId greeted_by_;  // hosted
  // While stream_ is silent; and the one whose place it took, until the other end has heard of it.
  std::unique_ptr<MessageStream> spare_, old_;
  TimeNs spare_tried_ns_ = 0, renewed_ns_ = 0, polled_ns_ = 0;
  // Of several: how often it was tried in this silence, and what it goes to, if not where stream_
  // does. It asks for that one's addresses.
  size_t spare_tries_ = 0;
  std::optional<size_t> spare_name_;
  std::string spare_dialled_;
  bool spare_asks_ = false;
  std::string shown_;
  HostPort name_;
  size_t next_name_ = 0;
  std::vector<std::string> addresses_;
  size_t next_address_ = 0;
  bool up_ = false, ever_up_ = false, hopeless_ = false, closed_ = false;
  static constexpr int kRefusalsMax = 3;
  int refusals_ = 0;  // in a row
  TimeNs first_refusal_ns_ = 0;
  bool last_word_ = false;  // said or heard: then the connection is closed, and that is no loss
  bool told_ = false, failed_ = false;  // hosted: an attempt is under way, has failed
  bool silent_ = false;                 // nothing came in time from one of its addresses
  TimeNs first_try_ns_ = -1;
  TimeNs next_try_ns_ = 0, pause_ns_ = 0;
  TimeNs patience_ns_ = kHandshakeMax;  // for one attempt
  Status last_error_;
  uint64_t messages_sent_ = 0, messages_received_ = 0;
};

}  // namespace ftar::coordinator

#endif  // FTAR_COORDINATOR_CONTROL_CONNECTION_H_
