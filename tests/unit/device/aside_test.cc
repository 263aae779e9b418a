#include "device/aside.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <set>
#include <thread>

namespace ftar::device {
namespace {

constexpr TimeNs kPatience = 50 * kMillisecond;

// Its driver may be kept by somebody else.
class SlowGpu final : public Gpu {
 public:
  SlowGpu(std::atomic<bool>* kept, std::atomic<int>* pieces, std::atomic<int>* gone = nullptr)
      : kept_(kept), pieces_(pieces), gone_(gone) {}
  ~SlowGpu() override {
    if (gone_ != nullptr) ++*gone_;
  }
  const Facts& facts() const override { return facts_; }
  PointerFacts Identify(const void*) const override { return {}; }
  bool Holds(const void*, size_t) const override { return true; }
  Expected<SharedBlock> AllocateShared(size_t) override { return Status(Code::kMemory, "none"); }
  Status FreeShared(void*) override { return Give(); }
  Expected<void*> Import(int, size_t) override { return Take(); }
  Status Unmap(void*) override { return Give(); }
  Expected<void*> AllocatePinned(size_t) override { return Take(); }
  Status FreePinned(void*) override { return Give(); }
  Status EnqueueGate(StreamHandle, Gate*, void*) override { return Status::Ok(); }
  Expected<bool> Captures(StreamHandle) override { return false; }
  Status LoadKernels() override { return Status::Ok(); }
  Status Launch(const kernels::Batch&, uint64_t*, uint64_t) override { return Status::Ok(); }
  Status LaunchResident(void*, int) override { return Status::Ok(); }
  Status Health() override { return Status::Ok(); }

 private:
  Expected<void*> Take() {
    Wait();
    ++*pieces_;
    return static_cast<void*>(&facts_);
  }
  Status Give() {
    Wait();
    --*pieces_;
    return Status::Ok();
  }
  void Wait() {
    while (*kept_) std::this_thread::yield();
  }
  Facts facts_;
  std::atomic<bool>* kept_;
  std::atomic<int>* pieces_;
  std::atomic<int>* gone_;
};

void Expect(const std::atomic<int>& number, int wanted) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (number != wanted && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  EXPECT_EQ(number, wanted);
}

TEST(Aside, WhoAsksGetsTheAnswerAndWhoGivesBackNeedNotWait) {
  std::atomic<bool> kept{false};
  std::atomic<int> pieces{0};
  const auto gpu = CallAside(std::make_unique<SlowGpu>(&kept, &pieces), 10 * kSecond);
  const Expected<void*> memory = gpu->AllocatePinned(1);
  ASSERT_TRUE(memory.ok());
  EXPECT_EQ(pieces, 1);
  EXPECT_EQ(gpu->AllocateShared(1).status().code(), Code::kMemory);
  kept = true;
  EXPECT_TRUE(gpu->FreePinned(*memory).ok());
  EXPECT_EQ(pieces, 1);
  kept = false;
  Expect(pieces, 0);
}

TEST(Aside, ADriverThatIsKeptIsNotWaitedForForEver) {
  std::atomic<bool> kept{true};
  std::atomic<int> pieces{0};
  const auto gpu = CallAside(std::make_unique<SlowGpu>(&kept, &pieces), kPatience);
  EXPECT_EQ(gpu->AllocatePinned(1).status().code(), Code::kDevice);
  // And others are told at once.
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_EQ(gpu->Import(0, 1).status().code(), Code::kDevice);
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::nanoseconds(kPatience));
  kept = false;
  // What came too late is given back, and the driver answers again.
  for (bool good = false; !good;) good = gpu->Import(0, 1).ok();
  Expect(pieces, 1);
}

TEST(Aside, ItsEndDoesNotWaitForADriverThatIsKept) {
  static std::atomic<bool> kept{true};  // the thread is left behind
  static std::atomic<int> pieces{0}, gone{0};
  auto gpu = CallAside(std::make_unique<SlowGpu>(&kept, &pieces, &gone), kPatience);
  EXPECT_FALSE(gpu->AllocatePinned(1).ok());
  gpu.reset();
  EXPECT_EQ(gone, 0);
  kept = false;
  Expect(gone, 1);
  EXPECT_EQ(pieces, 0) << "what came too late is given back";
}

}  // namespace
}  // namespace ftar::device
