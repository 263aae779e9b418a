// What a run looked like and whether it kept its promises: prints the timeline, the participants of
// each step and the checks. One thread; reads the run only.
#ifndef FTAR_EXAMPLES_DEMO_REPORT_H_
#define FTAR_EXAMPLES_DEMO_REPORT_H_

#include "run.h"

namespace demo {

// True if every check holds. A run that was not played to its end is shown, not checked, and the
// answer is false.
bool Report(const Run& run, bool complete);

}  // namespace demo

#endif  // FTAR_EXAMPLES_DEMO_REPORT_H_
