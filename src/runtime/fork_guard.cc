#include "runtime/fork_guard.h"

#include <pthread.h>

#include <mutex>
#include <type_traits>
#include <utility>

namespace ftar::runtime {

// All objects, chained through themselves.
class ForkRegistry {
 public:
  void Add(ForkAware* object) {
    const std::lock_guard<std::mutex> lock(mutex_);
    object->next_ = std::exchange(first_, object);
  }
  void Remove(ForkAware* object) {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (ForkAware** at = &first_; *at != nullptr; at = &(*at)->next_) {
      if (*at != object) continue;
      *at = object->next_;
      return;
    }
  }
  void Prepare() {
    mutex_.lock();
    ForEach(&ForkAware::BeforeFork);
  }
  void Resume(void (ForkAware::*after)()) {
    ForEach(after);
    mutex_.unlock();
  }

 private:
  void ForEach(void (ForkAware::*call)()) {
    for (ForkAware* object = first_; object != nullptr;) {
      ForkAware* const next = object->next_;
      (object->*call)();
      object = next;
    }
  }

  std::mutex mutex_;
  ForkAware* first_ = nullptr;
};

namespace {

// Never destroyed: a fork may come while the process ends.
static_assert(std::is_trivially_destructible_v<ForkRegistry>);
constinit ForkRegistry registry;

}  // namespace

void RegisterForkAware(ForkAware* object) {
  static std::once_flag once;
  std::call_once(once, [] {
    pthread_atfork([] { registry.Prepare(); },
                   [] { registry.Resume(&ForkAware::AfterForkInParent); },
                   [] { registry.Resume(&ForkAware::AfterForkInChild); });
  });
  registry.Add(object);
}

void UnregisterForkAware(ForkAware* object) { registry.Remove(object); }

}  // namespace ftar::runtime
