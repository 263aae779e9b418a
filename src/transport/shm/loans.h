// Payload that stays in its sender's memory (rule F1, pull only): the ring carries a reference, the
// receiver reads where the bytes lie.
//
// A loan is a slot and an age. The lender's word for the slot holds the age while the loan is good;
// taking the memory back (Recall) changes the word *before* the memory is anybody else's. The
// borrower reads the bytes first and the word afterwards: if the age is still there, all that it
// has read was the sender's payload; if not, it may have read anything, and what it made of it does
// not count (Link::Intact). So a member that was evicted, or gives up, gives its user the buffers
// back at once, whatever its peers are doing, and no peer ever waits for it (contract 9). The
// borrower says in a word of its own that it is done; every word has one writer.
//
// Blocks of memory are shown to the peer once, by a descriptor over the link's socket; the peer
// maps them read-only, counts them in a word of its own, and unmaps them when it is told that they
// are gone. Nothing is lent of a block that is not counted yet: a peer without descriptors or
// address space counts no more, and gets copies. Memory of a GPU is lent in the same way; the peer
// maps it once it has a GPU, and until then the payload has to be brought to the host by whoever
// sends it, since nothing here can copy it. One thread at a time; both objects live and die
// with their channel.
#ifndef FTAR_TRANSPORT_SHM_LOANS_H_
#define FTAR_TRANSPORT_SHM_LOANS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "transport/exported_memory.h"
#include "transport/sealed_memory.h"
#include "transport/shm/ring.h"
#include "transport/transport.h"

namespace ftar::transport::shm {

// In a frame's place in the ring, where the payload would be.
struct Reference {
  uint64_t block = 0;
  uint64_t offset = 0;
  uint32_t bytes = 0;
  uint32_t slot = 0;
  uint32_t age = 0;
  uint32_t unused = 0;
};
static_assert(sizeof(Reference) == 32);

class Lender {
 public:
  // `own` is written, `peer` only read. `exports` may be null: nothing is lent then.
  Lender(SegmentHeader* own, const SegmentHeader* peer,
         std::shared_ptr<const ExportedMemory> exports);
  ~Lender() { RecallAll(); }
  Lender(const Lender&) = delete;
  Lender& operator=(const Lender&) = delete;

  // kCopy: the bytes must travel themselves: they are not exported, the peer has not mapped them
  // (yet), or too many loans are out. kWait: they cannot, and will be lent a little later. kLent:
  // the caller goes on with Lent, then publishes the reference: whoever has that has a loan that is
  // known here, and can be taken back.
  enum class Way { kCopy, kWait, kLent };
  Way Lend(std::span<const std::byte> payload, int socket, Reference* reference);
  // Where the peer finds it, whose own business it is to know how long (Link::Show).
  std::optional<Link::Place> Show(std::span<const std::byte> memory, int socket);
  // Of a GPU's memory: whether Lend is going to lend it.
  bool LendsDevice(std::span<const std::byte> payload, int socket);
  void Lent(const Reference& reference, const wire::FrameHeader& header, uint64_t cookie);
  void Unsent();  // the last one: its reference could not be published
  // After return the memory behind the operation's loans is the caller's.
  void Recall(uint32_t group, uint64_t seq);
  void RecallAll();

  struct Returned {
    wire::FrameHeader header;
    uint64_t cookie = 0;
  };
  // The oldest loan, if the peer is done with it; of `any`, the oldest one that it is done with.
  bool TakeReturned(Returned* returned, bool any = false);
  bool idle() const { return loans_.empty(); }
  bool HasReturned() const;  // any
  // Tells the peer of blocks that are no more; cheap if none has gone.
  void ForgetFreed(int socket);

 private:
  struct Loan {
    Reference reference;
    wire::FrameHeader header;
    uint64_t cookie = 0;
  };
  struct Shown {
    std::weak_ptr<const ExportedBlock> block;
    uint64_t number = 0;  // from 1, as the peer counts this kind
  };
  bool PeerHas(const std::shared_ptr<const ExportedBlock>& block, int socket);
  void Recall(const Loan& loan);
  bool IsBack(const Loan& loan) const;

  SegmentHeader* const own_;
  const SegmentHeader* const peer_;
  const std::shared_ptr<const ExportedMemory> exports_;
  std::vector<uint32_t> free_;
  std::deque<Loan> loans_;  // that are out, in the order of the ring
  std::unordered_map<uint64_t, Shown> shown_;
  uint64_t shown_count_ = 0, shown_device_count_ = 0;
  uint64_t frees_seen_ = 0;
};

class Borrower {
 public:
  // `exports` may be null: a peer's GPU memory is never mapped then.
  Borrower(SegmentHeader* own, const SegmentHeader* peer,
           std::shared_ptr<const ExportedMemory> exports)
      : own_(own), peer_(peer), exports_(std::move(exports)) {}

  // From now on the peer may lend: its blocks come over `socket`.
  void Begin() { own_->borrows.store(1, std::memory_order_release); }
  struct Borrowed {
    std::span<const std::byte> payload;
    std::shared_ptr<const void> memory;  // keeps the payload mapped
    bool on_device = false;
  };
  // Empty payload: the loan was recalled and its block is gone. An error means that the reference
  // makes no sense.
  Expected<Borrowed> Take(const Reference& reference) const;
  std::shared_ptr<const std::byte> See(Link::Place place, uint64_t bytes) const;
  // To be asked after the payload was read: false if it may have changed meanwhile.
  bool Intact(const Reference& reference) const;
  void GiveBack(const Reference& reference);

  enum class Socket { kOpen, kClosed, kCorrupt };
  // Takes what the socket holds of blocks shown and gone.
  Socket Listen(int socket);
  // Maps what the peer's GPU has shown before there was one here; cheap if nothing waits.
  void MapWaiting();

 private:
  struct Block {
    std::byte* data = nullptr;
    size_t bytes = 0;
    std::shared_ptr<const void> memory;
    bool on_device = false;
  };
  struct Waiting {
    uint64_t block = 0, bytes = 0;
    UniqueFd fd;
    uint64_t gone_behind = 0;  // so many that were shown next are no more
  };
  Socket TakeOne(int socket, bool* any);
  void Forget(uint64_t block);
  void Map(uint64_t block, uint64_t bytes, const UniqueFd& fd);

  SegmentHeader* const own_;
  const SegmentHeader* const peer_;
  const std::shared_ptr<const ExportedMemory> exports_;
  std::unordered_map<uint64_t, Block> blocks_;
  std::deque<Waiting> waiting_;
  // Nobody else knows it: what is asked of it is that no load passes it. ThreadSanitizer knows no
  // fences.
  mutable std::atomic<uint32_t> fence_{0};
  // Could not map one, so that no later one counts.
  bool full_ = false, device_full_ = false;
};

}  // namespace ftar::transport::shm

#endif  // FTAR_TRANSPORT_SHM_LOANS_H_
