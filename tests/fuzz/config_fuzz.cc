// Fuzz target for everything that users write: the configuration file, variables, addresses, fault
// plans. A bad value is an error that names something; a good one can be shown.
#include "base/config.h"
#include "base/log.h"
#include "runtime/rendezvous.h"
#include "runtime/test_hook.h"
#include "tests/fuzz/input.h"
#include "transport/tcp/socket.h"

using ftar::fuzz::Require;

namespace {

// Whatever was said, every knob has a value that can be shown and explained.
void CheckShown(const ftar::Config& config) {
  for (size_t i = 0; i < static_cast<size_t>(ftar::KnobId::kCount); ++i) {
    const auto id = static_cast<ftar::KnobId>(i);
    Require(config.ShownText(id).size() < 100'000 && !config.Origin(id).empty());
  }
  const std::vector<std::string> agreed = config.AgreedList();
  Require(ftar::AgreementDifference(agreed, agreed).empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ftar::fuzz::Input input(data, size);
  const uint32_t kind = input.Below(7);
  const std::string text(input.Rest());
  ftar::Config config;
  ftar::Status status;
  switch (kind) {
    case 0: status = config.SetFromFile("ftar.conf", text); break;
    case 1: {
      const std::vector<std::string> entries = {text, "FTAR_" + text};
      status = config.SetFromEnvironment(entries);
      break;
    }
    case 2:
      for (size_t i = 0; i < static_cast<size_t>(ftar::KnobId::kCount); ++i) {
        const ftar::Status set = config.Set(ftar::Config::Layer::kProgram,
                                            ftar::KnobOf(static_cast<ftar::KnobId>(i)).name, text);
        if (!set.ok()) status = set;
      }
      break;
    case 3: {
      const std::vector<std::string> theirs = {text, text + "=" + text};
      ftar::AgreementDifference(config.AgreedList(), theirs);
      break;
    }
    case 4: status = ftar::coordinator::ParseHostPort(text, "coordinator").status(); break;
    case 5: status = ftar::transport::tcp::ParseAddress(text).status(); break;
    default: status = ftar::runtime::ParseFaultPlan(text).status();
  }
  Require(status.ok() || !status.text().empty());
  CheckShown(config);
  return 0;
}
