// A job's logger: level and file from the configuration, the process's sink (log_sink.h) where
// there is no file.
#ifndef FTAR_RUNTIME_LOGGER_H_
#define FTAR_RUNTIME_LOGGER_H_

#include <string>

#include "base/config.h"
#include "base/log.h"

namespace ftar::runtime {

// `who` is "job/member". A log_file that cannot be opened, or a pipe that nobody reads, is said
// once, and the process's sink takes its place. The file stays open as long as a copy of the logger
// lives.
Logger MakeLogger(const Config& config, const std::string& who);

}  // namespace ftar::runtime

#endif  // FTAR_RUNTIME_LOGGER_H_
