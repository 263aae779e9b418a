// Where this process belongs and where its coordinator is: from the configuration, else from the
// variables of torchrun, Open MPI, MPICH or Slurm. A function of its arguments, so that every
// launcher is tested without being there. Any thread.
//
// A launcher gives a rank and a world size; with S shards a replica, rank r is shard r % S of
// replica r / S. An address that the configuration names is used as it is, and somebody else serves
// there. Otherwise it is derived so that all processes derive the same one, and rank 0 starts the
// coordinator:
//   torchrun        MASTER_ADDR and the port after MASTER_PORT (which torchrun's own store holds)
//   Slurm           the step's first host and a port from the job's and the step's number
//   Open MPI, MPICH 127.0.0.1 and a port from the launcher's job, if all ranks are on one host;
//   else MASTER_ADDR or an error
// Half of torchrun's variables beside MASTER_ADDR is an error where no other launcher and no
// configuration says how many replicas there are: it would be a job of one.
// Where any member may coordinate (knob coordinator_kind) no process is started: the one with
// number i listens at the i-th address that the configuration names, the first at the derived one.
// Where all ranks are on one host and there is no token, loopback is used whatever the launcher
// says (design 11).
#ifndef FTAR_RUNTIME_RENDEZVOUS_H_
#define FTAR_RUNTIME_RENDEZVOUS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/status.h"
#include "coordinator/host_port.h"

namespace ftar::runtime {

using coordinator::HostPort;
using coordinator::ParseHostPort;
using coordinator::ShownAddress;

struct Place {
  int32_t replica = 0, shard = 0, replicas = 1, shards = 1, min_replicas = 1;
  std::string job;
  // Where the coordinator is; where any member may be it, where a process that knows nobody looks.
  // Empty: nowhere, this process is alone.
  std::vector<HostPort> meeting;
  bool starts_coordinator = false;
  std::string
      launcher;  // "torchrun", "Open MPI", "MPICH", "Slurm" or "configuration"; for messages
  bool solo() const { return meeting.empty(); }
  // Of this process, as launchers count; its own place among the meeting points, if it has one.
  size_t number() const {
    return static_cast<size_t>(replica) * static_cast<size_t>(shards) + static_cast<size_t>(shard);
  }
};

// `environment` as ReadEnvironment gives it. `parent_pid` stands for the launcher where it gives
// its job no name. Errors are Code::kConfig and name the knob or the variable.
Expected<Place> FindPlace(const Config& config, const std::vector<std::string>& environment,
                          bool have_token, int64_t parent_pid);

// The first host of a Slurm list: "n[03-07,9],m1" is "n03".
std::string FirstSlurmHost(const std::string& list);

// True for localhost, 127.0.0.0/8 and ::1 as text; nothing is resolved.
bool IsLoopbackText(const std::string& host);

}  // namespace ftar::runtime

#endif  // FTAR_RUNTIME_RENDEZVOUS_H_
