#include "runtime/fork_guard.h"

#include <pthread.h>

#include <algorithm>
#include <mutex>
#include <vector>

namespace ftar::runtime {
namespace {

struct Registry {
  std::mutex mutex;
  std::vector<ForkAware*> objects;
};

Registry& TheRegistry() {
  // Never destroyed: a fork may come while the process ends.
  static Registry* const registry = new Registry;
  return *registry;
}

void Prepare() {
  Registry& registry = TheRegistry();
  registry.mutex.lock();
  for (ForkAware* object : registry.objects) object->BeforeFork();
}

void Parent() {
  Registry& registry = TheRegistry();
  for (ForkAware* object : registry.objects) object->AfterForkInParent();
  registry.mutex.unlock();
}

void Child() {
  Registry& registry = TheRegistry();
  for (ForkAware* object : registry.objects) object->AfterForkInChild();
  registry.mutex.unlock();
}

}  // namespace

void RegisterForkAware(ForkAware* object) {
  static std::once_flag once;
  std::call_once(once, [] { pthread_atfork(Prepare, Parent, Child); });
  Registry& registry = TheRegistry();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  registry.objects.push_back(object);
}

void UnregisterForkAware(ForkAware* object) {
  Registry& registry = TheRegistry();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  std::erase(registry.objects, object);
}

}  // namespace ftar::runtime
