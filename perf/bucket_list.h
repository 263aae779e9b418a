// The gradients of a model as a list of sizes (--buckets).
//
// Purpose: a training step's mix of operations. A line is a number of elements and perhaps a name;
// '#' begins a comment.
// Threads: pure but for ReadBucketFile.
#ifndef FTAR_PERF_BUCKET_LIST_H_
#define FTAR_PERF_BUCKET_LIST_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ftar::perf {

struct BucketList {
  std::vector<uint64_t> elements;
  std::string error;  // empty: the list is good, and not empty
};

BucketList ParseBuckets(std::string_view text);
BucketList ReadBucketFile(const std::string& path);

// Buckets spread evenly over the list whose elements together come near `total`, one at least; all
// of them where the list has no more.
std::vector<uint64_t> ThinBuckets(const std::vector<uint64_t>& elements, uint64_t total);

}  // namespace ftar::perf

#endif  // FTAR_PERF_BUCKET_LIST_H_
