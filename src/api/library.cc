// ftarGetVersion, ftarResultString, ftarGetLastError, ftarSetLogHandler.
#include "api/call.h"
#include "api/structs.h"
#include "ftar/ftar.h"
#include "runtime/log_sink.h"

using namespace ftar;  // NOLINT: the C functions below live outside every namespace

uint32_t ftarGetVersion(void) { return FTAR_VERSION; }

const char* ftarResultString(ftarResult_t result) {
  switch (result) {
    case FTAR_OK: return "FTAR_OK";
    case FTAR_IN_PROGRESS: return "FTAR_IN_PROGRESS";
    case FTAR_TIMEOUT: return "FTAR_TIMEOUT";
    case FTAR_ERR_ARG: return "FTAR_ERR_ARG";
    case FTAR_ERR_HANDLE: return "FTAR_ERR_HANDLE";
    case FTAR_ERR_STATE: return "FTAR_ERR_STATE";
    case FTAR_ERR_CONFIG: return "FTAR_ERR_CONFIG";
    case FTAR_ERR_UNSUPPORTED: return "FTAR_ERR_UNSUPPORTED";
    case FTAR_ERR_FORKED: return "FTAR_ERR_FORKED";
    case FTAR_ERR_VERSION: return "FTAR_ERR_VERSION";
    case FTAR_ERR_MISMATCH: return "FTAR_ERR_MISMATCH";
    case FTAR_ERR_ABORTED: return "FTAR_ERR_ABORTED";
    case FTAR_ERR_ABSENT: return "FTAR_ERR_ABSENT";
    case FTAR_ERR_LINK: return "FTAR_ERR_LINK";
    case FTAR_ERR_CORRUPT: return "FTAR_ERR_CORRUPT";
    case FTAR_ERR_PEER: return "FTAR_ERR_PEER";
    case FTAR_ERR_AUTH: return "FTAR_ERR_AUTH";
    case FTAR_ERR_EVICTED: return "FTAR_ERR_EVICTED";
    case FTAR_ERR_LEFT: return "FTAR_ERR_LEFT";
    case FTAR_ERR_QUORUM: return "FTAR_ERR_QUORUM";
    case FTAR_ERR_COORDINATOR: return "FTAR_ERR_COORDINATOR";
    case FTAR_ERR_MEMORY: return "FTAR_ERR_MEMORY";
    case FTAR_ERR_SYSTEM: return "FTAR_ERR_SYSTEM";
    case FTAR_ERR_DEVICE: return "FTAR_ERR_DEVICE";
    case FTAR_ERR_INTERNAL: return "FTAR_ERR_INTERNAL";
    default: return "unknown result";
  }
}

ftarResult_t ftarGetLastError(ftarErrorInfo* info) {
  // Not through Call: asking for the last error must not change it.
  if (api::Forked()) return FTAR_ERR_FORKED;
  try {
    if (!api::CheckOutput(info, "info").ok()) return FTAR_ERR_ARG;
  } catch (...) {
    return FTAR_ERR_MEMORY;
  }
  api::WriteStruct(api::LastError(), info);
  return FTAR_OK;
}

ftarResult_t ftarSetLogHandler(void (*fn)(int32_t level, const char* line, void* user),
                               void* user) {
  return api::Call("ftarSetLogHandler", api::Where::kAnywhere, [&] {
    runtime::SetLogHandler(fn, user);
    return Status::Ok();
  });
}
