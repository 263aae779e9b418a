#include "coordinator/state_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <utility>
#include <vector>

#include "base/signals_os.h"
#include "transport/fd.h"

namespace ftar::coordinator {
namespace {

Status Failed(const std::string& what, const std::string& path) {
  return Status(Code::kConfig, "state", Status::System(what + " " + path, errno).text());
}

Status WriteAll(int fd, const std::vector<std::byte>& bytes, const std::string& path) {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t written = write(fd, bytes.data() + done, bytes.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Failed("cannot write", path);
    done += static_cast<size_t>(written);
  }
  return fdatasync(fd) == 0 ? Status::Ok() : Failed("cannot write", path);
}

// With the slash; empty where the name has none.
std::string FolderOf(const std::string& path) { return path.substr(0, path.rfind('/') + 1); }

// A rename is on the disk when the folder is.
Status SyncFolder(const std::string& path) {
  const std::string folder = FolderOf(path).empty() ? "." : FolderOf(path);
  const transport::UniqueFd fd(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid() || (fsync(fd.get()) != 0 && errno != EINVAL))
    return Failed("cannot sync", folder);
  return Status::Ok();
}

}  // namespace

Expected<std::string> FollowStateLinks(const std::string& path) {
  constexpr int kLinksMax = 40;  // as the kernel does
  std::string at = path;
  for (int links = 0; links <= kLinksMax; ++links) {
    char target[PATH_MAX];
    const ssize_t length = readlink(at.c_str(), target, sizeof target);
    if (length < 0) return at;  // no link, or nothing yet; what else there is shows when it is read
    const std::string to(target, static_cast<size_t>(length));
    at = to.starts_with('/') ? to : FolderOf(at) + to;
  }
  return Status(Code::kConfig, "state", "cannot use " + path + ": its links lead in circles");
}

Expected<membership::CoordinatorRecord> ReadState(const std::string& path, const std::string& job) {
  // A pipe that nobody writes to is no file of ours, and nothing to wait for.
  const transport::UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid() && errno == ENOENT) return membership::CoordinatorRecord{job, 0, std::nullopt};
  if (!fd.valid()) return Failed("cannot read", path);
  std::vector<std::byte> bytes;
  std::byte buffer[64 * 1024];
  while (bytes.size() <= membership::kRecordBytesMax) {
    const ssize_t got = read(fd.get(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Failed("cannot read", path);
    if (got == 0) break;
    bytes.insert(bytes.end(), buffer, buffer + got);
  }
  Expected<membership::CoordinatorRecord> record = membership::DecodeRecord(bytes);
  if (!record.ok()) {
    return Status(Code::kConfig, "state",
                  "cannot use " + path + ": " + record.status().text() +
                      "; only if no member of its job is left may it be removed");
  }
  if (!job.empty() && !record->job.empty() && record->job != job) {
    return Status(Code::kConfig, "state",
                  path + " is of job '" + record->job + "', this is job '" + job + "'");
  }
  return record;
}

Status WriteState(const std::string& path, const membership::CoordinatorRecord& record) {
  const std::string fresh = path + ".tmp";
  const SignalWithheld too_large(SIGXFSZ);
  {
    const transport::UniqueFd fd(
        open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, S_IRUSR | S_IWUSR));
    if (!fd.valid()) return Failed("cannot write", fresh);
    FTAR_RETURN_IF_ERROR(WriteAll(fd.get(), membership::EncodeRecord(record), fresh));
  }
  if (std::rename(fresh.c_str(), path.c_str()) != 0) return Failed("cannot write", path);
  return SyncFolder(path);
}

}  // namespace ftar::coordinator
