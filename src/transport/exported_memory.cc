#include "transport/exported_memory.h"

#include <string>
#include <utility>

namespace ftar::transport {

Expected<std::byte*> ExportedMemory::Allocate(size_t bytes, Pages pages) {
  {
    const std::lock_guard lock(mutex_);
    if (blocks_.size() >= kBlocksMax) {
      return Status(Code::kMemory, "there are " + std::to_string(kBlocksMax) +
                                       " blocks of exported memory already");
    }
  }
  auto sealed = CreateSealedMemory("ftar-user", bytes, pages);
  if (!sealed.ok()) return sealed.status();
  std::byte* const data = sealed->memory->data();
  const std::lock_guard lock(mutex_);
  blocks_[data] = std::make_shared<const ExportedBlock>(ExportedBlock{
      next_id_++, false, std::move(sealed->fd), data, bytes, std::move(sealed->memory)});
  return data;
}

void ExportedMemory::Add(std::byte* data, size_t bytes, UniqueFd fd,
                         std::shared_ptr<const void> memory) {
  const std::lock_guard lock(mutex_);
  if (blocks_.size() >= kBlocksMax) fd.Reset();
  blocks_[data] = std::make_shared<const ExportedBlock>(
      ExportedBlock{next_id_++, true, std::move(fd), data, bytes, std::move(memory)});
}

void ExportedMemory::SetImporter(Importer importer) {
  const std::lock_guard lock(mutex_);
  importer_ = std::move(importer);
  imports_.store(true, std::memory_order_release);
}

Expected<std::shared_ptr<std::byte>> ExportedMemory::Import(int fd, size_t bytes) const {
  Importer importer;
  {
    const std::lock_guard lock(mutex_);
    importer = importer_;
  }
  if (!importer) return Status(Code::kDevice, "no GPU here maps a peer's memory");
  return importer(fd, bytes);
}

void ExportedMemory::SetDmaBufOpener(DmaBufOpener opener) {
  const std::lock_guard lock(mutex_);
  dma_buf_opener_ = std::move(opener);
}

Expected<ExportedMemory::DmaBuf> ExportedMemory::OpenDmaBuf(const std::byte* data,
                                                            size_t bytes) const {
  DmaBufOpener opener;
  {
    const std::lock_guard lock(mutex_);
    opener = dma_buf_opener_;
  }
  if (!opener) return Status(Code::kDevice, "there is no GPU here");
  return opener(data, bytes);
}

bool ExportedMemory::Free(const void* memory) {
  std::shared_ptr<const ExportedBlock> block;  // unmapped without the lock
  const std::lock_guard lock(mutex_);
  const auto found = blocks_.find(static_cast<const std::byte*>(memory));
  if (found == blocks_.end()) return false;
  block = std::move(found->second);
  blocks_.erase(found);
  frees_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

std::shared_ptr<const ExportedBlock> ExportedMemory::Find(const void* data, size_t bytes) const {
  const auto* const first = static_cast<const std::byte*>(data);
  const std::lock_guard lock(mutex_);
  auto found = blocks_.upper_bound(first);
  if (found == blocks_.begin()) return nullptr;
  --found;
  const ExportedBlock& block = *found->second;
  const auto offset = static_cast<size_t>(first - block.data);
  if (offset > block.bytes || bytes > block.bytes - offset || !block.fd.valid()) return nullptr;
  return found->second;
}

}  // namespace ftar::transport
