// Shows a configuration to a C visitor, knob by knob. The caller sees to it that `config` does not
// change meanwhile; the visitor may call anything.
#ifndef FTAR_API_CONFIG_VISIT_H_
#define FTAR_API_CONFIG_VISIT_H_

#include "base/config.h"
#include "base/status.h"
#include "ftar/ftar.h"

namespace ftar::api {

Status VisitConfig(const Config& config, ftarConfigVisitor visitor, void* user);

}  // namespace ftar::api

#endif  // FTAR_API_CONFIG_VISIT_H_
