// Memory for received and copied payload, by size class (powers of two), kept for reuse up to a
// bound: a busy link asks for the same sizes again and again, and fresh memory would cost a page
// fault for every 4 KiB. What a burst needed is given back some time after it.
//
// One thread at a time. Buffers keep the pool's store alive, so their order of destruction does not
// matter.
#ifndef FTAR_TRANSPORT_BUFFER_POOL_H_
#define FTAR_TRANSPORT_BUFFER_POOL_H_

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include "base/ids.h"

namespace ftar::transport {

class BufferPool {
 private:
  struct Store;

 public:
  static constexpr size_t kAlignmentBytes = 64;

  // Movable memory, given back to its pool at the end. Empty buffers have no memory.
  class Buffer {
   public:
    Buffer() = default;
    Buffer(Buffer&& other) noexcept { Take(other); }
    Buffer& operator=(Buffer&& other) noexcept {
      if (this == &other) return *this;
      if (!empty()) GiveBack();
      Take(other);
      return *this;
    }
    ~Buffer() {
      if (!empty()) GiveBack();
    }
    std::byte* data() const { return data_; }
    bool empty() const { return data_ == nullptr; }

   private:
    friend class BufferPool;

    // Those of frames without a payload, which are many, are empty, and cost no more than that.
    void Take(Buffer& other) {
      if (other.empty()) return;
      store_ = std::move(other.store_);
      data_ = std::exchange(other.data_, nullptr);
      size_class_ = other.size_class_;
    }
    void GiveBack();

    std::shared_ptr<Store> store_;
    std::byte* data_ = nullptr;
    int size_class_ = 0;
  };

  explicit BufferPool(size_t kept_bytes_max = 64u << 20);
  // At least `bytes` bytes, aligned to 64; an empty buffer if there is no memory. 0 bytes give a
  // small buffer.
  Buffer Get(size_t bytes);
  // Frees what nobody has needed for a while (half a minute to a minute), if it is time for that.
  void Trim(TimeNs now);
  TimeNs next_trim() const;
  size_t kept_bytes() const;

 private:
  std::shared_ptr<Store> store_;
};

}  // namespace ftar::transport

#endif  // FTAR_TRANSPORT_BUFFER_POOL_H_
