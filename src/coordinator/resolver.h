// Looks up names beside whoever asks: the system may take many seconds for one.
//
// One thread at a time (its owner's lock). The thread that looks a name up holds nothing of its
// owner, and nobody waits for its end.
#ifndef FTAR_COORDINATOR_RESOLVER_H_
#define FTAR_COORDINATOR_RESOLVER_H_

#include <future>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "coordinator/host_port.h"

namespace ftar::coordinator {

class Resolver {
 public:
  static constexpr TimeNs kLookNs = 5 * kMillisecond;  // how often an answer is to be asked for

  using Answer = Expected<std::vector<std::string>>;  // as of ResolveHost
  // Nothing: not known yet, ask again. One name is looked up at a time; asking for another one
  // drops the answer that nobody has taken. Numbers are answered at once.
  std::optional<Answer> Ask(const HostPort& name);
  // A name is being looked up. If not, whoever has to ask need not wait.
  bool busy() const { return pending_.valid(); }

 private:
  HostPort name_;
  std::future<Answer> pending_;
};

}  // namespace ftar::coordinator

#endif  // FTAR_COORDINATOR_RESOLVER_H_
