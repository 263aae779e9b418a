// The progress bar, on a terminal only.
//
// Threads: single-threaded.  Ownership: borrows the stream.
#ifndef FTAR_PERF_PROGRESS_H_
#define FTAR_PERF_PROGRESS_H_

#include <cstdint>
#include <cstdio>
#include <string>

namespace ftar::perf {

// `[#####     ]  50 %, about 3 s to go`; the end is told once there is something to tell it from.
std::string FormatProgress(uint64_t done, uint64_t total, int64_t elapsed_ns);

class Progress {
 public:
  // Says nothing where `out` is no terminal.
  explicit Progress(std::FILE* out);

  // Draws it anew now and then.
  void Show(uint64_t done, uint64_t total);
  // Takes the bar away, before a line is printed and at the end.
  void Clear();

 private:
  std::FILE* out_;  // null: no terminal
  int64_t started_ns_, drawn_ns_ = 0;
  bool visible_ = false;
};

}  // namespace ftar::perf

#endif  // FTAR_PERF_PROGRESS_H_
