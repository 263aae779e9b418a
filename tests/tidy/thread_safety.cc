// All of runtime's Job in one file, for clang to look at (CMakeLists.txt): it says where something
// is touched without the lock that guards it.
#include "runtime/dump.cc"
#include "runtime/job.cc"
#include "runtime/job_create.cc"
#include "runtime/job_drive.cc"
#include "runtime/job_events.cc"
#include "runtime/job_fast.cc"
#include "runtime/job_membership.cc"
#include "runtime/job_ops.cc"
#include "runtime/job_streams.cc"
#include "runtime/step.cc"
