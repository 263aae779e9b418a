#include "base/config.h"

#include <algorithm>
#include <cassert>

namespace ftar {
namespace {

constexpr std::string_view kPrefix = "FTAR_";
constexpr std::string_view kTestPrefix = "FTAR_TEST_";
constexpr std::string_view kConfVariable = "FTAR_CONF";
#ifdef FTAR_TEST_HOOKS
constexpr bool kTestHooks = true;
#else
constexpr bool kTestHooks = false;
#endif

char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
char Upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }

std::string_view Trim(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

// Edits that turn `a` into `b`; only used to guess what a misspelt name meant.
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

const Knob* ClosestKnob(std::string_view name) {
  if (name.starts_with("FTAR_")) {  // a variable's name where a knob's is wanted
    std::string lower(name.substr(5, 64));
    std::transform(lower.begin(), lower.end(), lower.begin(), Lower);
    return FindKnob(lower);
  }
  // What others call it; edits would find another knob, or none.
  constexpr std::string_view kElsewhere[][2] = {
      {"rank", "replica"},  {"world_size", "replicas"},     {"debug", "log"},
      {"log_level", "log"}, {"socket_ifname", "interface"}, {"algo", "plan"}};
  for (const auto& [theirs, ours] : kElsewhere) {
    if (name == theirs) return FindKnob(ours);
  }
  const Knob* best = nullptr;
  // Farther than two edits is no misspelling, and nor is another short word.
  size_t best_distance = std::min<size_t>(3, (name.size() + 2) / 3 + 1);
  for (const Knob& knob : Knobs()) {
    const size_t distance = EditDistance(name.substr(0, 64), knob.name);
    if (distance < best_distance) {
      best = &knob;
      best_distance = distance;
    }
  }
  return best;
}

// `is_variable`: the user wrote FTAR_NAME, so speak of it that way.
Status UnknownName(std::string_view written, std::string_view name, bool is_variable,
                   std::string_view where) {
  std::string text = is_variable ? "unknown variable " : "unknown knob ";
  text += written.substr(0, 64);
  if (!is_variable && !where.empty()) text += " (" + std::string(where) + ")";
  if (const Knob* guess = ClosestKnob(name)) {
    text +=
        "; did you mean " + (is_variable ? KnobVariable(*guess) : std::string(guess->name)) + "?";
  }
  return {Code::kConfig, std::string(written.substr(0, 64)), std::move(text)};
}

std::string_view NameOf(std::string_view entry) { return entry.substr(0, entry.find('=')); }

std::string_view ValueOf(std::string_view entry) {
  const size_t equals = entry.find('=');
  return equals == std::string_view::npos ? std::string_view() : entry.substr(equals + 1);
}

bool TakeDigits(std::string_view* text) {
  const size_t digits = std::min(text->find_first_not_of("0123456789"), text->size());
  text->remove_prefix(digits);
  return digits > 0;
}

// "A Service's variables" in its documentation: NAME_SERVICE_HOST, NAME_SERVICE_PORT and
// NAME_SERVICE_PORT_HTTP, NAME_PORT=tcp://10.0.0.1:7000, NAME_PORT_7000_TCP and what begins so.
bool IsServiceLink(std::string_view variable, std::string_view value) {
  constexpr std::string_view kHost = "_SERVICE_HOST", kServicePort = "_SERVICE_PORT",
                             kPort = "_PORT";
  if (variable.ends_with(kHost)) return true;
  const size_t service = variable.rfind(kServicePort);
  if (service != std::string_view::npos) {
    const std::string_view rest = variable.substr(service + kServicePort.size());
    return rest.empty() || rest.front() == '_';
  }
  const auto is_protocol = [](std::string_view text, std::string_view end) {
    for (const std::string_view name : {"tcp", "udp", "sctp", "TCP", "UDP", "SCTP"}) {
      if (text.starts_with(name) && text.substr(name.size()).starts_with(end)) return true;
    }
    return false;
  };
  if (variable.ends_with(kPort) && is_protocol(value, "://")) return true;
  const size_t port = variable.rfind("_PORT_");
  if (port == std::string_view::npos) return false;
  std::string_view rest = variable.substr(port + kPort.size() + 1);
  if (!TakeDigits(&rest) || !rest.starts_with('_')) return false;
  return is_protocol(rest.substr(1), "");
}

}  // namespace

std::string KnobVariable(const Knob& knob) {
  std::string out(kPrefix);
  for (const char* c = knob.name; *c != '\0'; ++c) out += Upper(*c);
  return out;
}

Config::Config() {
  for (const Knob& knob : Knobs()) {
    Expected<KnobValue> value = ParseKnob(knob, knob.default_text);
    assert(value.ok());  // the unit test parses every default
    entries_[static_cast<size_t>(knob.id)].value = std::move(value).value();
  }
}

Status Config::Set(Layer layer, std::string_view name, std::string_view text,
                   std::string_view where) {
  const Knob* knob = FindKnob(name);
  if (knob == nullptr) return UnknownName(name, name, false, where);
  Expected<KnobValue> value = ParseKnob(*knob, text);
  if (!value.ok()) {
    const Status& status = value.status();
    if (where.empty()) return status;
    return {status.code(), status.argument(), status.text() + " (" + std::string(where) + ")"};
  }
  Entry& entry = entries_[static_cast<size_t>(knob->id)];
  if (layer >= entry.layer) entry = {std::move(value).value(), layer, std::string(where)};
  return Status::Ok();
}

Status Config::SetFromEnvironment(std::span<const std::string> entries) {
  for (const std::string& entry : entries) {
    const std::string_view variable = NameOf(entry);
    if (!variable.starts_with(kPrefix) || variable == kConfVariable) continue;
    if (IsServiceLink(variable, ValueOf(entry))) continue;
    if (variable.starts_with(kTestPrefix)) {
      if (kTestHooks) continue;
      return {Code::kConfig, std::string(variable),
              std::string(variable) +
                  " is set, but this build has no test hooks (FTAR_TEST_HOOKS=OFF)"};
    }
    std::string name(variable.substr(kPrefix.size()));
    std::transform(name.begin(), name.end(), name.begin(), Lower);
    if (FindKnob(name) == nullptr) return UnknownName(variable, name, true, "");
    FTAR_RETURN_IF_ERROR(Set(Layer::kEnvironment, name, ValueOf(entry), variable));
  }
  return Status::Ok();
}

Status Config::SetFromFile(std::string_view file_name, std::string_view text) {
  for (int number = 1; !text.empty(); ++number) {
    const size_t end = text.find('\n');
    const std::string_view line = Trim(text.substr(0, end));
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    if (line.empty() || line[0] == '#') continue;
    const std::string where = std::string(file_name) + ":" + std::to_string(number);
    if (line.find('=') == std::string_view::npos) {
      return {Code::kConfig, where, where + ": expected 'name = value'"};
    }
    FTAR_RETURN_IF_ERROR(Set(Layer::kFile, Trim(NameOf(line)), Trim(ValueOf(line)), where));
  }
  return Status::Ok();
}

int64_t Config::duration_ns(KnobId id) const {
  assert(KnobOf(id).type == KnobType::kDuration);
  const KnobValue& value = Get(id).value;
  if (value.word && value.text == "off") return kNever;
  if (value.word && id == KnobId::kHeartbeat)
    return std::max<int64_t>(duration_ns(KnobId::kTimeout) / 10, 1);
  return value.number;
}

int64_t Config::bytes(KnobId id) const {
  assert(KnobOf(id).type == KnobType::kBytes);
  return Get(id).value.number;
}

bool Config::is_word(KnobId id) const { return Get(id).value.word; }

int64_t Config::integer(KnobId id) const {
  assert(KnobOf(id).type == KnobType::kInteger);
  return Get(id).value.word ? -1 : Get(id).value.number;
}

bool Config::on(KnobId id) const {
  assert(KnobOf(id).type == KnobType::kFlag);
  return Get(id).value.number != 0;
}

const std::string& Config::text(KnobId id) const {
  assert(KnobOf(id).type == KnobType::kString || KnobOf(id).type == KnobType::kEnum);
  return Get(id).value.text;
}

Config::Ports Config::ports(KnobId id) const {
  assert(KnobOf(id).type == KnobType::kPortRange);
  const KnobValue& value = Get(id).value;
  return {static_cast<uint16_t>(value.number), static_cast<uint16_t>(value.last_port)};
}

std::string Config::ShownText(KnobId id) const {
  const KnobValue& value = Get(id).value;
  if (KnobOf(id).secret && !value.text.empty()) return "(hidden)";
  if (id == KnobId::kHeartbeat && value.word)
    return FormatDuration(duration_ns(id)) + " (timeout / 10)";
  return value.text;
}

std::string Config::Origin(KnobId id) const {
  const Entry& entry = Get(id);
  std::string out = "default";
  if (entry.layer == Layer::kFile) out = "ftar.conf";
  if (entry.layer == Layer::kEnvironment) out = "environment";
  if (entry.layer == Layer::kProgram) out = "program";
  if (!entry.where.empty()) out += " " + entry.where;
  return out;
}

std::vector<std::string> Config::AgreedList() const {
  std::vector<std::string> out;
  for (const Knob& knob : Knobs()) {
    if (knob.agreed) out.push_back(std::string(knob.name) + "=" + Get(knob.id).value.text);
  }
  std::sort(out.begin(), out.end());
  return out;
}

// From a quarter of `timeout` on a member without a word counts as out of reach where others are in
// trouble (membership/coordinator_evidence.cc); behind all of it as silent, though it only
// computes.
Status CheckTogether(const Config& config) {
  constexpr int64_t kParts = 4;
  const int64_t most = config.duration_ns(KnobId::kTimeout) / kParts;
  if (config.is_word(KnobId::kHeartbeat) || config.duration_ns(KnobId::kHeartbeat) <= most)
    return Status::Ok();
  const auto shown = [&config](KnobId id) {
    return config.ShownText(id) + " (" + config.Origin(id) + ")";
  };
  return {Code::kConfig, "heartbeat",
          "heartbeat is " + shown(KnobId::kHeartbeat) + ", more than a quarter of timeout, " +
              shown(KnobId::kTimeout) + ": a member that computes would be taken for silent; set " +
              "heartbeat to " + FormatDuration(most) + " at most, or to auto"};
}

std::string AgreementDifference(std::span<const std::string> here,
                                std::span<const std::string> there) {
  const auto find = [](std::span<const std::string> list, std::string_view name) -> std::string {
    for (const std::string& entry : list) {
      if (NameOf(entry) == name) return std::string(ValueOf(entry).substr(0, 64));
    }
    return "unknown";
  };
  for (const auto& list : {here, there}) {
    for (const std::string& entry : list) {
      const std::string_view name = NameOf(entry);
      const std::string ours = find(here, name), theirs = find(there, name);
      if (ours != theirs)
        return std::string(name.substr(0, 64)) + ": " + ours + " here, " + theirs + " there";
    }
  }
  return {};
}

}  // namespace ftar
