// Prints docs/knobs.md from the table in src/base/knobs.cc. A test compares the two; renew the file
// by
//   build/release/bin/ftar-knob-table > docs/knobs.md
#include <cstdio>
#include <string>

#include "base/config.h"
#include "base/knob_value.h"
#include "base/knobs.h"

namespace {

using ftar::KnobId;
using ftar::KnobType;

std::string Number(KnobType type, int64_t value) {
  if (type == KnobType::kDuration) return ftar::FormatDuration(value);
  return type == KnobType::kBytes ? ftar::FormatBytes(value)
                                  : std::to_string(value);
}

// "" where any value of its type will do.
std::string Range(const ftar::Knob& knob) {
  const bool counts = knob.type == KnobType::kDuration || knob.type == KnobType::kBytes ||
                      knob.type == KnobType::kInteger;
  if (!counts || knob.min >= knob.max) return "";
  return ", " + Number(knob.type, knob.min) + " to " + Number(knob.type, knob.max);
}

// What a value may be, in the words of the parser.
std::string Values(const ftar::Knob& knob) {
  std::string out = knob.type == KnobType::kEnum ? knob.words
                                                 : ftar::KnobTypeName(knob.type) + Range(knob);
  if (knob.type != KnobType::kEnum && *knob.words != '\0')
    out += std::string(" or ") + knob.words;
  for (size_t bar = out.find('|'); bar != std::string::npos; bar = out.find('|', bar))
    out.replace(bar, 1, ", ");
  return out;
}

// Of some the numbers that come of them are compared, so that auto agrees with what it stands for.
bool MustAgree(const ftar::Knob& knob) {
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
    "Most jobs need `coordinator`, `replica` and `replicas` (a launcher's variables stand for "
    "them), `token` between hosts,\n"
    "`interface` where a host has several networks, and a `timeout` that is longer than any pause "
    "of a healthy process.\n";

// What comes from this knob on, in the order of the table.
struct Section {
  KnobId first;
  const char* title;
};
constexpr Section kSections[] = {
    {KnobId::kTimeout, "Time"},
    {KnobId::kJob, "Who this process is"},
    {KnobId::kCoordinator, "Where to meet, and the secret"},
    {KnobId::kTransport, "Network"},
    {KnobId::kFt, "Operations"},
    {KnobId::kCredit, "Transports"},
    {KnobId::kGpu, "GPUs"},
    {KnobId::kLog, "Log"},
};

}  // namespace

int main() {
  std::fputs(kIntroduction, stdout);
  for (const ftar::Knob& knob : ftar::Knobs()) {
    for (const Section& section : kSections) {
      if (section.first != knob.id) continue;
      std::printf(
          "\n## %s\n\n"
          "| knob | values | default | agreed | meaning |\n"
          "|---|---|---|---|---|\n",
          section.title);
    }
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
