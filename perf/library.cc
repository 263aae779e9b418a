#include "perf/library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <vector>

#include "fmt/format.h"

namespace ftar::perf {
namespace {

std::vector<std::string> NamesOf(const std::string& file,
                                 std::initializer_list<const char*> versions) {
  std::vector<std::string> names = {file};
  for (const char* version : versions) names.push_back(file + "." + version);
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    const char* home = std::getenv(variable);
    if (home != nullptr) names.push_back(std::string(home) + "/lib64/" + file);
  }
  names.push_back("/usr/local/cuda/lib64/" + file);
  return names;
}

}  // namespace

void* OpenLibrary(const std::string& path, const std::string& file,
                  std::initializer_list<const char*> versions, const std::string& option,
                  std::string* why) {
  if (!path.empty()) {
    void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) *why = dlerror();
    return handle;
  }
  for (const std::string& name : NamesOf(file, versions)) {
    if (void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return handle;
  }
  *why = fmt::format("there is no {} here; {} names one", file, option);
  return nullptr;
}

}  // namespace ftar::perf
