#include "coordinator/resolver.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <chrono>
#include <system_error>
#include <thread>
#include <utility>

#include "base/signals_os.h"
#include "coordinator/message_stream.h"

namespace ftar::coordinator {
namespace {

bool IsNumber(const std::string& host) {
  in6_addr address;
  return inet_pton(AF_INET, host.c_str(), &address) == 1 ||
         inet_pton(AF_INET6, host.c_str(), &address) == 1;
}

}  // namespace

std::optional<Resolver::Answer> Resolver::Ask(const HostPort& name) {
  if (IsNumber(name.host)) return ResolveHost(name.host, name.port);
  if (pending_.valid()) {
    if (pending_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return {};
    Answer answer = pending_.get();
    if (name_ == name) return answer;
  }
  name_ = name;
  std::promise<Answer> promise;
  pending_ = promise.get_future();
  try {
    const SignalsBlocked quiet;
    std::thread([name, promise = std::move(promise)]() mutable {
      promise.set_value(ResolveHost(name.host, name.port));
    }).detach();
  } catch (const std::system_error& error) {
    pending_ = {};
    return Status(Code::kSystem, std::string("cannot look up a name: ") + error.what());
  }
  return {};
}

}  // namespace ftar::coordinator
