#include "transport/buffer_pool.h"

#include <algorithm>
#include <bit>
#include <new>
#include <utility>

namespace ftar::transport {
namespace {

constexpr int kSmallestClass = 8;  // 256 bytes
constexpr int kClasses = 40;
constexpr TimeNs kTrimNs = 30 * kSecond;

void Free(std::byte* memory) {
  ::operator delete(memory, std::align_val_t(BufferPool::kAlignmentBytes));
}

}  // namespace

struct BufferPool::Store {
  std::array<std::vector<std::byte*>, kClasses> free;
  std::array<size_t, kClasses>
      spare{};  // so many of each were free all the time since `trimmed_ns`
  TimeNs trimmed_ns = 0;
  size_t kept_bytes = 0;
  size_t kept_bytes_max = 0;

  ~Store() {
    for (auto& list : free) {
      for (std::byte* memory : list) Free(memory);
    }
  }

  // Called by destructors: what cannot be kept is freed.
  void Put(std::byte* memory, int size_class) noexcept {
    const size_t bytes = size_t{1} << size_class;
    if (kept_bytes + bytes > kept_bytes_max) return Free(memory);
    try {
      free[size_class].push_back(memory);
    } catch (const std::bad_alloc&) {
      return Free(memory);
    }
    kept_bytes += bytes;
  }

  std::byte* Take(int size_class) {
    auto& list = free[size_class];
    if (list.empty()) return nullptr;
    std::byte* const memory = list.back();
    list.pop_back();
    spare[size_class] = std::min(spare[size_class], list.size());
    kept_bytes -= size_t{1} << size_class;
    return memory;
  }

  // The coldest first.
  void Trim(int size_class) {
    auto& list = free[size_class];
    const auto end = list.begin() + static_cast<ptrdiff_t>(spare[size_class]);
    std::for_each(list.begin(), end, Free);
    list.erase(list.begin(), end);
    kept_bytes -= spare[size_class] << size_class;
    spare[size_class] = list.size();
  }
};

BufferPool::BufferPool(size_t kept_bytes_max) : store_(std::make_shared<Store>()) {
  store_->kept_bytes_max = kept_bytes_max;
}

BufferPool::Buffer BufferPool::Get(size_t bytes) {
  const int size_class =
      bytes <= (size_t{1} << kSmallestClass) ? kSmallestClass : std::bit_width(bytes - 1);
  Buffer buffer;
  if (size_class >= kClasses) return buffer;
  buffer.data_ = store_->Take(size_class);
  if (buffer.data_ == nullptr) {
    void* memory =
        ::operator new (size_t{1} << size_class, std::align_val_t(kAlignmentBytes), std::nothrow);
    if (memory == nullptr) return buffer;
    buffer.data_ = static_cast<std::byte*>(memory);
  }
  buffer.size_class_ = size_class;
  buffer.store_ = store_;
  return buffer;
}

void BufferPool::Trim(TimeNs now) {
  if (now - store_->trimmed_ns < kTrimNs) return;
  store_->trimmed_ns = now;
  for (int size_class = kSmallestClass; size_class < kClasses; ++size_class)
    store_->Trim(size_class);
}

TimeNs BufferPool::next_trim() const {
  return store_->kept_bytes == 0 ? kNever : store_->trimmed_ns + kTrimNs;
}

size_t BufferPool::kept_bytes() const { return store_->kept_bytes; }

void BufferPool::Buffer::GiveBack() {
  store_->Put(data_, size_class_);
  store_.reset();
  data_ = nullptr;
}

}  // namespace ftar::transport
