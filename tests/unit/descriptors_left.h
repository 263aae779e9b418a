// A process that is short of descriptors for a while.
#ifndef FTAR_TESTS_UNIT_DESCRIPTORS_LEFT_H_
#define FTAR_TESTS_UNIT_DESCRIPTORS_LEFT_H_

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "transport/fd.h"

namespace ftar {

// While it lives only so many more descriptors can be had, and those that others give back.
class DescriptorsLeft {
 public:
  explicit DescriptorsLeft(size_t left) {
    getrlimit(RLIMIT_NOFILE, &before_);
    rlim_t most = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
      most = std::max<rlim_t>(most, std::stoul(entry.path().filename()) + 1);
    const rlimit now{most + left, before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &now);
    for (transport::UniqueFd fd(dup(STDERR_FILENO)); fd.valid(); fd.Reset(dup(STDERR_FILENO)))
      taken_.push_back(std::move(fd));
    taken_.resize(taken_.size() - left);
  }
  ~DescriptorsLeft() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
  std::vector<transport::UniqueFd> taken_;
};

}  // namespace ftar

#endif  // FTAR_TESTS_UNIT_DESCRIPTORS_LEFT_H_
