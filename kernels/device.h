// The current CUDA device as the tests and measurements need it: what it is, its memory as spaces,
// a stream with a clock, and its own copy. The face without CUDA's types.
//
// Every call's error is a Status with CUDA's words. Any thread may call; objects belong to the
// caller.
#ifndef FTAR_KERNELS_DEVICE_H_
#define FTAR_KERNELS_DEVICE_H_

#include <string>

#include "kernels/launch.h"
#include "reduce/space.h"

namespace ftar::kernels {

struct DeviceFacts {
  std::string name;
  int major = 0;
  int minor = 0;
  int multiprocessors = 0;
  uint64_t cache_bytes = 0;
  uint64_t free_bytes = 0;
  int driver = 0;
};

// Fails with Code::kDevice and the reason where there is no device, or none that works.
Expected<DeviceFacts> CurrentDevice();

// Work in order, and how long it takes on the device.
class Stream {
 public:
  Stream() = default;
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  Status Open();
  void* handle() const { return stream_; }

  // The card's own copy, and bytes set to one value.
  Status Copy(void* to, const void* from, size_t bytes);
  Status Set(void* to, int value, size_t bytes);
  Status Wait();

  // Marks; ElapsedMs waits for the second and answers the time between them.
  Status Start();
  Status Stop();
  Expected<double> ElapsedMs();

 private:
  void* stream_ = nullptr;
  void* start_ = nullptr;
  void* stop_ = nullptr;
};

// Memory of the device, or of the host as the device sees it too; reductions run on the device.
// More than 16 sources are reduced in turns, which changes no bit.
class DeviceSpace : public reduce::Space {
 public:
  // kDevice or kPinned.
  explicit DeviceSpace(reduce::MemoryKind kind) : kind_(kind) {}
  reduce::MemoryKind kind() const override { return kind_; }
  Expected<void*> Allocate(size_t bytes) override;
  Status Free(void* address) override;
  Status CopyIn(void* to, const void* host, size_t bytes) override;
  Status CopyOut(void* host, const void* from, size_t bytes) override;
  Status Copy(void* to, const void* from, size_t bytes) override;
  Status Reduce(const reduce::SpaceReduction& reduction) override;

 private:
  reduce::MemoryKind kind_;
};

}  // namespace ftar::kernels

#endif  // FTAR_KERNELS_DEVICE_H_
