/* What a rival's collective of floats costs, measured as ftar-perf --fresh measures libftar's: in
 * every iteration each rank writes its inputs, all meet, the operations run on the clock, and each
 * rank reads its outputs. The time of an iteration is that from the first rank's begin to the last
 * rank's end. perf/compare compiles this with each mpicc and runs it.
 *
 *   rival COLLECTIVE INFLIGHT SECONDS BYTES:ITERATIONS:BATCH...
 *
 * INFLIGHT 1: the operations of a batch are all started before the first is waited for. SECONDS
 * bounds each size. Rank 0 prints a line of JSON for each size. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum {
  kPage = 4096,
  kPeriod = 8191,
  kIterationsMost = 100000,
  kBatchMost = 1024,
  kRound = 5,
  kFinalizeS = 10
};

typedef enum { kAllReduce, kReduceScatter, kAllGather, kBroadcast, kBarrier } Kind;
static const char* const kKinds[] = {"allreduce", "reduce_scatter", "all_gather", "broadcast",
                                     "barrier"};

struct Row {
  size_t bytes;
  int iterations, batch;
};

static Kind kind;
static int my_rank, ranks;
static size_t send_count, recv_count; /* elements of the size in progress */
static float tile[kPeriod];
static volatile uint64_t sink;

static int64_t NowNs(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void Die(const char* what) {
  fprintf(stderr, "rival: %s\n", what);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

/* The same room between buffers as ftar-perf leaves. */
static size_t StrideOf(size_t bytes) { return (bytes + 8 + kPage - 1) / kPage * kPage + 128; }

/* Small whole numbers: their sums are exact in any order. */
static float ValueOf(int rank, size_t i) {
  return (float)((i % kPeriod * 7 + (size_t)rank * 13) % 251);
}

static void Fill(float* send) {
  for (size_t i = 0; i < send_count; i += kPeriod) {
    const size_t n = send_count - i < kPeriod ? send_count - i : kPeriod;
    memcpy(send + i, tile, n * sizeof(float));
  }
}

static void ReadAll(const float* recv) {
  uint64_t all = 0;
  const uint32_t* words = (const uint32_t*)recv;
  for (size_t i = 0; i < recv_count; ++i) all ^= words[i];
  sink = all;
}

static float Expected(size_t i) {
  if (kind == kBroadcast) return ValueOf(0, i);
  if (kind == kAllGather) return ValueOf((int)(i / send_count), i % send_count);
  const size_t at = kind == kReduceScatter ? (size_t)my_rank * recv_count + i : i;
  float sum = 0;
  for (int r = 0; r < ranks; ++r) sum += ValueOf(r, at);
  return sum;
}

static long CountWrong(const float* recv) {
  long wrong = 0;
  for (size_t i = 0; i < recv_count; ++i) wrong += recv[i] != Expected(i);
  return wrong;
}

static void SetCounts(size_t bytes) {
  const size_t count = bytes / sizeof(float), part = count / (size_t)ranks;
  send_count = kind == kAllGather ? part : kind == kBarrier ? 0 : count;
  recv_count = kind == kReduceScatter ? part : kind == kBarrier ? 0 : count;
  if (kind == kReduceScatter) send_count = part * (size_t)ranks;
  if (kind == kAllGather) recv_count = part * (size_t)ranks;
}

static void Start(float* send, float* recv, MPI_Request* request) {
  const MPI_Comm world = MPI_COMM_WORLD;
  const int from = (int)send_count, to = (int)recv_count;
  switch (kind) {
    case kAllReduce: MPI_Iallreduce(send, recv, to, MPI_FLOAT, MPI_SUM, world, request); break;
    case kReduceScatter:
      MPI_Ireduce_scatter_block(send, recv, to, MPI_FLOAT, MPI_SUM, world, request);
      break;
    case kAllGather:
      MPI_Iallgather(send, from, MPI_FLOAT, recv, from, MPI_FLOAT, world, request);
      break;
    case kBroadcast:
      MPI_Ibcast(my_rank == 0 ? send : recv, to, MPI_FLOAT, 0, world, request);
      break;
    case kBarrier: MPI_Ibarrier(world, request); break;
  }
}

static void Call(float* send, float* recv) {
  const MPI_Comm world = MPI_COMM_WORLD;
  const int from = (int)send_count, to = (int)recv_count;
  switch (kind) {
    case kAllReduce: MPI_Allreduce(send, recv, to, MPI_FLOAT, MPI_SUM, world); break;
    case kReduceScatter: MPI_Reduce_scatter_block(send, recv, to, MPI_FLOAT, MPI_SUM, world); break;
    case kAllGather: MPI_Allgather(send, from, MPI_FLOAT, recv, from, MPI_FLOAT, world); break;
    case kBroadcast: MPI_Bcast(my_rank == 0 ? send : recv, to, MPI_FLOAT, 0, world); break;
    case kBarrier: MPI_Barrier(world); break;
  }
}

static float* SendOf(char* memory, size_t stride, int i) {
  return (float*)(memory + 2 * stride * (size_t)i);
}

/* The root of a broadcast, which works in place, has its result where its input is. */
static float* RecvOf(char* memory, size_t stride, int i) {
  return (float*)(memory + 2 * stride * (size_t)i +
                  (kind == kBroadcast && my_rank == 0 ? 0 : stride));
}

static void Run(char* memory, size_t stride, int batch, int inflight) {
  MPI_Request requests[kBatchMost];
  MPI_Status statuses[kBatchMost];
  for (int i = 0; i < batch; ++i) {
    float* send = SendOf(memory, stride, i);
    float* recv = RecvOf(memory, stride, i);
    if (inflight) {
      Start(send, recv, &requests[i]);
    } else {
      Call(send, recv);
    }
  }
  if (inflight) MPI_Waitall(batch, requests, statuses);
}

/* Runs up to `iterations` and answers how many; every few, all learn from rank 0 whether there is
 * time for more. */
static int Sample(const struct Row* row, char* memory, int inflight, double seconds,
                  int64_t* begins, int64_t* ends) {
  const size_t stride = StrideOf(row->bytes);
  const int64_t stop_ns = NowNs() + (int64_t)(seconds * 1e9);
  int done = 0;
  for (; done < row->iterations; ++done) {
    if (done > 0 && done % kRound == 0) {
      int more = NowNs() < stop_ns;
      MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
      if (!more) break;
    }
    for (int i = 0; i < row->batch; ++i) Fill(SendOf(memory, stride, i));
    MPI_Barrier(MPI_COMM_WORLD);
    begins[done] = NowNs();
    Run(memory, stride, row->batch, inflight);
    ends[done] = NowNs();
    for (int i = 0; i < row->batch; ++i) ReadAll(RecvOf(memory, stride, i));
  }
  return done;
}

static void Report(const struct Row* row, int done, int64_t* begins, int64_t* ends, long wrong) {
  MPI_Allreduce(MPI_IN_PLACE, begins, done, MPI_INT64_T, MPI_MIN, MPI_COMM_WORLD);
  MPI_Allreduce(MPI_IN_PLACE, ends, done, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD);
  MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
  if (my_rank != 0) return;
  printf("{\"size\": %zu, \"batch\": %d, \"nwrong\": %ld, \"times_us\": [", row->bytes, row->batch,
         wrong);
  for (int i = 0; i < done; ++i)
    printf("%s%.3f", i > 0 ? ", " : "", (double)(ends[i] - begins[i]) / 1000 / row->batch);
  printf("]}\n");
  fflush(stdout);
}

static void Measure(const struct Row* row, int inflight, double seconds) {
  static int64_t begins[kIterationsMost], ends[kIterationsMost];
  const size_t stride = StrideOf(row->bytes), total = 2 * stride * (size_t)row->batch;
  char* memory = mmap(NULL, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) Die("no memory");
  memset(memory, 0, total);
  SetCounts(row->bytes);
  struct Row warm = *row;
  warm.iterations = 2;
  Sample(&warm, memory, inflight, seconds, begins, ends);
  const int done = Sample(row, memory, inflight, seconds, begins, ends);
  long wrong = 0;
  for (int i = 0; i < row->batch; ++i) wrong += CountWrong(RecvOf(memory, stride, i));
  Report(row, done, begins, ends, wrong);
  munmap(memory, total);
}

static void ReadKind(const char* name) {
  for (int i = 0; i <= kBarrier; ++i) {
    if (strcmp(name, kKinds[i]) != 0) continue;
    kind = (Kind)i;
    return;
  }
  Die("there is no such collective");
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &my_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (argc < 5) Die("usage: rival COLLECTIVE INFLIGHT SECONDS BYTES:ITERATIONS:BATCH...");
  ReadKind(argv[1]);
  for (size_t i = 0; i < kPeriod; ++i) tile[i] = ValueOf(my_rank, i);
  for (int i = 4; i < argc; ++i) {
    struct Row row;
    if (sscanf(argv[i], "%zu:%d:%d", &row.bytes, &row.iterations, &row.batch) != 3 ||
        row.iterations < 1 || row.iterations > kIterationsMost || row.batch < 1 ||
        row.batch > kBatchMost) {
      Die("a size is BYTES:ITERATIONS:BATCH");
    }
    Measure(&row, atoi(argv[2]), atof(argv[3]));
  }
  alarm(kFinalizeS); /* MPICH over TCP has been seen to hang there; the results are out */
  MPI_Finalize();
  return 0;
}
