#include "membership/relay_lines.h"

#include <algorithm>
#include <iterator>

namespace ftar::membership {

void RelayLines::Step(TimeNs now, const RelayLinesEvent& event) {
  now_ = std::max(now, now_);
  std::visit([this](const auto& concrete) { On(concrete); }, event);
}

RelayLinesReady RelayLines::TakeReady() {
  for (const auto& [line, deadline] : deadlines_)
    ready_.next_deadline = std::min(ready_.next_deadline, deadline);
  return std::exchange(ready_, {});
}

void RelayLines::On(const Connected& event) {
  auto at = std::find_if(lines_.begin(), lines_.end(), [&event](const auto& line) {
    return line.second.machine.Takes(event.hello);
  });
  if (at == lines_.end()) at = lines_.insert({++last_, {RelayMachine(config_), false}}).first;
  conns_[event.conn] = at->first;
  StepLine(at->first, event);
}

void RelayLines::On(const Disconnected& event) {
  const auto found = conns_.find(event.conn);
  if (found == conns_.end()) return;
  const LineId line = found->second;
  conns_.erase(found);
  StepLine(line, event);
}

void RelayLines::On(const Received& event) {
  if (const auto found = conns_.find(event.conn); found != conns_.end())
    StepLine(found->second, event);
}

void RelayLines::On(const Timer& event) {
  std::vector<LineId> all;
  for (const auto& [id, line] : lines_) all.push_back(id);
  for (const LineId id : all) StepLine(id, event);
}

void RelayLines::StepLine(LineId id, const RelayEvent& event) {
  const auto found = lines_.find(id);
  if (found == lines_.end()) return;
  Line& line = found->second;
  line.machine.Step(now_, event);
  RelayReady ready = line.machine.TakeReady();
  for (wire::Message& message : ready.up) ready_.up.emplace_back(id, std::move(message));
  std::move(ready.down.begin(), ready.down.end(), std::back_inserter(ready_.down));
  ready_.close.insert(ready_.close.end(), ready.close.begin(), ready.close.end());
  std::move(ready.notes.begin(), ready.notes.end(), std::back_inserter(ready_.notes));
  deadlines_[id] = ready.next_deadline;
  if (line.machine.complete() && !std::exchange(line.open, true))
    ready_.open.push_back({id, line.machine.unit(), line.machine.timeout_ns()});
  if (!line.machine.complete() && std::exchange(line.open, false)) ready_.hang_up.push_back(id);
  if (!line.machine.over()) return;
  deadlines_.erase(id);
  lines_.erase(found);
}

}  // namespace ftar::membership
