#include "base/config_os.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <memory>

extern char** environ;

namespace ftar {
namespace {

constexpr char kSystemFile[] = "/etc/ftar.conf";
constexpr size_t kFileBytesMax = 1 << 20;

struct FileCloser {
  void operator()(FILE* file) const { fclose(file); }
};

const char* KindOf(mode_t mode) {
  switch (mode & S_IFMT) {
    case S_IFDIR: return "a folder";
    case S_IFIFO: return "a pipe";
    case S_IFCHR: return "a terminal or another device";
    default: return "of another kind";
  }
}

// Whatever else than a file might keep its reader waiting. /dev/null is the file without a line.
Status MustBeAFile(int fd, const std::string& path) {
  struct stat info {};
  if (fstat(fd, &info) != 0) return Status::System("cannot look at " + path, errno);
  const bool null = S_ISCHR(info.st_mode) && info.st_rdev == makedev(1, 3);
  if (S_ISREG(info.st_mode) || null) return Status::Ok();
  return Status(Code::kConfig, path,
                path + " is " + KindOf(info.st_mode) + "; it has to be a regular file");
}

// The whole file. `missing` is set instead of an error if there is no such file and `missing` is
// given.
Expected<std::string> ReadFile(const std::string& path, bool* missing) {
  // Without waiting for whoever is at the other end of a pipe.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0 && errno == ENOENT && missing != nullptr) {
    *missing = true;
    return std::string();
  }
  const std::unique_ptr<FILE, FileCloser> file(fd < 0 ? nullptr : fdopen(fd, "r"));
  if (file == nullptr) {
    const Status reason = Status::System("cannot open " + path, errno);
    if (fd >= 0) close(fd);
    return Status(Code::kConfig, path, reason.text());
  }
  FTAR_RETURN_IF_ERROR(MustBeAFile(fd, path));
  std::string text(kFileBytesMax + 1, '\0');
  text.resize(fread(text.data(), 1, text.size(), file.get()));
  if (ferror(file.get()) != 0) return Status(Code::kConfig, path, "cannot read " + path);
  if (text.size() > kFileBytesMax)
    return Status(Code::kConfig, path, path + " is larger than 1 MiB");
  return text;
}

}  // namespace

std::vector<std::string> ReadEnvironment() {
  std::vector<std::string> out;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry)
    out.emplace_back(*entry);
  return out;
}

std::string FindVariable(const std::vector<std::string>& environment, const std::string& name) {
  for (const std::string& entry : environment) {
    if (entry.size() > name.size() && entry[name.size()] == '=' && entry.starts_with(name)) {
      return entry.substr(name.size() + 1);
    }
  }
  return {};
}

Status LoadConfig(const std::vector<std::string>& environment, Config* config) {
  FTAR_RETURN_IF_ERROR(config->SetFromEnvironment(environment));
  const std::string named = FindVariable(environment, "FTAR_CONF");
  const std::string path = named.empty() ? kSystemFile : named;
  bool missing = false;
  const Expected<std::string> text = ReadFile(path, named.empty() ? &missing : nullptr);
  if (!text.ok()) {
    if (named.empty()) return text.status();
    return Status(Code::kConfig, "FTAR_CONF", "FTAR_CONF: " + text.status().text());
  }
  return missing ? Status::Ok() : config->SetFromFile(path, *text);
}

Expected<std::string> ReadToken(const Config& config) {
  const std::string& path = config.text(KnobId::kTokenFile);
  const bool given = !config.text(KnobId::kToken).empty();
  const bool nearer = config.layer(KnobId::kTokenFile) > config.layer(KnobId::kToken);
  if (path.empty() || (given && !nearer)) return config.text(KnobId::kToken);
  Expected<std::string> text = ReadFile(path, nullptr);
  if (!text.ok()) {
    return Status(Code::kConfig, "token_file", "token_file: " + text.status().text());
  }
  std::string token = text->substr(0, text->find_first_of("\r\n"));
  if (token.empty())
    return Status(Code::kConfig, "token_file", "token_file: " + path + " holds no token");
  return token;
}

}  // namespace ftar
