#include "tests/chaos/record.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>

namespace chaos {

int64_t NowNs() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

std::string Name(ftarId id) {
  char text[33];
  snprintf(text, sizeof text, "%012" PRIx64,
           static_cast<uint64_t>((id.lo ^ id.hi * 31) & 0xffff'ffff'ffff));
  return text;
}

bool Record::Open(const std::string& path) {
  fd_ = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  return fd_ >= 0;
}

void Record::Line(const std::string& text) {
  const std::lock_guard lock(mutex_);
  const std::string whole = text + "\n";
  [[maybe_unused]] const ssize_t done = write(fd_, whole.data(), whole.size());
}

void Record::Event(const ftarEvent& event) {
  char line[900];
  snprintf(line, sizeof line, "E\t%" PRId64 "\t%d\t%d\t%" PRIx64 "\t%d\t%d\t%s\t%s\t%s",
           event.time_ns, event.type, event.cause, event.epoch, event.who.replica, event.who.shard,
           Name(event.who.member).c_str(), event.who.stage, event.who.text);
  Line(line);
}

void Record::Failure(const char* call, ftarResult_t code, const std::string& why) {
  Line("F\t" + std::to_string(NowNs()) + "\t" + call + "\t" + ftarResultString(code) + "\t" + why);
}

Page* MapPage(const std::string& path) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0 || ftruncate(fd, 4096) != 0) return nullptr;
  void* page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  return page == MAP_FAILED ? nullptr : static_cast<Page*>(page);
}

}  // namespace chaos
