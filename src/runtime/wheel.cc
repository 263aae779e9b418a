#include "runtime/wheel.h"

#include <sys/eventfd.h>

#include <cerrno>

namespace ftar::runtime {

Status Wheel::Open() {
  user_wake_.Reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  progress_wake_.Reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  return user_wake_.valid() && progress_wake_.valid() ? Status::Ok()
                                                      : Status::System("eventfd", errno);
}

void Wheel::CloseInForkedChild() {
  user_wake_.Reset();
  progress_wake_.Reset();
}

void Wheel::Wake() const {
  if (who_ == Who::kUser) Raise(user_wake_fd());
  if (who_ == Who::kProgress) Raise(progress_wake_fd());
}

void Wheel::WakeAll() const {
  for (const int fd : {user_wake_fd(), progress_wake_fd()}) {
    if (fd >= 0) Raise(fd);
  }
}

}  // namespace ftar::runtime
