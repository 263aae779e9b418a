// ftarJobConfig, checked and translated. Looks up the configuration handle; any thread.
#ifndef FTAR_API_JOB_CONFIG_H_
#define FTAR_API_JOB_CONFIG_H_

#include "base/status.h"
#include "ftar/ftar.h"
#include "runtime/job.h"

namespace ftar::api {

// `config` was read by ReadStruct. Errors name the field as "config." and its name.
Status TranslateJobConfig(const ftarJobConfig& config, runtime::JobOptions* options);

}  // namespace ftar::api

#endif  // FTAR_API_JOB_CONFIG_H_
