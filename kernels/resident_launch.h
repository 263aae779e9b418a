// The resident kernel as launch.cc knows it.
#ifndef FTAR_KERNELS_RESIDENT_LAUNCH_H_
#define FTAR_KERNELS_RESIDENT_LAUNCH_H_

namespace ftar::kernels {

// For cudaLaunchKernel: (ResidentControl*), kMaxThreads threads.
const void* ResidentFunction();

}  // namespace ftar::kernels

#endif  // FTAR_KERNELS_RESIDENT_LAUNCH_H_
