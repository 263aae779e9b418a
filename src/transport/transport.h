// What a transport is: a Device (this member's end), Links (one a peer), and Completions that a
// poll returns.
//
// A link carries frames (wire/frame.h) in order, each exactly once, as long as it is up, except
// that an ack passes data frames that wait to be sent, that data passes waiting data of less urgent
// groups (DeviceConfig::priorities), and that lent inputs (Completion::lent) are passed by whatever
// comes behind them. Nothing but an ack or a lent input's successor is ever on the other side of a
// control frame than it was sent. A link survives the loss of a path (a reset
// socket is dialled again and unacknowledged frames are sent again, design 7), and says kDown only
// when all paths are gone for good or the peer's process is. What a frame means is nobody's
// business here: epochs, credits and verdicts live above.
//
// Threads: a device and its links are driven by one thread at a time (the runtime holds the job's
// lock). Only `wait_fd` and `PrepareSleep` concern sleeping. Nothing here blocks, except
// Device::Close, which is bounded by 100 ms. Ownership: the device owns its links; a Link pointer
// is valid until Revoke returns. Payload spans given to Send stay the caller's and must stay
// readable until kSent for their cookie, CancelOp or Revoke. Received payload belongs to the
// transport until Release(token).
#ifndef FTAR_TRANSPORT_TRANSPORT_H_
#define FTAR_TRANSPORT_TRANSPORT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "transport/priorities.h"
#include "wire/frame.h"
#include "wire/view.h"

namespace ftar::transport {

class ExportedMemory;
class LaneMemory;
class Link;

// How many of those who were dropped are remembered. A job that lives long drops more and more, and
// one that comes back behind so many others is as much a stranger as anybody: what it sends is of
// an era that is over (F2), and the coordinator turns it away.
inline constexpr size_t kRevokedKept = 256;

struct Completion {
  enum class Kind {
    kUp,  // the link to `peer` is ready in both directions (also after a path came back: `text`
          // says so)
    kReceived,  // header, ext, payload, token; the receiver releases the token once
    kSent,      // the payload of `cookie` is no longer needed; `header` says which frame it was
    kPathLost,  // one path is gone, the link goes on trying; `text` says why
    kDown,      // the link is dead: unreachable, refused, authentication failed, corrupt stream.
                // `status` says which
    kExited,    // proof that the peer's process has exited (its lock word): strongest evidence, see
                // design 5
    kAccepted,  // a peer dialled us and proved the job's token; it is up. `peer` says who
  };
  Kind kind = Kind::kReceived;
  Link* link = nullptr;
  MemberId peer;
  wire::FrameHeader header;
  std::span<const std::byte> ext;  // valid until Release, as is payload
  std::span<const std::byte> payload;
  // The payload lies in the sender's own memory. Whoever has read it asks Link::Intact. It stays
  // mapped as long as somebody holds this; null: the payload is the transport's.
  std::shared_ptr<const void> lent;
  bool on_device = false;  // and that is a GPU's, which the host cannot follow
  uint64_t token = 0;
  uint64_t cookie = 0;
  TimeNs spent_ns = 0;  // kSent: on copying the payload to where the peer reads it; 0: it was not
  Status status;
  std::string text;
};

// Lets payload arrive where it belongs, without a copy. Asked while a device is polled.
class Placer {
 public:
  virtual ~Placer() = default;
  // Memory for the payload of a frame whose header is checked, and whose payload is still to come;
  // null: the transport's own. It is written until the frame is there, its path is lost, or
  // Link::CancelOp of its operation; what is in it then may be anything.
  virtual std::byte* PlaceFor(MemberId from, const wire::FrameHeader& header) = 0;
};

class Link {
 public:
  virtual ~Link() = default;
  virtual MemberId peer() const = 0;

  // Queues a frame; never blocks, never fails (a dead link drops it and has said kDown). `ext` and
  // a payload with `copy_payload` are copied; other payloads are referenced until kSent. cookie 0
  // asks for no kSent.
  virtual void Send(const wire::FrameHeader& header, std::span<const std::byte> ext,
                    std::span<const std::byte> payload, bool copy_payload, uint64_t cookie) = 0;

  // Data frames (not kControl, not kAck) of (group, seq) that are queued or kept for sending again
  // need not arrive any more: after return their payload is not read, or what is read of it is not
  // used (Intact). One that is half sent is finished from a private copy. Their kSent never comes.
  // Nor is anything that arrives for it written to memory that a Placer gave.
  virtual void CancelOp(uint32_t group, uint64_t seq) = 0;

  // The frames must arrive, but their memory is wanted back: each kSent comes when its frame is
  // written, not when the peer has acknowledged it. What is lost behind that cannot be sent again,
  // and the link is lost with it. For operations without fault tolerance.
  virtual void FinishOp(uint32_t group, uint64_t seq) = 0;

  // All that is lent is taken back, whatever operation it is for: what the peer reads of it from
  // now on is not used (Intact). It needs no memory.
  virtual void TakeBack() {}

  // The peer looks up if it sleeps: there is something for it that is no frame
  // (DeviceConfig::lanes).
  virtual void Nudge() {}

  // Memory of this process that the peer's reads where it lies, and what the peer says of its own:
  // blocks by their numbers, which are the same for all peers.
  struct Place {
    uint64_t block = 0, offset = 0;
  };
  // None: the peer cannot read it, or not yet; where it may be able to, it is told of it.
  virtual std::optional<Place> Show(std::span<const std::byte> /*memory*/) { return {}; }
  // Null if there is nothing here. The bytes stay mapped as long as somebody holds the pointer; who
  // may change them meanwhile is the caller's business.
  virtual std::shared_ptr<const std::byte> See(Place /*place*/, uint64_t /*bytes*/) { return {}; }

  // Gives a received frame's memory back. Tokens are per link; releasing in any order is legal.
  virtual void Release(uint64_t token) = 0;

  // Moves a received frame's ext and payload to memory of their own and frees the transport's (the
  // token stays valid and must still be released). Returns the new payload span. For frames that
  // must wait long, so that a link never stalls. A lent payload stays where it is.
  struct Detached {
    std::span<const std::byte> ext, payload;
  };
  virtual Detached Detach(uint64_t token) = 0;

  // Whether a payload in a GPU's memory would be lent, if it is sent now and not copied. Any other
  // has to be brought to the host's before it is sent: a link never follows such an address.
  virtual bool LendsDevice(std::span<const std::byte> /*payload*/) { return false; }

  // The peer's process reads what is sent from memory that this one has written.
  virtual bool shares_memory() const { return false; }

  // What it has shown to cost when it came up; 0: not known, or no wire.
  virtual wire::WireCosts wire_costs() const { return {}; }

  // Asked after a lent payload was read: false if its owner has taken the memory back meanwhile,
  // and what was read may be anything. Of other payloads true.
  virtual bool Intact(uint64_t /*token*/) { return true; }

  // Bytes of received, unreleased, undetached payload that this link can bear behind the oldest
  // such frame before it stalls its sender.
  virtual size_t hold_bytes_max() const = 0;

  // True while frames of ours wait to be sent.
  virtual bool busy() const = 0;

  // It has said kDown, or was never begun, and nothing goes on.
  virtual bool down() const = 0;

  // What ftarJobDump and error reports print.
  virtual std::string Describe() const = 0;
};

// Shared by all devices of a job.
struct DeviceConfig {
  MemberId self;
  std::string job;
  std::string token;  // proves membership on every connection (HMAC-SHA256 challenge, both ways)
  uint16_t wire_version =
      wire::kWireVersion;      // tests only: peers of another version are told so and refused
  std::string interface_name;  // interface name, address or CIDR; empty: the address from which
                               // the first of `routes_to` that can be is reached
  std::vector<std::string> routes_to;  // "host:port" of who may coordinate; empty: loopback
  std::string ports;           // "a-b" or empty
  std::string host_key;        // as in the own MemberCard; shm reaches members with the same one
  int tcp_streams = 0;         // 0: by the network card's speed
  wire::WireCosts wire;        // as they are told; 0: as they are measured
  std::string tcp_congestion;  // empty: system default
  bool tcp_crc = true;
  bool allow_wildcard = false;
  size_t credit_bytes = 64u << 20;  // tcp: on the way to one peer and not acknowledged
  size_t shm_ring_bytes = 0;        // 0: chosen from the group's size
  size_t payload_bytes_max = 512u << 10;  // of a frame
  // Payload that lies there, peers of this host read where it is. Null: everything is copied.
  std::shared_ptr<const ExportedMemory> exports;
  // Whose data goes first. Null: all groups are alike.
  std::shared_ptr<const Priorities> priorities;
  // What peers of this host see of small operations. Null: nothing.
  std::shared_ptr<LaneMemory> lanes;
  int64_t path_silence_ns = 0;  // a path that swallows what is sent for so long is lost; 0: never
  int64_t path_retry_ns = 0;    // how long a lost path is dialled again before the link is dead
  int64_t handshake_timeout_ns = 5 * kSecond;
  int unauthenticated_max =
      256;  // connections that have not proved the token yet; more are closed at once
};

class Device {
 public:
  virtual ~Device() = default;
  virtual const char* name() const = 0;  // "tcp", "shm"
  // Where peers reach this device, for MemberCard.addresses: one or more entries
  // "tcp=10.0.0.3:4711;watch=@name". Constant after creation.
  virtual std::string address() const = 0;
  // Can this device reach a member with that card at all (same host_key for shm, address present)?
  virtual bool Reaches(const wire::MemberCard& card) const = 0;

  // Null: nothing is placed from now on. A device that reads from its peers' memory needs none.
  virtual void SetPlacer(Placer* /*placer*/) {}

  // Starts to connect. Outcome comes as kUp or kDown. At most one link a peer: a second Connect to
  // a live link is ignored.
  virtual Link* Connect(const wire::MemberCard& peer, TimeNs now) = 0;
  // Forgets the peer now and for good: nothing of it is delivered afterwards, its memory is
  // unmapped, later dials from it are refused while it is among the last kRevokedKept. Outstanding
  // tokens die with it.
  virtual void Revoke(MemberId peer) = 0;
  // Frees what is left of a link that is down, as Revoke does; but the peer may dial again, or be
  // connected to. One that is not down stays.
  virtual void Forget(MemberId peer) = 0;
  virtual Link* Find(MemberId peer) = 0;

  // Moves bytes and appends completions, at most about `budget_bytes` of payload. Returns true if
  // anything happened.
  virtual bool Poll(TimeNs now, size_t budget_bytes, std::vector<Completion>* out) = 0;

  // Writes what Send has queued, if it is little and goes without waiting. Poll writes too; this is
  // for the caller who has queued all that it has and will not poll at once.
  virtual void Flush(TimeNs /*now*/) {}

  // A descriptor that becomes readable when Poll has work (level-triggered, an epoll of its own),
  // for sleeping. Before sleeping the runtime calls PrepareSleep, which arms doorbells and returns
  // false if there is work already; FinishSleep disarms them.
  virtual int wait_fd() const = 0;
  virtual bool PrepareSleep() = 0;
  virtual void FinishSleep() = 0;
  // Retries, handshake timeouts; kNever if none. One that has passed wants a Poll now.
  virtual TimeNs next_deadline() const = 0;

  struct Counters {
    uint64_t links_opened = 0, links_closed = 0, paths_lost = 0, frames_sent = 0,
             frames_received = 0, bytes_sent = 0, bytes_received = 0, bytes_resent = 0,
             frames_corrupt = 0, peers_refused = 0;
    // That this process's links have read and written to move payload, the kernel's part left out.
    uint64_t bytes_moved = 0;
    uint64_t bytes_kept = 0;  // of buffers that nobody has now, kept to be used again
  };
  virtual Counters counters() const = 0;

  // Fault injection, for the decorator `faulty` and the test hook. `peer` invalid: every peer.
  // False if nothing was disturbed, as for a device without such a thing: only the decorator
  // silences and delays.
  enum class Disturbance {
    kResetPaths,        // every path of the link is cut once
    kCorruptNextFrame,  // a byte of the next frame changes on the wire
    kSilence,           // from now on everything is swallowed, both ways, for good
    kSilenceOutgoing,
    kSilenceIncoming,
    kDelay,  // every frame sent from now on leaves `delay_ns` later
  };
  virtual bool Disturb(MemberId /*peer*/, Disturbance /*what*/, TimeNs /*delay_ns*/ = 0) {
    return false;
  }

  // In a forked child: close every descriptor without telling anyone (design 5). Async-signal-safe.
  virtual void CloseInForkedChild() = 0;
  virtual void Close() = 0;
};

// By name; the registry names what it has when the name is unknown. `faulty+NAME` (test builds)
// decorates NAME.
Expected<std::unique_ptr<Device>> OpenDevice(const std::string& name, const DeviceConfig& config);
std::vector<std::string> DeviceNames();

}  // namespace ftar::transport

#endif  // FTAR_TRANSPORT_TRANSPORT_H_
