#include "perf/records.h"

#include <nlohmann/json.hpp>

namespace ftar::perf {
namespace {

using nlohmann::json;

json ToJson(const HelloRecord& r) {
  return {{"t", "hello"},     {"pid", r.pid},         {"host", r.host},
          {"rank", r.rank},   {"members", r.members}, {"first_seq", r.first_seq},
          {"epoch", r.epoch}, {"ns", r.time_ns}};
}

json ToJson(const OpRecord& r) {
  return {{"t", "op"},
          {"seq", r.seq},
          {"epoch", r.epoch},
          {"status", r.status},
          {"parts", r.participants},
          {"who", r.who},
          {"digest", r.digest},
          {"wrong", r.wrong},
          {"attempts", r.attempts},
          {"resent", r.bytes_resent},
          {"start", r.start_ns},
          {"ns", r.delivered_ns}};
}

json ToJson(const EventRecord& r) {
  return {{"t", "event"},    {"type", r.type},       {"cause", r.cause}, {"epoch", r.epoch},
          {"ns", r.time_ns}, {"replica", r.replica}, {"text", r.text}};
}

json ToJson(const RowRecord& r) {
  return {{"t", "row"},
          {"row", r.row},
          {"in_place", r.in_place},
          {"ns", r.time_ns},
          {"wrong", r.wrong},
          {"members", r.members},
          {"times", r.times_ns},
          {"ideal", r.ideal_ns},
          {"ideal_wrong", r.ideal_wrong},
          {"block_us", r.block_us},
          {"moved", r.moved},
          {"ideal_moved", r.ideal_moved},
          {"matmul", r.matmul_ns},
          {"matmul_beside", r.matmul_beside_ns},
          {"beside", r.beside_ns},
          {"bulk_rate", r.bulk_rate}};
}

json ToJson(const CountersRecord& r) {
  return {{"t", "counters"}, {"epoch", r.epoch}, {"ns", r.time_ns}, {"values", r.values}};
}

json ToJson(const EndRecord& r) {
  return {{"t", "end"}, {"status", r.status}, {"delivered", r.delivered}, {"text", r.text}};
}

void FromJson(const json& j, HelloRecord* r) {
  j.at("pid").get_to(r->pid);
  j.at("host").get_to(r->host);
  j.at("rank").get_to(r->rank);
  j.at("members").get_to(r->members);
  j.at("first_seq").get_to(r->first_seq);
  j.at("epoch").get_to(r->epoch);
  j.at("ns").get_to(r->time_ns);
}

void FromJson(const json& j, OpRecord* r) {
  j.at("seq").get_to(r->seq);
  j.at("epoch").get_to(r->epoch);
  j.at("status").get_to(r->status);
  j.at("parts").get_to(r->participants);
  j.at("who").get_to(r->who);
  j.at("digest").get_to(r->digest);
  j.at("wrong").get_to(r->wrong);
  j.at("attempts").get_to(r->attempts);
  j.at("resent").get_to(r->bytes_resent);
  j.at("start").get_to(r->start_ns);
  j.at("ns").get_to(r->delivered_ns);
}

void FromJson(const json& j, EventRecord* r) {
  j.at("type").get_to(r->type);
  j.at("cause").get_to(r->cause);
  j.at("epoch").get_to(r->epoch);
  j.at("ns").get_to(r->time_ns);
  j.at("replica").get_to(r->replica);
  j.at("text").get_to(r->text);
}

void FromJson(const json& j, RowRecord* r) {
  j.at("row").get_to(r->row);
  j.at("in_place").get_to(r->in_place);
  j.at("ns").get_to(r->time_ns);
  j.at("wrong").get_to(r->wrong);
  j.at("members").get_to(r->members);
  j.at("times").get_to(r->times_ns);
  j.at("ideal").get_to(r->ideal_ns);
  j.at("ideal_wrong").get_to(r->ideal_wrong);
  j.at("block_us").get_to(r->block_us);
  j.at("moved").get_to(r->moved);
  j.at("ideal_moved").get_to(r->ideal_moved);
  j.at("matmul").get_to(r->matmul_ns);
  j.at("matmul_beside").get_to(r->matmul_beside_ns);
  j.at("beside").get_to(r->beside_ns);
  j.at("bulk_rate").get_to(r->bulk_rate);
}

void FromJson(const json& j, CountersRecord* r) {
  j.at("epoch").get_to(r->epoch);
  j.at("ns").get_to(r->time_ns);
  j.at("values").get_to(r->values);
}

void FromJson(const json& j, EndRecord* r) {
  j.at("status").get_to(r->status);
  j.at("delivered").get_to(r->delivered);
  j.at("text").get_to(r->text);
}

template <typename T>
Record Read(const json& j) {
  T record;
  FromJson(j, &record);
  return record;
}

std::optional<Record> ReadAny(const json& j) {
  const auto type = j.at("t").get<std::string>();
  if (type == "hello") return Read<HelloRecord>(j);
  if (type == "op") return Read<OpRecord>(j);
  if (type == "event") return Read<EventRecord>(j);
  if (type == "row") return Read<RowRecord>(j);
  if (type == "counters") return Read<CountersRecord>(j);
  if (type == "end") return Read<EndRecord>(j);
  return std::nullopt;
}

}  // namespace

std::string Encode(const Record& record) {
  const json j = std::visit([](const auto& r) { return ToJson(r); }, record);
  // A host name or a message in another encoding must not stop the run.
  return j.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::optional<Record> Decode(std::string_view line) {
  // The parser's exceptions end here: a torn line of a killed rank is not an error of the run.
  try {
    return ReadAny(json::parse(line));
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

}  // namespace ftar::perf
