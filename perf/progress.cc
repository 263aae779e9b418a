#include "perf/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

#include "fmt/format.h"
#include "perf/clock.h"

namespace ftar::perf {
namespace {

constexpr int kWidth = 40;
constexpr int64_t kRedrawNs = 200'000'000;

// What is longer than a line could not be taken away again.
std::string Fitting(std::string text, std::FILE* out) {
  winsize size{};
  if (ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && text.size() >= size.ws_col)
    text.resize(size.ws_col - 1U);
  return text;
}

}  // namespace

std::string FormatProgress(uint64_t done, uint64_t total, int64_t elapsed_ns) {
  const double part =
      total == 0 ? 1 : std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
  const int filled = static_cast<int>(part * kWidth);
  std::string text = fmt::format("[{:#<{}}{: <{}}] {:3.0f} %", "", filled, "", kWidth - filled,
                                 std::min(99.0, part * 100) + (part >= 1 ? 1 : 0));
  if (part > 0.02 && part < 1) {
    const double left_s = static_cast<double>(elapsed_ns) / 1e9 * (1 - part) / part;
    text += fmt::format(", about {:.0f} s to go", left_s);
  }
  return text;
}

Progress::Progress(std::FILE* out)
    : out_(isatty(fileno(out)) != 0 ? out : nullptr), started_ns_(NowNs()) {}

void Progress::Show(uint64_t done, uint64_t total) {
  const int64_t now_ns = NowNs();
  if (out_ == nullptr || now_ns - drawn_ns_ < kRedrawNs) return;
  drawn_ns_ = now_ns;
  visible_ = true;
  fmt::print(out_, "\r{}\033[K", Fitting(FormatProgress(done, total, now_ns - started_ns_), out_));
  std::fflush(out_);
}

void Progress::Clear() {
  if (!visible_) return;
  visible_ = false;
  fmt::print(out_, "\r\033[K");
  std::fflush(out_);
}

}  // namespace ftar::perf
