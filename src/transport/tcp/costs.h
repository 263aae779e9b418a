// What a wire costs, as far as it shows when a link comes up (wire::WireCosts, design 8). Any
// thread; 0 where nothing is known.
#ifndef FTAR_TRANSPORT_TCP_COSTS_H_
#define FTAR_TRANSPORT_TCP_COSTS_H_

#include <cstdint>

#include "transport/tcp/socket.h"

namespace ftar::transport::tcp {

// A byte through the network card that has this address, by the speed that its driver states.
// Virtual ones and loopback state none.
uint32_t BytePs(const SocketAddress& local);
uint32_t BytePsOf(uint64_t megabits_a_second);
// Half of what the kernel has seen a round trip take, and what a message costs at both ends.
uint32_t RoundNs(int fd);
// How many connections fill the card.
int StreamsFor(uint32_t byte_ps);

}  // namespace ftar::transport::tcp

#endif  // FTAR_TRANSPORT_TCP_COSTS_H_
