// Inside of the codec, not for other rooms: the two halves of codec.cc, which meet at the
// FlatBuffers envelope. Pure; any thread.
#ifndef FTAR_WIRE_PACK_H_
#define FTAR_WIRE_PACK_H_

#include <cstddef>

#include "base/status.h"
#include "wire/messages.h"
#include "wire/messages_generated.h"

// Every message once, in the order of the variant Message and of union Body; both orders are
// checked where it is used.
#define FTAR_WIRE_MESSAGES(X)                                                                      \
  X(Hello)                                                                                         \
  X(LinksUp)                                                                                       \
  X(Refuse)                                                                                        \
  X(Decided) X(Installed) X(Reserved) X(Confirmed) X(Announced) X(Heartbeat) X(Evidence)           \
      X(AskPrepare) X(LeaveRequest) X(Goodbye) X(Welcome) X(Rejected) X(Connect) X(Prepare)        \
          X(Install) X(Propose) X(Confirm) X(Announce) X(VoidPlan) X(Evicted) X(CoordinatorBeat)   \
              X(LateNotice) X(NoQuorum) X(ColumnStatus) X(ColumnVerdicts) X(AskVerdicts) X(Credit) \
                  X(StepMark) X(Want) X(CallNotice) X(Release) X(LeaveReady) X(Roster) X(Behind)   \
                      X(Redirect)

namespace ftar::wire {

// Writes `message` into `builder` and finishes the buffer.
void PackEnvelope(flatbuffers::FlatBufferBuilder& builder, const Message& message);

// Reads a verified envelope. A few bytes can name the same vector many times, so what is decoded
// may take at most `bytes_max` of memory; more than that, or an unknown enumerator, is an error.
Expected<Message> UnpackEnvelope(const fb::Envelope& envelope, size_t bytes_max);

}  // namespace ftar::wire

#endif  // FTAR_WIRE_PACK_H_
