// The page of --report, made from perf/report.html when the build is configured.
#ifndef FTAR_PERF_REPORT_PAGE_H_
#define FTAR_PERF_REPORT_PAGE_H_

#include <string_view>

namespace ftar::perf {

// Where its data go stands @DATA@.
extern const std::string_view kReportPage;

}  // namespace ftar::perf

#endif  // FTAR_PERF_REPORT_PAGE_H_
