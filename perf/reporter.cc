#include "perf/reporter.h"

#include <errno.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "perf/table.h"

namespace ftar::perf {

PipeReporter::~PipeReporter() { close(fd_); }

void PipeReporter::Send(const Record& record) {
  const std::string line = Encode(record) + "\n";
  const std::lock_guard lock(mutex_);
  size_t done = 0;
  while (done < line.size()) {
    const ssize_t n = write(fd_, line.data() + done, line.size() - done);
    if (n < 0 && errno != EINTR) return;
    if (n > 0) done += static_cast<size_t>(n);
  }
}

DirectReporter::DirectReporter(const Options& options, const Schedule& schedule)
    : table_(std::make_unique<Table>(options, schedule, stdout)) {}

DirectReporter::~DirectReporter() = default;

void DirectReporter::SetPrinting(bool printing) {
  const std::lock_guard lock(mutex_);
  printing_ = printing;
  if (printing && hello_) table_->Header({*hello_});
}

void DirectReporter::Send(const Record& record) {
  const std::lock_guard lock(mutex_);
  if (const auto* hello = std::get_if<HelloRecord>(&record)) hello_ = *hello;
  if (const auto* row = std::get_if<RowRecord>(&record)) {
    wrong_ += row->wrong > 0 ? static_cast<uint64_t>(row->wrong) : 0;
    if (printing_) table_->Add({*row});
  }
  if (const auto* end = std::get_if<EndRecord>(&record)) {
    if (!end->text.empty()) errors_.push_back(end->text);
  }
}

bool DirectReporter::Finish() {
  const std::lock_guard lock(mutex_);
  const bool written = !printing_ || table_->Footer(wrong_, errors_, nlohmann::json::object());
  return written && wrong_ == 0 && errors_.empty() && (!printing_ || table_->bandwidth_ok());
}

}  // namespace ftar::perf
