#include "device/load.h"

#include <dlfcn.h>

#include <array>
#include <cstdint>

namespace ftar::device {
namespace {

constexpr const char* kLibrary = "libftar-cuda.so";

std::string LoaderWords() {
  const char* words = dlerror();
  return words != nullptr ? words : "the dynamic linker gives no reason";
}

// The folder of the library that this code is part of, with the slash; empty if nobody knows.
std::string OwnFolder() {
  Dl_info info = {};
  if (dladdr(reinterpret_cast<const void*>(&OpenGpu), &info) == 0 || info.dli_fname == nullptr) {
    return "";
  }
  const std::string path = info.dli_fname;
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash + 1);
}

// Never closed: kernels of it may still run when the last user is gone.
Expected<void*> Load(const std::string& library) {
  constexpr int kFlags = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE;
  if (library.empty()) {
    const std::string folder = OwnFolder();
    if (!folder.empty()) {
      if (void* handle = dlopen((folder + kLibrary).c_str(), kFlags)) return handle;
    }
    const std::string beside = folder.empty() ? "" : LoaderWords() + "; ";
    if (void* handle = dlopen(kLibrary, kFlags)) return handle;
    return Status(Code::kDevice, beside + LoaderWords());
  }
  if (void* handle = dlopen(library.c_str(), kFlags)) return handle;
  return Status(Code::kDevice, LoaderWords());
}

template <typename Function>
Expected<Function> Find(const std::string& library, const char* symbol) {
  const Expected<void*> handle = Load(library);
  if (!handle.ok()) return handle.status();
  const auto found = reinterpret_cast<Function>(dlsym(*handle, symbol));
  if (found != nullptr) return found;
  return Status(Code::kDevice, library + " is no library of libftar's: " + LoaderWords());
}

}  // namespace

Expected<std::unique_ptr<Gpu>> OpenGpu(const std::string& library, int32_t device) {
  const auto open = Find<OpenGpuFunction>(library, kOpenGpuSymbol);
  if (!open.ok()) return open.status();
  std::array<char, 512> why = {};
  std::unique_ptr<Gpu> gpu((*open)(kGpuInterface, device, why.data(), why.size()));
  why.back() = '\0';
  if (gpu == nullptr) return Status(Code::kDevice, why.data());
  return gpu;
}

Expected<PointerFacts> IdentifyPointer(const std::string& library, const void* address) {
  const auto identify = Find<IdentifyPointerFunction>(library, kIdentifyPointerSymbol);
  if (!identify.ok()) return identify.status();
  std::array<char, 512> why = {};
  PointerFacts facts;
  if ((*identify)(address, &facts, why.data(), why.size())) return facts;
  why.back() = '\0';
  return Status(Code::kDevice, why.data());
}

int32_t DeviceOfStream(const std::string& library, StreamHandle stream) {
  const auto device_of = Find<DeviceOfStreamFunction>(library, kDeviceOfStreamSymbol);
  return device_of.ok() ? (*device_of)(stream) : -1;
}

bool DriverIsLoaded() {
  void* const driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (driver == nullptr) return false;
  dlclose(driver);
  return true;
}

}  // namespace ftar::device
