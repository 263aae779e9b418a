// A device for machines without one: memory of kind kDevice that the host cannot touch.
//
// Its addresses are of reserved pages without any access, so that a stray memcpy dies at once, as
// it would with a real device; the bytes lie elsewhere. New memory is poisoned. Every operation
// must stay within one allocation that lives, else it fails with Code::kArg and does nothing.
// Thread-safe.
#ifndef FTAR_REDUCE_FAKE_DEVICE_H_
#define FTAR_REDUCE_FAKE_DEVICE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "reduce/space.h"

namespace ftar::reduce {

class FakeDevice : public Space {
 public:
  static constexpr unsigned char kPoison = 0xdb;

  // Reserves addresses for `capacity` bytes over its whole life: none is given out twice, so that a
  // freed one is known for what it is. Allocate fails where none could be reserved.
  explicit FakeDevice(size_t capacity);
  ~FakeDevice() override;
  FakeDevice(const FakeDevice&) = delete;
  FakeDevice& operator=(const FakeDevice&) = delete;

  MemoryKind kind() const override { return MemoryKind::kDevice; }
  Expected<void*> Allocate(size_t bytes) override;
  Status Free(void* address) override;
  Status CopyIn(void* to, const void* host, size_t bytes) override;
  Status CopyOut(void* host, const void* from, size_t bytes) override;
  Status Copy(void* to, const void* from, size_t bytes) override;
  Status Reduce(const SpaceReduction& reduction) override;

  size_t allocations() const;

 private:
  // Where the bytes [address, address + bytes) really lie.
  Expected<unsigned char*> Find(const void* address, size_t bytes);

  mutable std::mutex mutex_;
  uintptr_t start_ = 0;
  size_t capacity_ = 0;
  size_t used_ = 0;
  // By their first address; each as large as was asked for.
  std::map<uintptr_t, std::vector<unsigned char>> memory_;
};

}  // namespace ftar::reduce

#endif  // FTAR_REDUCE_FAKE_DEVICE_H_
