// Where log lines of this process go: the user's handler, the knob log_file, or standard error. One handler for the process,
// because a library has one log; set from any thread, also while jobs run.
#ifndef FTAR_RUNTIME_LOG_SINK_H_
#define FTAR_RUNTIME_LOG_SINK_H_

#include <cstdint>
#include <string>

#include "base/config.h"
#include "base/log.h"

namespace ftar::runtime {

// Null restores the default. After return the old handler is not entered any more, unless this is called from inside it.
void SetLogHandler(void (*handler)(int32_t level, const char* line, void* user), void* user);

// A logger for one job. A log_file that cannot be opened is said once, on standard error, which then takes its place.
Logger MakeLogger(const Config& config, const std::string& who);

}  // namespace ftar::runtime

#endif  // FTAR_RUNTIME_LOG_SINK_H_
