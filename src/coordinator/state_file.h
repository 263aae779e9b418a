// The coordinator's record in a file (membership/record.h), so that it outlives the coordinator's
// process and its host's power. Blocking. One coordinator a file.
#ifndef FTAR_COORDINATOR_STATE_FILE_H_
#define FTAR_COORDINATOR_STATE_FILE_H_

#include <string>

#include "base/status.h"
#include "membership/record.h"

namespace ftar::coordinator {

// Where the links of `path` lead, whether there is a file or not yet: what is renamed has to take
// the place of that, not of the link. An error (kConfig) if they lead nowhere.
Expected<std::string> FollowStateLinks(const std::string& path);

// No file: an empty record. An error (kConfig) names the file and what is wrong with it: it cannot
// be read, or is torn, corrupt, of another version, or of another job than `job` (empty: any).
Expected<membership::CoordinatorRecord> ReadState(const std::string& path, const std::string& job);

// Durable when this returns OK; else the file is what it was, or the new one already. Writes
// PATH.tmp and renames it.
Status WriteState(const std::string& path, const membership::CoordinatorRecord& record);

}  // namespace ftar::coordinator

#endif  // FTAR_COORDINATOR_STATE_FILE_H_
