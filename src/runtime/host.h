// What the runtime asks the operating system about this host and process. Any thread.
#ifndef FTAR_RUNTIME_HOST_H_
#define FTAR_RUNTIME_HOST_H_

#include <string>

#include "base/ids.h"
#include "base/status.h"

namespace ftar::runtime {

std::string HostName();
// Equal exactly for processes that can share memory and abstract sockets: the boot id and the
// network namespace.
std::string HostKey();
int UsableCores();  // of this process's affinity mask, at least 1
Expected<MemberId> RandomMemberId();

}  // namespace ftar::runtime

#endif  // FTAR_RUNTIME_HOST_H_
