#include "base/status.h"

#include <cstring>

namespace ftar {

const char* CodeName(Code code) {
  switch (code) {
    case Code::kOk: return "ok";
    case Code::kInProgress: return "in progress";
    case Code::kTimeout: return "timeout";
    case Code::kArg: return "bad argument";
    case Code::kHandle: return "bad handle";
    case Code::kState: return "wrong state";
    case Code::kConfig: return "bad configuration";
    case Code::kUnsupported: return "unsupported";
    case Code::kForked: return "called in a forked child";
    case Code::kVersion: return "version mismatch";
    case Code::kMismatch: return "members disagree on the call";
    case Code::kAborted: return "aborted";
    case Code::kAbsent: return "no participant";
    case Code::kLink: return "link";
    case Code::kCorrupt: return "corrupt data";
    case Code::kPeer: return "peer";
    case Code::kAuth: return "authentication";
    case Code::kEvicted: return "evicted";
    case Code::kLeft: return "left";
    case Code::kQuorum: return "no quorum";
    case Code::kCoordinator: return "coordinator away";
    case Code::kMemory: return "out of memory";
    case Code::kSystem: return "system";
    case Code::kDevice: return "device";
    case Code::kInternal: return "internal";
  }
  return "unknown result";
}

Status Status::System(std::string what, int error) {
  char text[128];
  // The GNU variant of strerror_r: may return a static string instead of filling the buffer.
  const char* reason = strerror_r(error, text, sizeof text);
  what += ": ";
  what += reason;
  return {Code::kSystem, std::move(what)};
}

std::string Status::ToString() const {
  if (ok()) return "ok";
  std::string out = CodeName(code());
  if (!argument().empty()) out += " [" + argument() + "]";
  return out + ": " + text();
}

const std::string& Status::EmptyText() {
  static const std::string empty;
  return empty;
}

}  // namespace ftar
