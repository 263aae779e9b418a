// Reading the process's environment and files into a Config. Kept apart from config.h because the
// pure rooms may not. Not while another thread calls setenv.
#ifndef FTAR_BASE_CONFIG_OS_H_
#define FTAR_BASE_CONFIG_OS_H_

#include <string>
#include <vector>

#include "base/config.h"

namespace ftar {

// environ as text.
std::vector<std::string> ReadEnvironment();

// The value of a variable in such a list; empty if it is absent.
std::string FindVariable(const std::vector<std::string>& environment, const std::string& name);

// Adds the layers below the program's: FTAR_* of `environment`, then the file that FTAR_CONF names,
// or /etc/ftar.conf if there is one. A file that FTAR_CONF names must be readable.
Status LoadConfig(const std::vector<std::string>& environment, Config* config);

// The job's token: the knob `token`, or the first line of `token_file`, whichever was set in the
// nearer layer, and of one layer `token`; empty if neither is set.
Expected<std::string> ReadToken(const Config& config);

}  // namespace ftar

#endif  // FTAR_BASE_CONFIG_OS_H_
