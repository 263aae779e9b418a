// Goal: every launcher's variables give the place they mean, the configuration wins over them, and
// what is wrong is named.
#include "runtime/rendezvous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ftar::runtime {
namespace {

using testing::HasSubstr;
using Environment = std::vector<std::string>;

constexpr int64_t kParent = 4711;

// As a job does it: the FTAR_* variables of the environment are the configuration.
Expected<Place> Find(const Environment& environment, bool have_token = false,
                     int64_t parent = kParent) {
  Config config;
  FTAR_RETURN_IF_ERROR(config.SetFromEnvironment(environment));
  return FindPlace(config, environment, have_token, parent);
}

Place Found(const Environment& environment, bool have_token = false, int64_t parent = kParent) {
  Expected<Place> place = Find(environment, have_token, parent);
  EXPECT_TRUE(place.ok()) << place.status().ToString();
  return place.ok() ? *place : Place{};
}

Environment operator+(Environment all, const Environment& more) {
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

Environment Torchrun(int rank, int world, int local_world) {
  return {"RANK=" + std::to_string(rank),
          "WORLD_SIZE=" + std::to_string(world),
          "LOCAL_WORLD_SIZE=" + std::to_string(local_world),
          "MASTER_ADDR=node0",
          "MASTER_PORT=29500",
          "TORCHELASTIC_RUN_ID=run7"};
}

Environment OpenMpi(int rank, int world, int local_world) {
  return {"OMPI_COMM_WORLD_RANK=" + std::to_string(rank),
          "OMPI_COMM_WORLD_SIZE=" + std::to_string(world),
          "OMPI_COMM_WORLD_LOCAL_SIZE=" + std::to_string(local_world)};
}

Environment Mpich(int rank, int world, int local_world) {
  return {"PMI_RANK=" + std::to_string(rank), "PMI_SIZE=" + std::to_string(world),
          "MPI_LOCALNRANKS=" + std::to_string(local_world)};
}

Environment Slurm(int rank, int tasks, int nodes) {
  return {"SLURM_PROCID=" + std::to_string(rank),
          "SLURM_NTASKS=" + std::to_string(tasks),
          "SLURM_JOB_ID=77",
          "SLURM_STEP_ID=3",
          "SLURM_STEP_NODELIST=n[03-07,9],m1",
          "SLURM_STEP_NUM_NODES=" + std::to_string(nodes)};
}

TEST(FindPlace, AloneWithoutAnything) {
  const Place place = Found({"HOME=/root", "RANK=1"});  // half of a launcher's variables is none
  EXPECT_TRUE(place.solo());
  EXPECT_EQ(place.replica, 0);
  EXPECT_EQ(place.replicas, 1);
  EXPECT_EQ(place.shards, 1);
  EXPECT_EQ(place.min_replicas, 1);
  EXPECT_EQ(place.job, "default");
  EXPECT_EQ(place.launcher, "configuration");
  EXPECT_FALSE(place.starts_coordinator);
}

TEST(FindPlace, Torchrun) {
  const Place place = Found(Torchrun(3, 8, 4));
  EXPECT_EQ(place.launcher, "torchrun");
  EXPECT_EQ(place.replica, 3);
  EXPECT_EQ(place.replicas, 8);
  EXPECT_EQ(place.job, "run7");
  EXPECT_EQ(place.meeting.front().host, "node0");
  EXPECT_EQ(place.meeting.front().port, 29501) << "torchrun's own store holds 29500";
  EXPECT_FALSE(place.starts_coordinator);
  EXPECT_TRUE(Found(Torchrun(0, 8, 4)).starts_coordinator);
}

TEST(FindPlace, OneHostWithoutATokenMeetsOnLoopback) {
  EXPECT_EQ(Found(Torchrun(1, 4, 4)).meeting.front().host, "127.0.0.1");
  EXPECT_EQ(Found(Torchrun(1, 4, 4), true).meeting.front().host, "node0");
  EXPECT_EQ(Found(Slurm(1, 4, 1)).meeting.front().host, "127.0.0.1");
  EXPECT_EQ(Found(Slurm(1, 4, 1), true).meeting.front().host, "n03");
}

TEST(FindPlace, RanksFillReplicasShardByShard) {
  const Place place = Found(Torchrun(5, 8, 4) + Environment{"FTAR_SHARDS=2"});
  EXPECT_EQ(place.replica, 2);
  EXPECT_EQ(place.shard, 1);
  EXPECT_EQ(place.replicas, 4);
  EXPECT_EQ(place.shards, 2);
}

TEST(FindPlace, OpenMpiAndMpichOnOneHost) {
  for (const auto launcher : {OpenMpi, Mpich}) {
    const Place first = Found(launcher(0, 4, 4)), second = Found(launcher(1, 4, 4));
    EXPECT_EQ(second.replica, 1);
    EXPECT_EQ(second.replicas, 4);
    EXPECT_EQ(second.meeting.front().host, "127.0.0.1");
    EXPECT_EQ(first.meeting.front().port, second.meeting.front().port) << "all derive the same one";
    EXPECT_GE(first.meeting.front().port, 20000);
    EXPECT_LT(first.meeting.front().port, 32000) << "below the ports of outgoing connections";
    EXPECT_TRUE(first.starts_coordinator);
    EXPECT_FALSE(second.starts_coordinator);
    const Place other = Found(launcher(0, 4, 4), false, kParent + 1);
    EXPECT_NE(other.meeting.front().port, first.meeting.front().port)
        << "another mpirun, another job";
  }
  EXPECT_EQ(Found(OpenMpi(0, 2, 2)).launcher, "Open MPI");
  EXPECT_EQ(Found(Mpich(0, 2, 2)).launcher, "MPICH");
}

TEST(FindPlace, TheLaunchersNameOfTheJobDerivesThePort) {
  const Place one = Found(OpenMpi(0, 4, 4) + Environment{"PMIX_NAMESPACE=one"}, false, 1);
  const Place same = Found(OpenMpi(1, 4, 4) + Environment{"PMIX_NAMESPACE=one"}, false, 2);
  const Place two = Found(OpenMpi(0, 4, 4) + Environment{"PMIX_NAMESPACE=two"}, false, 1);
  EXPECT_EQ(one.meeting.front().port, same.meeting.front().port);
  EXPECT_NE(one.meeting.front().port, two.meeting.front().port);
  EXPECT_EQ(one.job, "one");
}

TEST(FindPlace, OpenMpiAndMpichOverHostsNeedAMaster) {
  for (const auto launcher : {OpenMpi, Mpich}) {
    const Expected<Place> place = Find(launcher(1, 4, 2));
    ASSERT_FALSE(place.ok());
    EXPECT_EQ(place.status().code(), Code::kConfig);
    EXPECT_EQ(place.status().argument(), "coordinator");
    EXPECT_THAT(place.status().text(), HasSubstr("MASTER_ADDR"));
    const Place with =
        Found(launcher(1, 4, 2) + Environment{"MASTER_ADDR=head", "MASTER_PORT=5000"});
    EXPECT_EQ(with.meeting.front().host, "head");
    EXPECT_EQ(with.meeting.front().port, 5001);
  }
}

TEST(FindPlace, Slurm) {
  const Place place = Found(Slurm(2, 6, 6)), first = Found(Slurm(0, 6, 6));
  EXPECT_EQ(place.launcher, "Slurm");
  EXPECT_EQ(place.replica, 2);
  EXPECT_EQ(place.replicas, 6);
  EXPECT_EQ(place.job, "77.3");
  EXPECT_EQ(place.meeting.front().host, "n03");
  EXPECT_EQ(place.meeting.front().port, first.meeting.front().port);
  EXPECT_TRUE(first.starts_coordinator);
  Environment step = Slurm(0, 6, 6);
  step[3] = "SLURM_STEP_ID=4";
  EXPECT_NE(Found(step).meeting.front().port, first.meeting.front().port) << "two steps of one job";
}

// What srun's own PMI plugin says beside it is no mpiexec's.
TEST(FindPlace, SlurmWithItsPmi) {
  const Environment pmi{"PMI_RANK=2", "PMI_SIZE=6", "PMI_JOBID=77.3"};
  EXPECT_EQ(Found(Slurm(2, 6, 6) + pmi).launcher, "Slurm");
  const Environment mpiexec{"PMI_RANK=1", "PMI_SIZE=4", "MPI_LOCALNRANKS=4"};
  EXPECT_EQ(Found(Slurm(0, 1, 1) + mpiexec).launcher, "MPICH");
}

TEST(FindPlace, TheConfigurationWinsOverTheLauncher) {
  const Place named = Found(Torchrun(0, 8, 4) + Environment{"FTAR_COORDINATOR=10.1.2.3:900"});
  EXPECT_EQ(named.meeting.front().host, "10.1.2.3");
  EXPECT_EQ(named.meeting.front().port, 900);
  EXPECT_FALSE(named.starts_coordinator) << "somebody else serves at a named address";
  const Place placed =
      Found(Torchrun(3, 8, 4) + Environment{"FTAR_REPLICA=6", "FTAR_REPLICAS=7",
                                            "FTAR_MIN_REPLICAS=2", "FTAR_JOB=mine"});
  EXPECT_EQ(placed.replica, 6);
  EXPECT_EQ(placed.replicas, 7);
  EXPECT_EQ(placed.min_replicas, 2);
  EXPECT_EQ(placed.job, "mine");
}

TEST(FindPlace, WhereMembersCoordinateTheFirstHaveTheirAddresses) {
  const Environment hosted = {"FTAR_COORDINATOR_KIND=hosted"};
  const Place first = Found(Torchrun(0, 8, 4) + hosted);
  EXPECT_FALSE(first.starts_coordinator) << "it is one";
  EXPECT_EQ(first.number(), 0u);
  EXPECT_EQ(first.meeting.size(), 1u);
  const Place third = Found(Torchrun(5, 8, 4) + hosted +
                            Environment{"FTAR_SHARDS=2", "FTAR_COORDINATOR=a:1,[::1]:2,c:3"});
  EXPECT_EQ(third.number(), 5u) << "shard 1 of replica 2";
  ASSERT_EQ(third.meeting.size(), 3u);
  EXPECT_EQ(third.meeting[1].host, "::1");
  EXPECT_EQ(third.meeting[2].port, 3);
}

TEST(FindPlace, TheInnermostLauncherCounts) {
  // torchrun and mpirun are started by srun, once a node.
  EXPECT_EQ(Found(Slurm(1, 2, 2) + Torchrun(3, 8, 4)).launcher, "torchrun");
  EXPECT_EQ(Found(Slurm(1, 2, 2) + OpenMpi(3, 8, 8)).launcher, "Open MPI");
}

// Scripts that srun starts set them for what they start themselves.
TEST(FindPlace, HalfOfTorchrunsVariablesDoesNotHideAnotherLauncher) {
  const Environment half{"WORLD_SIZE=2", "MASTER_ADDR=head", "MASTER_PORT=5000"};
  const Place place = Found(Slurm(1, 2, 2) + half);
  EXPECT_EQ(place.launcher, "Slurm");
  EXPECT_EQ(place.meeting.front().host, "head");
  EXPECT_EQ(
      Found(half + Environment{"FTAR_REPLICA=1", "FTAR_REPLICAS=2", "FTAR_COORDINATOR=127.0.0.1:1"})
          .replica,
      1);
  EXPECT_TRUE(Found({"WORLD_SIZE=1", "MASTER_ADDR=head"}).solo());
}

struct Bad {
  const char* why;
  Environment environment;
  const char* argument;
};

TEST(FindPlace, WhatIsWrongIsNamed) {
  const Bad cases[] = {
      {"no number", {"RANK=one", "WORLD_SIZE=2"}, "RANK"},
      {"trailing text", {"RANK=1", "WORLD_SIZE=2x"}, "WORLD_SIZE"},
      {"negative", {"OMPI_COMM_WORLD_RANK=-1", "OMPI_COMM_WORLD_SIZE=2"}, "OMPI_COMM_WORLD_RANK"},
      {"rank beyond the world", {"PMI_RANK=2", "PMI_SIZE=2"}, "PMI_RANK"},
      {"no rank", {"WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=5000"}, "RANK"},
      {"no world", {"RANK=1", "MASTER_ADDR=127.0.0.1"}, "WORLD_SIZE"},
      {"no rank, but a coordinator",
       {"WORLD_SIZE=2", "MASTER_ADDR=a", "FTAR_COORDINATOR=127.0.0.1:1"},
       "RANK"},
      {"too many processes", {"RANK=0", "WORLD_SIZE=5000000000"}, "replicas"},
      {"local size", {"RANK=0", "WORLD_SIZE=2", "LOCAL_WORLD_SIZE=all"}, "LOCAL_WORLD_SIZE"},
      {"nodes",
       {"SLURM_PROCID=0", "SLURM_NTASKS=2", "SLURM_STEP_NUM_NODES=?"},
       "SLURM_STEP_NUM_NODES"},
      {"port", {"RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=a", "MASTER_PORT=65535"}, "MASTER_PORT"},
      {"shards do not divide", Torchrun(0, 8, 8) + Environment{"FTAR_SHARDS=3"}, "shards"},
      {"shard beyond shards",
       {"FTAR_SHARD=2", "FTAR_SHARDS=2", "FTAR_REPLICA=0", "FTAR_COORDINATOR=a:1"},
       "shard"},
      {"which replica", {"FTAR_REPLICAS=2", "FTAR_COORDINATOR=a:1"}, "replica"},
      {"which shard", {"FTAR_SHARDS=2", "FTAR_COORDINATOR=a:1"}, "shard"},
      {"more replicas needed than founded",
       {"FTAR_REPLICAS=2", "FTAR_REPLICA=0", "FTAR_MIN_REPLICAS=3", "FTAR_COORDINATOR=a:1"},
       "min_replicas"},
      {"more replicas needed than one", {"FTAR_MIN_REPLICAS=2"}, "min_replicas"},
      {"where to meet", {"FTAR_REPLICAS=2", "FTAR_REPLICA=0"}, "coordinator"},
      {"no port", {"FTAR_REPLICAS=2", "FTAR_REPLICA=0", "FTAR_COORDINATOR=host"}, "coordinator"},
      {"port 0", {"FTAR_REPLICAS=2", "FTAR_REPLICA=0", "FTAR_COORDINATOR=host:0"}, "coordinator"},
      {"a relay without a port",
       {"FTAR_REPLICAS=2", "FTAR_REPLICA=0", "FTAR_COORDINATOR=a:1,b"},
       "coordinator"},
      {"a hole",
       {"FTAR_REPLICAS=2", "FTAR_REPLICA=0", "FTAR_COORDINATOR_KIND=hosted",
        "FTAR_COORDINATOR=a:1,,b:2"},
       "coordinator"},
  };
  for (const Bad& bad : cases) {
    const Expected<Place> place = Find(bad.environment);
    ASSERT_FALSE(place.ok()) << bad.why;
    EXPECT_EQ(place.status().code(), Code::kConfig) << bad.why;
    EXPECT_EQ(place.status().argument(), bad.argument) << bad.why;
    EXPECT_NE(place.status().text(), "") << bad.why;
  }
}

TEST(FindPlace, RelaysAreTriedInTheirOrder) {
  const auto place = Find({"FTAR_REPLICAS=2", "FTAR_REPLICA=0", "FTAR_COORDINATOR=a:1,[::1]:2"});
  ASSERT_TRUE(place.ok());
  EXPECT_EQ(place->meeting, (std::vector<HostPort>{{"a", 1}, {"::1", 2}}));
}

TEST(ParseHostPort, TakesNamesAndAddresses) {
  const struct {
    const char *text, *host;
    int port;
  } good[] = {{"node0:4711", "node0", 4711},
              {"10.0.0.1:0", "10.0.0.1", 0},
              {"[::1]:65535", "::1", 65535},
              {"[fe80::1%eth0]:1", "fe80::1%eth0", 1}};
  for (const auto& [text, host, port] : good) {
    const Expected<HostPort> parsed = ParseHostPort(text, "listen");
    ASSERT_TRUE(parsed.ok()) << text;
    EXPECT_EQ(parsed->host, host);
    EXPECT_EQ(parsed->port, port);
  }
  for (const char* text :
       {"", "host", ":80", "host:", "host:80x", "host:-1", "host:65536", "::1:80", "[]:80"}) {
    const Expected<HostPort> parsed = ParseHostPort(text, "listen");
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.status().argument(), "listen");
    EXPECT_THAT(parsed.status().text(), HasSubstr("'" + std::string(text) + "'"));
  }
}

TEST(FirstSlurmHost, ReadsListsAndRanges) {
  EXPECT_EQ(FirstSlurmHost("n[03-07,9],m1"), "n03");
  EXPECT_EQ(FirstSlurmHost("gpu[12]"), "gpu12");
  EXPECT_EQ(FirstSlurmHost("a,b[1-2]"), "a");
  EXPECT_EQ(FirstSlurmHost("alone"), "alone");
  EXPECT_EQ(FirstSlurmHost(""), "");
}

TEST(IsLoopbackText, TellsWithoutResolving) {
  for (const char* host : {"localhost", "::1", "127.0.0.1", "127.9.9.9"})
    EXPECT_TRUE(IsLoopbackText(host)) << host;
  for (const char* host : {"", "128.0.0.1", "node127", "127.example.com", "::2", "0.0.0.0"})
    EXPECT_FALSE(IsLoopbackText(host)) << host;
}

}  // namespace
}  // namespace ftar::runtime
