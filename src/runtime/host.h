// What the runtime asks the operating system about this host and process. Any thread.
#ifndef FTAR_RUNTIME_HOST_H_
#define FTAR_RUNTIME_HOST_H_

#include <cstdint>
#include <string>

#include "base/ids.h"
#include "base/status.h"

namespace ftar::runtime {

std::string HostName();
// Equal exactly for processes that can share memory and abstract sockets: the boot id and the
// network namespace. An error where it cannot be known for now, as without a free descriptor: with
// a key of its own a process would be taken for one of another host.
Expected<std::string> HostKey();
struct Cores {
  int count = 1;
  uint64_t set = 0;  // a digest of which they are: equal for processes that share them
};
Cores UsableCores();  // of this process's affinity mask
Expected<MemberId> RandomMemberId();

}  // namespace ftar::runtime

#endif  // FTAR_RUNTIME_HOST_H_
