#include "transport/sealed_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <atomic>
#include <cerrno>
#include <map>
#include <mutex>
#include <string>

#include "base/signals_os.h"

namespace ftar::transport {
namespace {

// From here on a page of 2 MiB may hold some of it.
constexpr size_t kHugePageBytes = 2 << 20;

// Asks for huge pages, which the system gives where its administrator lets it
// (transparent_hugepage/shmem_enabled). What is touched in order needs fewer page faults and fewer
// entries of the processor's table then.
void PreferHugePages(void* data, size_t bytes) {
  if (bytes >= kHugePageBytes) static_cast<void>(::madvise(data, bytes, MADV_HUGEPAGE));
}

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;

// Memory that nobody can execute: some kernels have no other where their administrator wants none
// (vm.memfd_noexec=2), and before 6.3 they do not know the flag.
int CreateMemory(const char* name) {
#ifdef MFD_NOEXEC_SEAL
  constexpr unsigned kNeverExecuted = MFD_NOEXEC_SEAL;
#else
  constexpr unsigned kNeverExecuted = 8;  // the same number on all architectures
#endif
  constexpr unsigned kFlags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  const int fd = ::memfd_create(name, kFlags | kNeverExecuted);
  return fd < 0 && errno == EINVAL ? ::memfd_create(name, kFlags) : fd;
}

// The owners' mappings by inode, used only while tests share them.
struct SharedMappings {
  std::atomic<bool> on{false};
  std::mutex mutex;
  std::map<ino_t, std::weak_ptr<MappedMemory>> by_inode;
};
SharedMappings& Shared() {
  static SharedMappings shared;
  return shared;
}

}  // namespace

void ShareMappingsForTest(bool on) { Shared().on = on; }

MappedMemory::~MappedMemory() { ::munmap(data_, bytes_); }

Expected<SealedMemory> CreateSealedMemory(const char* name, size_t bytes, Pages pages) {
  // A limit on the size of files counts for memory that has a descriptor as well.
  const SignalWithheld limit(SIGXFSZ);
  SealedMemory sealed;
  sealed.fd = UniqueFd(CreateMemory(name));
  if (!sealed.fd.valid()) return Status::System("memfd_create", errno);
  const int fd = sealed.fd.get();
  const auto size = static_cast<off_t>(bytes);
  if (Uninterrupted([&] { return ::ftruncate(fd, size); }) != 0)
    return Status::System("memfd: ftruncate", errno);
  if (pages == Pages::kNow && Uninterrupted([&] { return ::fallocate(fd, 0, 0, size); }) != 0) {
    return Status(
        Code::kMemory,
        Status::System("shared memory of " + std::to_string(bytes) + " bytes", errno).text());
  }
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED)
    return Status(Code::kMemory, Status::System("mapping shared memory", errno).text());
  PreferHugePages(data, bytes);
  sealed.memory = std::make_shared<MappedMemory>(static_cast<std::byte*>(data), bytes);
  if (::fcntl(fd, F_ADD_SEALS, kSeals) != 0) return Status::System("sealing a memfd", errno);
  if (Shared().on) {
    struct stat info {};
    if (::fstat(fd, &info) == 0) {
      const std::lock_guard lock(Shared().mutex);
      Shared().by_inode[info.st_ino] = sealed.memory;
    }
  }
  return sealed;
}

Expected<std::shared_ptr<MappedMemory>> MapSealedMemory(const UniqueFd& fd, size_t bytes_min,
                                                        size_t bytes_max) {
  // Before its size is asked for: what is not sealed yet may shrink after that.
  const int seals = ::fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals) {
    return Status(Code::kPeer, "the peer's shared memory is not sealed");
  }
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return Status::System("fstat of the peer's memory", errno);
  const auto bytes = static_cast<size_t>(info.st_size);
  if (info.st_size < 0 || bytes < bytes_min || bytes > bytes_max) {
    return Status(Code::kPeer,
                  "the peer's shared memory has " + std::to_string(info.st_size) +
                      " bytes, expected " + std::to_string(bytes_min) +
                      (bytes_max == bytes_min ? "" : " to " + std::to_string(bytes_max)));
  }
  if (Shared().on) {
    const std::lock_guard lock(Shared().mutex);
    const auto it = Shared().by_inode.find(info.st_ino);
    if (it != Shared().by_inode.end()) {
      if (auto memory = it->second.lock()) return memory;
    }
  }
  void* data = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (data == MAP_FAILED)
    return Status(Code::kMemory, Status::System("mapping the peer's shared memory", errno).text());
  PreferHugePages(data, bytes);
  return std::make_shared<MappedMemory>(static_cast<std::byte*>(data), bytes);
}

}  // namespace ftar::transport
