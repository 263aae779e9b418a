// Where this process's log lines go: the program's handler (ftarSetLogHandler), else standard
// error. One place for all jobs of a process; a job's Logger uses WriteLogLine as its sink unless
// the knob `log_file` sends the lines elsewhere. Any thread. The handler may still be called with a
// line that was on its way while it was being replaced.
#ifndef FTAR_RUNTIME_LOG_SINK_H_
#define FTAR_RUNTIME_LOG_SINK_H_

#include <cstdint>
#include <string>

#include "base/log.h"

namespace ftar::runtime {

using LogHandler = void (*)(int32_t level, const char* line, void* user);

// Null restores standard error.
void SetLogHandler(LogHandler handler, void* user);

// True while a program's handler is set; it then wins over `log_file`.
bool HasLogHandler();

// `line` without a newline.
void WriteLogLine(LogLevel level, const std::string& line);

// One write a line, so that lines of several processes do not mix. What cannot be written, or would
// have to wait for whoever reads, is lost: there is no better place to say so.
void WriteLineTo(int fd, const std::string& line);

}  // namespace ftar::runtime

#endif  // FTAR_RUNTIME_LOG_SINK_H_
