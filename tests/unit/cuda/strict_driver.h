// CUDA's driver without a GPU, for cuda/: it does nothing, and holds its callers to what the real
// one's documentation says: which calls need a current context, which nobody may make while a graph
// is captured, in which order memory is made, mapped, shared and given back.
//
// Found by Driver::Load, in place of the runtime that looks for the real one. Any thread.
#ifndef FTAR_TESTS_UNIT_CUDA_STRICT_DRIVER_H_
#define FTAR_TESTS_UNIT_CUDA_STRICT_DRIVER_H_

#include <cuda.h>

#include <cstddef>

namespace strict_driver {

// What the machine is like.
struct Machine {
  bool has_descriptors = true;     // of memory, for other processes
  bool refuses_to_export = false;  // though it says that it has them
  bool captures = false;           // another thread captures a graph, in the strictest mode
  bool is_broken = false;          // a sticky error in the primary context
  bool refuses_shared = false;     // to make memory that could be exported
  bool maps_read_only = true;      // older ones map for reading and writing alone
  CUcontext owner = nullptr;       // whose memory is, by its attribute; what is mapped is nobody's
  CUcontext streams_owner;         // whose streams are, default ones apart; the primary one
  bool is_green = false;           // UsersContext is part of the primary one
  Machine();
};
Machine& TheMachine();
CUcontext PrimaryContext();
CUcontext UsersContext();  // made by the program itself, on the same GPU

// Of memory that was made and is not free again, of addresses that are reserved, of descriptors
// that nobody has closed, and of contexts that are current in this thread.
size_t Allocations();
size_t Reservations();
size_t OpenDescriptors();
size_t CurrentContexts();
CUstreamCaptureMode ModeOfThread();
// Whether a call that was not allowed then has broken the capture.
bool CaptureIsBroken();

}  // namespace strict_driver

#endif  // FTAR_TESTS_UNIT_CUDA_STRICT_DRIVER_H_
