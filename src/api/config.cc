// ftarConfig*: knob values that a program sets, checked one by one when they are set.
#include "base/config.h"

#include <memory>
#include <mutex>

#include "api/call.h"
#include "api/config_visit.h"
#include "api/objects.h"
#include "base/knobs.h"
#include "ftar/ftar.h"

using namespace ftar;  // NOLINT: the C functions below live outside every namespace
using api::Call;
using api::CallFor;
using api::Where;

namespace ftar::api {

Status VisitConfig(const Config& config, ftarConfigVisitor visitor, void* user) {
  if (visitor == nullptr) return Status(Code::kArg, "visitor", "visitor is null");
  for (const Knob& knob : Knobs()) {
    const std::string value = config.ShownText(knob.id);
    const std::string origin = config.Origin(knob.id);
    visitor(knob.name, value.c_str(), origin.c_str(), knob.help, user);
  }
  return Status::Ok();
}

}  // namespace ftar::api

ftarResult_t ftarConfigCreate(ftarConfig_t* config) {
  return CallFor(config, "ftarConfigCreate", Where::kAnywhere, [&] {
    if (config == nullptr) return Status(Code::kArg, "config", "config is null");
    FTAR_RETURN_IF_ERROR(api::WatchForks());
    auto handle = api::AddHandle<ftarConfig_t>(std::make_shared<api::ConfigObject>());
    if (handle.ok()) *config = *handle;
    return handle.status();
  });
}

ftarResult_t ftarConfigSet(ftarConfig_t config, const char* name, const char* value) {
  return Call("ftarConfigSet", Where::kAnywhere, [&] {
    const auto object = api::FindHandle(config);
    if (object == nullptr) return api::BadHandle(api::HandleKind::kConfig, config);
    if (name == nullptr) return Status(Code::kArg, "name", "name is null");
    if (value == nullptr) return Status(Code::kArg, "value", "value is null");
    // A scratch configuration knows all names and ranges; what it refuses is not kept.
    Config scratch;
    FTAR_RETURN_IF_ERROR(scratch.Set(Config::Layer::kProgram, name, value));
    std::lock_guard<std::mutex> guard(object->lock);
    object->knobs.emplace_back(name, value);
    return Status::Ok();
  });
}

ftarResult_t ftarConfigEach(ftarConfig_t config, ftarConfigVisitor visitor, void* user) {
  return Call("ftarConfigEach", Where::kAnywhere, [&] {
    const auto object = api::FindHandle(config);
    if (object == nullptr) return api::BadHandle(api::HandleKind::kConfig, config);
    Config effective;
    {
      std::lock_guard<std::mutex> guard(object->lock);
      for (const auto& [name, value] : object->knobs) {
        FTAR_RETURN_IF_ERROR(effective.Set(Config::Layer::kProgram, name, value));
      }
    }
    return api::VisitConfig(effective, visitor, user);
  });
}

ftarResult_t ftarConfigDestroy(ftarConfig_t config) {
  return Call("ftarConfigDestroy", Where::kAnywhere, [&] {
    if (config == nullptr || api::RemoveHandle(config) != nullptr) return Status::Ok();
    return api::BadHandle(api::HandleKind::kConfig, config);
  });
}
