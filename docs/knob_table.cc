// Prints docs/knobs.md from the table in src/base/knobs.cc. A test compares the two; renew the file
// by
//   build/release/bin/ftar-knob-table > docs/knobs.md
#include <cstdio>
#include <string>

#include "base/config.h"
#include "base/knobs.h"

namespace {

// What a value may be, in the words of the parser.
std::string Values(const ftar::Knob& knob) {
  std::string out = knob.type == ftar::KnobType::kEnum ? knob.words : ftar::KnobTypeName(knob.type);
  if (knob.type != ftar::KnobType::kEnum && *knob.words != '\0')
    out += std::string(" or ") + knob.words;
  for (size_t bar = out.find('|'); bar != std::string::npos; bar = out.find('|', bar))
    out.replace(bar, 1, ", ");
  return out;
}

// Of some the numbers that come of them are compared, so that auto agrees with what it stands for.
bool MustAgree(const ftar::Knob& knob) {
  using ftar::KnobId;
  return knob.agreed || knob.id == KnobId::kReplicas || knob.id == KnobId::kShards ||
         knob.id == KnobId::kMinReplicas;
}

constexpr char kIntroduction[] =
    "# Knobs\n"
    "\n"
    "Generated from `src/base/knobs.cc`; do not edit. A test keeps it fresh.\n"
    "\n"
    "A knob is set, strongest first, by the program (`ftarConfigSet`, or the fields of "
    "`ftarJobConfig`), by the variable\n"
    "`FTAR_` and its name in capitals, or by a line `name = value` in the file that `FTAR_CONF` "
    "names (`/etc/ftar.conf` if\n"
    "that variable is not set). An unknown `FTAR_*` variable, an unknown name or a bad value is an "
    "error that names it.\n"
    "`ftarJobConfigEach` lists the values in force and where each came from. Knobs marked *agreed* "
    "must have the same value\n"
    "on all members of a job; a newcomer that differs is refused with the knob's name. Durations "
    "need a unit (`10s`,\n"
    "`250ms`, `5min`); sizes may have one (`65536`, `64KiB`, `1MiB`).\n"
    "\n"
    "| knob | values | default | agreed | meaning |\n"
    "|---|---|---|---|---|\n";

}  // namespace

int main() {
  std::fputs(kIntroduction, stdout);
  for (const ftar::Knob& knob : ftar::Knobs()) {
    const char* fallback = *knob.default_text == '\0' ? "(empty)" : knob.default_text;
    std::printf("| `%s` | %s | %s | %s | %s |\n", knob.name, Values(knob).c_str(), fallback,
                MustAgree(knob) ? "yes" : "", knob.help);
  }
  std::printf(
      "\nVariables that are not knobs: `FTAR_CONF` (the file above). Builds with "
      "`FTAR_TEST_HOOKS=ON` also accept\n"
      "`FTAR_TEST_*`; every other build refuses them. What Kubernetes sets beside a Service named "
      "ftar or ftar-something\n"
      "(`FTAR_COORDINATOR_PORT=tcp://10.0.0.1:7000`, `FTAR_COORDINATOR_SERVICE_HOST`) is passed "
      "over.\n");
  return 0;
}
