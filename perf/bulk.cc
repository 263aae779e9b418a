#include "perf/bulk.h"

namespace ftar::perf {
namespace {

constexpr int kInFlight = 4;
constexpr int64_t kBulkWaitNs = 100'000'000;

}  // namespace

Bulk::~Bulk() {
  given_up_ = true;
  if (thread_.joinable()) thread_.join();
}

ftarResult_t Bulk::Begin() {
  ftarGroupConfig config = FTAR_GROUP_CONFIG_INIT;
  config.name = "bulk";
  ftarResult_t status = ftarGroupOpen(job_, &config, &group_);
  if (status != FTAR_OK) return status;
  const uint64_t needed = Buffers::BytesFor(kInFlight, options_.beside_bytes);
  if (options_.memory != MemoryKind::kPlain) {
    status = buffers_.AllocateFor(job_, options_.memory, needed);
    if (status != FTAR_OK) return status;
  } else if (!buffers_.AllocatePlain(needed)) {
    return FTAR_ERR_MEMORY;
  }
  const std::vector<uint64_t> sizes(kInFlight, options_.beside_bytes);
  for (const BufferPair& pair : buffers_.Carve(sizes, 0, /*in_place=*/true))
    flights_.push_back({nullptr, reinterpret_cast<float*>(pair.send)});
  thread_ = std::thread([this] { Main(); });
  return FTAR_OK;
}

ftarResult_t Bulk::End() {
  ends_ = true;
  thread_.join();
  ftarGroupClose(group_);
  return status_;
}

// Zeros, but for the first element, which says that this member is about to end.
ftarResult_t Bulk::Post(Flight* flight) {
  flight->data[0] = ends_ ? 1 : 0;
  ftarOpDesc desc = FTAR_OP_DESC_INIT;
  desc.send = desc.recv = flight->data;
  desc.count = options_.beside_bytes / sizeof(float);
  return ftarOpStart(group_, &desc, &flight->op);
}

ftarResult_t Bulk::Await(const Flight& flight) {
  ftarResult_t status = FTAR_TIMEOUT;
  while (status == FTAR_TIMEOUT && !given_up_) status = ftarOpWait(flight.op, kBulkWaitNs, nullptr);
  ftarOpRelease(flight.op);
  if (status == FTAR_OK) bytes_.fetch_add(options_.beside_bytes, std::memory_order_relaxed);
  return status;
}

void Bulk::Main() {
  for (Flight& flight : flights_) {
    if (status_ == FTAR_OK) status_ = Post(&flight);
  }
  size_t last = flights_.size();  // operations still to be awaited, once that is known
  for (size_t i = 0; status_ == FTAR_OK && last > 0; i = (i + 1) % flights_.size()) {
    status_ = Await(flights_[i]);
    if (status_ != FTAR_OK) return;
    // Whoever has seen the word has seen it in the same operation as all others.
    if (last < flights_.size() || flights_[i].data[0] > 0) {
      --last;
    } else {
      status_ = Post(&flights_[i]);
    }
  }
}

}  // namespace ftar::perf
