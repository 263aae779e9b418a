/* A user's program in C99: a job of one member, an allreduce, and an error that names its argument.
 */
#include <ftar/ftar.h>
#include <stdio.h>
#include <string.h>

static int Fail(const char* what) {
  ftarErrorInfo info = FTAR_ERROR_INFO_INIT;
  ftarGetLastError(&info);
  fprintf(stderr, "%s: %s (%s)\n", what, ftarResultString(info.code), info.text);
  return 1;
}

int main(void) {
  const float input[3] = {1, 2, 3};
  float output[3] = {0, 0, 0};
  ftarJobConfig config = FTAR_JOB_CONFIG_INIT;
  ftarOutcome outcome = FTAR_OUTCOME_INIT;
  ftarJob_t job = NULL;
  ftarGroup_t group = NULL;
  ftarOp_t op = NULL;

  if (ftarGetVersion() != FTAR_VERSION) return Fail("header and library differ");
  config.replica = config.shard = 0;
  config.replicas = config.shards = 1;
  config.name = "consumer";
  if (ftarJobJoin(&config, &job) != FTAR_OK) return Fail("join");
  if (ftarGroupOpen(job, NULL, &group) != FTAR_OK) return Fail("open");
  if (ftarAllReduce(input, output, 3, FTAR_F32, FTAR_SUM, group, &op) != FTAR_OK)
    return Fail("start");
  if (ftarOpWait(op, -1, &outcome) != FTAR_OK) return Fail("wait");
  if (outcome.participants != 1 || memcmp(input, output, sizeof input) != 0) return Fail("result");
  ftarOpRelease(op);
  if (ftarAllReduce(NULL, output, 3, FTAR_F32, FTAR_SUM, group, &op) != FTAR_ERR_ARG) {
    return Fail("a null input was accepted");
  }
  ftarGroupClose(group);
  if (ftarJobLeave(job, -1) != FTAR_OK) return Fail("leave");
  ftarJobDestroy(job);
  puts("consumer in C: ok");
  return 0;
}
