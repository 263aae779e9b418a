// A user's program in C++17, by the C++ header alone.
#include <ftar/ftar.hpp>

#include <cstdio>
#include <utility>
#include <vector>

int main() {
  ftar::JobConfig config;
  config.replica = config.shard = 0;
  config.replicas = config.shards = 1;
  config.name = "consumer";
  config.Set("timeout", "2s");
  ftar::Result<ftar::Job> joined = ftar::Job::Join(std::move(config));
  if (!joined.ok()) {
    std::fprintf(stderr, "join: %s\n", joined.Text().c_str());
    return 1;
  }
  const ftar::Job job = std::move(joined).value();
  const ftar::Group group = job.OpenGroup().value();
  std::vector<double> data = {1.5, -2.5};
  const ftar::Outcome outcome = group.AllReduce(data, FTAR_AVG).Wait();
  if (!outcome.ok() || data[0] != 1.5 || data[1] != -2.5) {
    std::fprintf(stderr, "allreduce: %s\n", outcome.Text().c_str());
    return 1;
  }
  job.Leave().OrThrow();
  std::puts("consumer in C++: ok");
  return 0;
}
