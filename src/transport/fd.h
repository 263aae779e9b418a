// A file descriptor with one owner. Not synchronised.
#ifndef FTAR_TRANSPORT_FD_H_
#define FTAR_TRANSPORT_FD_H_

#include <fcntl.h>
#include <unistd.h>

#include <cstddef>
#include <utility>
#include <vector>

namespace ftar::transport {

class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  ~UniqueFd() { Reset(); }
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.Take()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) Reset(other.Take());
    return *this;
  }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int Take() { return std::exchange(fd_, -1); }
  // Async-signal-safe, so that forked children can use it.
  void Reset(int fd = -1) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = fd;
  }

 private:
  int fd_ = -1;
};

// So many duplicates of a descriptor; none where there are not so many to be had, with errno.
inline std::vector<UniqueFd> Duplicates(int fd, size_t count) {
  std::vector<UniqueFd> out;
  while (out.size() < count) {
    out.emplace_back(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
    if (!out.back().valid()) return {};
  }
  return out;
}

}  // namespace ftar::transport

#endif  // FTAR_TRANSPORT_FD_H_
