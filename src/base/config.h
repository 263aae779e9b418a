// The configuration of one job: a value for each knob, and where it came from.
//
// Layers, strongest first: the program (ftarConfigSet, fields of ftarJobConfig), FTAR_* variables,
// ftar.conf, the default. A weaker layer never overwrites a stronger one, whatever the order of the
// calls. The process's environment and files are read in config_os.cc; here they arrive as text. An
// unknown name or a bad value is Code::kConfig naming it. A plain value; not for concurrent writes.
#ifndef FTAR_BASE_CONFIG_H_
#define FTAR_BASE_CONFIG_H_

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/knob_value.h"
#include "base/knobs.h"
#include "base/status.h"

namespace ftar {

class Config {
 public:
  enum class Layer : uint8_t { kDefault, kFile, kEnvironment, kProgram };

  Config();  // all defaults

  // `where` completes the origin that users see, for example "FTAR_TIMEOUT" or "/etc/ftar.conf:3".
  Status Set(Layer layer, std::string_view name, std::string_view text,
             std::string_view where = "");
  // `entries` are "NAME=value" as in environ; names that do not start with FTAR_ are skipped.
  // FTAR_CONF is not a knob, and FTAR_TEST_* belongs to the test hooks: known where they are built
  // in, an error elsewhere. What Kubernetes sets in pods beside a Service that is called ftar or
  // ftar-something is nobody's mistake.
  Status SetFromEnvironment(std::span<const std::string> entries);
  // Lines "name = value"; # starts a comment line.
  Status SetFromFile(std::string_view file_name, std::string_view text);

  // Typed reading. Each asserts the knob's type. A duration whose word "off" is set is kNever;
  // "auto" is 0 for durations and bytes and -1 for integers; heartbeat is derived, never 0.
  int64_t duration_ns(KnobId id) const;
  int64_t bytes(KnobId id) const;
  bool is_word(KnobId id) const;  // auto, off and the like stand where a number may
  int64_t integer(KnobId id) const;
  bool on(KnobId id) const;
  const std::string& text(KnobId id) const;  // strings and the words of enums
  struct Ports {
    uint16_t first = 0, last = 0;  // 0: any
  };
  Ports ports(KnobId id) const;

  // For people: secrets are hidden, derived values are written out ("1s (timeout / 10)").
  std::string ShownText(KnobId id) const;
  // "default", "ftar.conf /etc/ftar.conf:3", "environment FTAR_TIMEOUT", "program".
  std::string Origin(KnobId id) const;
  Layer layer(KnobId id) const { return Get(id).layer; }

  // "name=value" of every knob on which members must agree, sorted by name (Hello.agreed_config).
  std::vector<std::string> AgreedList() const;

 private:
  struct Entry {
    KnobValue value;
    Layer layer = Layer::kDefault;
    std::string where;
  };
  const Entry& Get(KnobId id) const { return entries_[static_cast<size_t>(id)]; }

  std::array<Entry, static_cast<size_t>(KnobId::kCount)> entries_;
};

// What knobs owe each other, to be asked when all layers are in. An error is Code::kConfig and
// names both values.
Status CheckTogether(const Config& config);

// The first knob in which two agreed lists differ, for the error at join: "timeout: 10s here, 30s
// there". Empty if equal. The lists may come from a peer: any content is safe.
std::string AgreementDifference(std::span<const std::string> here,
                                std::span<const std::string> there);

// The variable of a knob: "FTAR_LATE_TIMEOUT".
std::string KnobVariable(const Knob& knob);

}  // namespace ftar

#endif  // FTAR_BASE_CONFIG_H_
