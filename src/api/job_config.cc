#include "api/job_config.h"

#include <cstring>
#include <memory>
#include <mutex>
#include <string>

#include "api/objects.h"

namespace ftar::api {
namespace {

constexpr int32_t kPlaceMax = 65'535;  // what a frame header can carry
constexpr size_t kTextMax = 255;

Status CheckRange(int32_t value, int32_t min, int32_t max, const char* field) {
  if (value == -1 || (value >= min && value <= max)) return Status::Ok();
  const std::string name = std::string("config.") + field;
  return Status(Code::kArg, name,
                name + " is " + std::to_string(value) + ", not within " + std::to_string(min) +
                    " and " + std::to_string(max) + " (-1: from the environment)");
}

Status CopyField(const char* text, const char* field, std::string* out) {
  if (text == nullptr) return Status::Ok();
  const size_t length = strnlen(text, kTextMax + 1);
  const std::string name = std::string("config.") + field;
  if (length > kTextMax) return Status(Code::kArg, name, name + " is longer than 255 bytes");
  out->assign(text, length);
  return Status::Ok();
}

Status CopyKnobs(ftarConfig_t handle, runtime::JobOptions* options) {
  if (handle == nullptr) return Status::Ok();
  const auto object = FindHandle(handle);
  if (object == nullptr) return BadHandle(HandleKind::kConfig, handle);
  std::lock_guard<std::mutex> guard(object->lock);
  options->knobs = object->knobs;
  return Status::Ok();
}

}  // namespace

Status TranslateJobConfig(const ftarJobConfig& config, runtime::JobOptions* options) {
  if ((config.flags & ~FTAR_JOB_NONBLOCKING) != 0) {
    return Status(Code::kUnsupported, "config.flags",
                  "config.flags has a flag this library does not know");
  }
  FTAR_RETURN_IF_ERROR(CheckRange(config.replica, 0, kPlaceMax, "replica"));
  FTAR_RETURN_IF_ERROR(CheckRange(config.shard, 0, kPlaceMax, "shard"));
  FTAR_RETURN_IF_ERROR(CheckRange(config.replicas, 1, kPlaceMax + 1, "replicas"));
  FTAR_RETURN_IF_ERROR(CheckRange(config.shards, 1, kPlaceMax + 1, "shards"));
  FTAR_RETURN_IF_ERROR(CheckRange(config.min_replicas, 1, kPlaceMax + 1, "min_replicas"));
  if (config.shard >= 0 && config.shards > 0 && config.shard >= config.shards) {
    return Status(Code::kArg, "config.shard", "config.shard is not below config.shards");
  }
  if (config.timeout_ns < 0) {
    return Status(Code::kArg, "config.timeout_ns",
                  "config.timeout_ns is negative; 0 takes the knob `timeout`");
  }
  FTAR_RETURN_IF_ERROR(CopyField(config.name, "name", &options->name));
  FTAR_RETURN_IF_ERROR(CopyField(config.coordinator, "coordinator", &options->coordinator));
  FTAR_RETURN_IF_ERROR(CopyField(config.host, "host", &options->host));
  FTAR_RETURN_IF_ERROR(CopyField(config.rack, "rack", &options->rack));
  FTAR_RETURN_IF_ERROR(CopyKnobs(config.config, options));
  options->replica = config.replica;
  options->shard = config.shard;
  options->replicas = config.replicas;
  options->shards = config.shards;
  options->min_replicas = config.min_replicas;
  options->timeout_ns = config.timeout_ns;
  options->may_wait = (config.flags & FTAR_JOB_NONBLOCKING) == 0;
  return Status::Ok();
}

}  // namespace ftar::api
