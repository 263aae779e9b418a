/* libftar: an allreduce that finishes with the survivors.  The C interface, FTAR_1.0.
 *
 * Members are processes; `replica` and `shard` are a member's row and column in the job, and a
 * group is one column. When members die, the running operations end with the survivors, and all
 * survivors hear the same verdict.
 *
 * Conventions, said once and true for every call:
 *
 * (1) Results. Every call that can fail returns ftarResult_t: 0 is FTAR_OK, 1 and 2 mean "not yet",
 * 100 and up is an error. The hundred says what died: 1xx usage, 2xx the operation, 3xx a link,
 * 4xx a peer, 5xx this member's place in the group, 6xx the group, 7xx this host.
 * ftarGetLastError() tells who and why. A call that refuses does nothing.
 *
 * (2) Structs start with `size` and are initialised with their FTAR_..._INIT macro. The library
 * reads and writes no further than `size`. A size larger than the library knows is fine if the rest
 * is zero, else FTAR_ERR_ARG names the offset; with a smaller one (a multiple of 8, from 16 on) the
 * fields cut off keep their defaults. A size of 0 is FTAR_ERR_ARG. Arrays of structs carry a
 * `stride`.
 *
 * (3) Handles are opaque. NULL is legal for every Destroy, Release, Close, Free and Deregister and
 * does nothing. A handle that was released, or is of another kind, is FTAR_ERR_HANDLE, always: a
 * handle is a number in disguise, so the library never follows a stale one.
 *
 * (4) Times are relative nanoseconds in int64_t. In waits -1 is "for ever" (the failure detector
 * still bounds it: a group that cannot go on says so) and 0 polls. Times read back are
 * CLOCK_MONOTONIC.
 *
 * (5) Threads. Every call may come from any thread at any time. Only the call that destroys or
 * releases a handle must be the last one to use it. Nothing here is async-signal-safe.
 *
 * (6) Callbacks come from the library's progress thread or from a thread that is inside a Wait.
 * They may call Get*, Report, Abort and Evict; Join, Leave, Open, Start, Wait, NextEvent, Step*,
 * Close and ftarJobDestroy return FTAR_ERR_STATE there. Do little in them: this member's operations
 * wait meanwhile, and so may its heartbeats: one that lasts longer than the knob `timeout` can cost
 * it its place. An exception must not leave one.
 *
 * (7) Fork. In a child forked after the first ftarJobJoin every call returns FTAR_ERR_FORKED.
 * Fork, then join, is fine; so is fork, then exec.
 *
 * (8) Ownership. Names, texts, configurations and descriptors are copied by the call. Data buffers
 * are not: from the start of an operation until its final outcome they belong to the library.
 * Pointers handed to a callback are valid during it. On an error an output handle is set to NULL.
 *
 * (9) Identity. `member` (ftarId) names one incarnation of a process and is never reused. `rank` is
 * its place in a view and changes with the view. `replica` and `shard` are its place in the job and
 * outlive both.
 *
 * (10) Fields that say "must be 0" (or NULL, or -1) return FTAR_ERR_UNSUPPORTED when they are set:
 * this release cannot do it. Unknown flags are FTAR_ERR_UNSUPPORTED too.
 */
#ifndef FTAR_FTAR_H_
#define FTAR_FTAR_H_

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#define FTAR_VERSION_MAJOR 1
#define FTAR_VERSION_MINOR 0
#define FTAR_VERSION_PATCH 0
#define FTAR_VERSION (FTAR_VERSION_MAJOR * 10000 + FTAR_VERSION_MINOR * 100 + FTAR_VERSION_PATCH)

#if defined(__GNUC__) || defined(__clang__)
#define FTAR_API __attribute__((visibility("default")))
#else
#define FTAR_API
#endif

/* The default of weights. */
#ifdef __cplusplus
#define FTAR_NAN static_cast<double>(NAN)
#else
#define FTAR_NAN ((double)NAN)
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- handles and enumerations ---- */

typedef struct ftarJob* ftarJob_t;
typedef struct ftarGroup* ftarGroup_t;
typedef struct ftarOp* ftarOp_t;
typedef struct ftarView* ftarView_t;
typedef struct ftarMem* ftarMem_t;
typedef struct ftarConfig* ftarConfig_t;

/* Enumerations travel as int32_t: fixed size, and a new value is no change of the ABI. */
typedef int32_t ftarResult_t;
typedef int32_t ftarDtype_t;
typedef int32_t ftarRedop_t;
typedef int32_t ftarKind_t;
typedef int32_t ftarEventType_t;
typedef int32_t ftarMemKind_t;
typedef int32_t ftarStreamKind_t;

/* Results. */
enum {
  FTAR_OK = 0,
  FTAR_IN_PROGRESS = 1, /* not an error: ask again */
  FTAR_TIMEOUT = 2,     /* of this wait; what was waited for goes on */

  /* Usage. */
  FTAR_ERR_ARG = 100,   /* an argument is wrong; ftarErrorInfo.argument names it */
  FTAR_ERR_HANDLE,      /* a handle that is not alive, or of another kind */
  FTAR_ERR_STATE,       /* legal call, wrong moment: in a callback, before ready, after destroy */
  FTAR_ERR_CONFIG,      /* a knob, variable or file is wrong, or members disagree on one */
  FTAR_ERR_UNSUPPORTED, /* understood, but not in this build or release */
  FTAR_ERR_FORKED,      /* called in a forked child */
  FTAR_ERR_VERSION,     /* a peer speaks another wire version */

  /* The operation: an agreed verdict, the same on all members (ABORTED: of this member alone). */
  FTAR_ERR_MISMATCH = 200, /* members called it differently; the text names two and the field */
  FTAR_ERR_ABORTED,        /* this member aborted or destroyed its job */
  FTAR_ERR_ABSENT,         /* no input left: the weights sum to 0, or a broadcast's root is gone */

  /* A link. */
  FTAR_ERR_LINK = 300, /* no path to a living peer */
  FTAR_ERR_CORRUPT,    /* data that fails its checksum */

  /* A peer. */
  FTAR_ERR_PEER = 400, /* it died, refused or is in the way, for example holds my place */
  FTAR_ERR_AUTH,       /* token absent, wrong or of another job */

  /* This member's place. */
  FTAR_ERR_EVICTED = 500, /* the group goes on without it; destroy the job and join again */
  FTAR_ERR_LEFT,          /* it has left as planned */

  /* The group; an operation that waits for it lives on. */
  FTAR_ERR_QUORUM = 600, /* too few members are heard of to decide */
  FTAR_ERR_COORDINATOR,  /* the coordinator is out of reach and its decision is needed */

  /* This host. */
  FTAR_ERR_MEMORY = 700, /* no memory */
  FTAR_ERR_SYSTEM,       /* a system call failed; the text has errno */
  FTAR_ERR_DEVICE,       /* an accelerator failed */
  FTAR_ERR_INTERNAL      /* a defect of libftar; please report it */
};

/* Element types. Half and 8-bit floats are added up in f32. What is too large for an 8-bit float
 * becomes its largest finite value (f8e4m3 448, f8e5m2 57344), for others infinite. */
enum {
  FTAR_F32,
  FTAR_F64,
  FTAR_F16,
  FTAR_BF16,
  FTAR_F8E4M3,
  FTAR_F8E5M2,
  FTAR_I8,
  FTAR_U8,
  FTAR_I32,
  FTAR_U32,
  FTAR_I64,
  FTAR_U64
};

/* Operators. SUM and PROD of integers wrap; NaN propagates through all; integer averages truncate
 * toward zero. */
enum {
  FTAR_SUM,
  FTAR_PROD,
  FTAR_MIN,
  FTAR_MAX,
  FTAR_AVG, /* sum / participants */
  FTAR_WAVG /* sum(w x) / sum(w); floating types only */
};

/* Kinds of operation; n is the number of members of the view in ftarOpDesc.epoch. */
enum {
  FTAR_ALLREDUCE,      /* send: count, recv: count */
  FTAR_REDUCE_SCATTER, /* send: n * count, recv: count, the segment of this member's rank */
  FTAR_ALLGATHER,      /* send: count, recv: n * count; zeros from who has weight 0 */
  FTAR_BROADCAST,      /* send: count, read at the root only; recv: count */
  FTAR_BARRIER         /* no data */
};

enum { FTAR_MEM_AUTO, FTAR_MEM_HOST, FTAR_MEM_CUDA };
enum { FTAR_STREAM_NONE, FTAR_STREAM_CUDA };

/* Events; see ftarEvent. */
enum {
  FTAR_EVENT_VIEW,          /* a new view is installed; ftarJobGetView returns it */
  FTAR_EVENT_MEMBER_JOINED, /* who: the newcomer */
  FTAR_EVENT_MEMBER_LEFT,   /* who: left as planned */
  /* who: evicted; cause and text say how it was noticed; `seq`: the operation in which it did not
   * move or was late, or FTAR_NO_SEQ. */
  FTAR_EVENT_MEMBER_LOST,
  /* who: has not entered operation `seq`, in which others wait; or, with FTAR_NO_SEQ, not begun the
   * step that this member is in, so that its ftarStepBegin waits. Told when that has lasted for
   * `timeout`; of an operation again each time that it has lasted twice as long. */
  FTAR_EVENT_LATE,
  FTAR_EVENT_SLOW,      /* who: slower than its peers; not in this release */
  FTAR_EVENT_LINK_DOWN, /* who: the peer at the other end */
  FTAR_EVENT_LINK_UP,
  FTAR_EVENT_CORRUPT,          /* who: sent data that failed its checksum */
  FTAR_EVENT_COORDINATOR_DOWN, /* members go on; changes of the view wait */
  FTAR_EVENT_COORDINATOR_UP,
  FTAR_EVENT_EVICTED, /* this member is out */
  FTAR_EVENT_DRAIN,   /* somebody asks this member to leave; not in this release */
  FTAR_EVENT_LEVEL    /* a catch-up is level; not in this release */
};

/* Levels of log lines; lower is graver. */
enum { FTAR_LOG_ERROR = 1, FTAR_LOG_WARNING, FTAR_LOG_INFO, FTAR_LOG_DEBUG, FTAR_LOG_TRACE };

/* A member's incarnation: random, new at every join, never reused. {0, 0} is nobody. */
typedef struct {
  uint64_t hi, lo;
} ftarId;

/* "No operation" where a seq is expected. */
#define FTAR_NO_SEQ UINT64_MAX

/* ---- library ---- */

/* Who and why. Part of ftarEvent, so it never grows. Texts are cut to fit and end with 0; unknown
 * is "" or -1 or 0. */
typedef struct {
  size_t size;
  ftarResult_t code;
  /* Of the culprit, which may be this member; `rank` in the job's view, -1: none, or several. */
  int32_t rank, replica, shard;
  ftarId member;
  uint64_t epoch, seq;      /* where it happened; seq is FTAR_NO_SEQ when no operation is meant */
  int64_t last_progress_ns; /* how long ago the culprit was last seen to get on */
  char host[64], device[32];
  char stage[24];    /* of an operation or of joining, for example "reducing" */
  char argument[32]; /* the argument, field, knob or variable that is at fault */
  char text[512];    /* one line for people */
} ftarErrorInfo;
#define FTAR_ERROR_INFO_INIT \
  { sizeof(ftarErrorInfo), 0, -1, -1, -1, {0, 0}, 0, FTAR_NO_SEQ, 0, "", "", "", "", "" }

/* The version of the library that runs, to be compared with FTAR_VERSION. Also works in a forked
 * child. */
FTAR_API uint32_t ftarGetVersion(void);

/* The name of a result, for example "FTAR_ERR_PEER"; "unknown result" for other numbers. Never
 * NULL, static. */
FTAR_API const char* ftarResultString(ftarResult_t result);

/* What went wrong in this thread's last call that returned neither FTAR_OK nor FTAR_IN_PROGRESS, an
 * operation's status through ftarOpWait included. Success does not clear it; it stays valid after
 * the handle is gone. code is FTAR_OK if nothing has failed yet. Errors: FTAR_ERR_ARG (not
 * recorded). */
FTAR_API ftarResult_t ftarGetLastError(ftarErrorInfo* info);

/* Sends this process's log lines (no newline, UTF-8) to `fn` instead of standard error; NULL
 * restores that. `fn` may be called from any thread, with the library's locks held: it must call
 * nothing of libftar but this, and take no lock that is held over such a call. Lines that other
 * threads were telling the old one may reach it after return: keep it and what `user` points to. */
FTAR_API ftarResult_t ftarSetLogHandler(void (*fn)(int32_t level, const char* line, void* user),
                                        void* user);

/* ---- configuration: names and text, so that a new knob never touches the ABI ---- */

/* Called once a knob; `origin` says where the value comes from: "default", "ftar.conf FILE:LINE",
 * "environment FTAR_TIMEOUT" or "program". */
typedef void (*ftarConfigVisitor)(const char* name, const char* value, const char* origin,
                                  const char* help, void* user);

/* An empty set of knob values for ftarJobConfig.config. Values set here win over FTAR_* variables,
 * those over ftar.conf. */
FTAR_API ftarResult_t ftarConfigCreate(ftarConfig_t* config);

/* Sets a knob, for example ("timeout", "30s"); the last value wins. FTAR_ERR_CONFIG: no such knob,
 * or a value it cannot have; the text says what would be right. Addresses, names and files are
 * looked at by the join. */
FTAR_API ftarResult_t ftarConfigSet(ftarConfig_t config, const char* name, const char* value);

/* Visits every knob there is, with the value set here or the default. */
FTAR_API ftarResult_t ftarConfigEach(ftarConfig_t config, ftarConfigVisitor visitor, void* user);
FTAR_API ftarResult_t ftarConfigDestroy(ftarConfig_t config);

/* ---- job ---- */

typedef struct {
  size_t size;
  ftarEventType_t type;
  ftarResult_t cause; /* why, for example FTAR_ERR_PEER; FTAR_ERR_LEFT: a planned leave; FTAR_OK
                         when nothing is wrong */
  uint64_t epoch, seq;
  int64_t time_ns; /* CLOCK_MONOTONIC when this member learned of it */
  ftarErrorInfo who;
  const void* detail; /* type-specific, starts with its size; NULL in this release */
} ftarEvent;
#define FTAR_EVENT_INIT \
  { sizeof(ftarEvent), 0, 0, 0, FTAR_NO_SEQ, 0, FTAR_ERROR_INFO_INIT, NULL }

/* ftarJobConfig.flags: ftarJobJoin returns FTAR_IN_PROGRESS once its arguments are accepted. */
#define FTAR_JOB_NONBLOCKING 1u

/* -1 and NULL: from FTAR_* variables or the launcher's (torchrun, Slurm, Open MPI, MPICH), else 0
 * of 1, a job of one that needs no coordinator. Texts have 255 bytes at most. */
typedef struct {
  size_t size;
  uint32_t flags;
  int32_t replica, shard;  /* this member's place, from 0: below 65536, one living member each */
  /* The same on all members, newcomers too, else FTAR_ERR_CONFIG. */
  int32_t replicas;        /* the first view waits for replicas 0 to replicas - 1 */
  int32_t shards;          /* columns */
  int32_t min_replicas;    /* with fewer the group decides nothing; at most replicas; -1: the knob,
                              1 by default */
  const char* name;        /* of the job */
  const char* coordinator; /* HOST:PORT; relays: several, with commas, own first */
  const char *host, *rack; /* names for people and for planning */
  ftarConfig_t config;     /* may be NULL; copied */
  /* The knob `timeout`: a member that is silent or stands still for longer has failed; 0: knob. */
  int64_t timeout_ns;
  /* May be NULL; events also wait for ftarJobNextEvent. */
  void (*on_event)(const ftarEvent* event, void* user);
  void* user;
} ftarJobConfig;
#define FTAR_JOB_CONFIG_INIT \
  { sizeof(ftarJobConfig), 0, -1, -1, -1, -1, -1, NULL, NULL, NULL, NULL, NULL, 0, NULL, NULL }

/* Joins, and unless FTAR_JOB_NONBLOCKING is set waits until this member is in a view. On any error
 * *job is NULL. Several jobs in one process are independent. NULL config: all from the environment.
 * FTAR_ERR_CONFIG names the knob or variable. When the knob `join_timeout` is over: FTAR_ERR_PEER
 * if the place is held (names the holder), FTAR_ERR_COORDINATOR if none could be reached,
 * FTAR_TIMEOUT if replicas are missing. FTAR_ERR_PEER at once and without an `argument`: the
 * coordinator was lost in the middle of it, and the next one refuses this member; join again.
 * FTAR_ERR_AUTH, FTAR_ERR_VERSION, FTAR_ERR_SYSTEM, FTAR_ERR_MEMORY. */
FTAR_API ftarResult_t ftarJobJoin(const ftarJobConfig* config, ftarJob_t* job);

/* Until this member is in a view; errors as ftarJobJoin. FTAR_TIMEOUT ends this wait only, also
 * where it polls (0), unless `argument` is "join_timeout": then the join has ended as well. */
FTAR_API ftarResult_t ftarJobWaitReady(ftarJob_t job, int64_t timeout_ns);

/* Leaves as planned: what this member has started ends as usual and may be waited for afterwards,
 * nobody's operation fails, later starts return FTAR_ERR_LEFT. So may end what was started before
 * and has waited for the group's window until now: wait for operations before you leave where that
 * matters. FTAR_TIMEOUT: it goes on, unless a stream has not come yet to what was called on it;
 * call again. It ends at a boundary that the others pass with their next operation or step, so it
 * takes as long as they compute. FTAR_ERR_QUORUM, FTAR_ERR_COORDINATOR: nobody can decide for now;
 * it goes on, call again. The last member's leave ends the job. */
FTAR_API ftarResult_t ftarJobLeave(ftarJob_t job, int64_t timeout_ns);

/* This member leaves now, as if it had died, and says why. Never blocks. Its operations end in
 * FTAR_ERR_ABORTED. */
FTAR_API ftarResult_t ftarJobAbort(ftarJob_t job, const char* reason);

/* Tells the group that this member is broken (`cause` is an error, not FTAR_OK): evidence, on which
 * the group decides. */
FTAR_API ftarResult_t ftarJobReport(ftarJob_t job, ftarResult_t cause, const char* text);

/* Asks the group to evict a member. Asynchronous: the event tells. FTAR_ERR_ARG: nobody of that id
 * is in the view. */
FTAR_API ftarResult_t ftarJobEvict(ftarJob_t job, ftarId member, const char* reason);

/* The oldest event not yet taken; events wait here whether or not there is an on_event. Beyond
 * 1,024 the oldest make room. `detail` is valid until this thread's next call. FTAR_IN_PROGRESS:
 * none (timeout 0). FTAR_TIMEOUT: none in time. FTAR_ERR_STATE: another thread destroys the job. */
FTAR_API ftarResult_t ftarJobNextEvent(ftarJob_t job, ftarEvent* event, int64_t timeout_ns);

/* A descriptor that polls readable while events wait. It is the job's: do not read or close it. */
FTAR_API ftarResult_t ftarJobEventFd(ftarJob_t job, int* fd);

/* Visits the effective value of every knob, with its origin. */
FTAR_API ftarResult_t ftarJobConfigEach(ftarJob_t job, ftarConfigVisitor visitor, void* user);

/* A counter by name, for example "links_opened"; FTAR_ERR_ARG: no such counter, and the text names
 * all there are. docs/operating.md says what they count. */
FTAR_API ftarResult_t ftarJobGetCounter(ftarJob_t job, const char* name, uint64_t* value);

/* Writes flight recorder, counters, view and links as JSON to `path`, replacing it.
 * FTAR_ERR_SYSTEM; also of a pipe that nobody reads, or whose reader makes no room for a second. */
FTAR_API ftarResult_t ftarJobDump(ftarJob_t job, const char* path);

/* Ends the job here, at once; without ftarJobLeave the others see a failure. Operations in flight
 * end in FTAR_ERR_ABORTED; handles of operations and views stay valid until they are released,
 * those of groups are good for ftarGroupClose only. Returns after the last callback, however long
 * that takes: hold no lock here that a callback waits for.
 * ftarMemAlloc'ed memory of this job is freed. FTAR_ERR_STATE in a callback. */
FTAR_API ftarResult_t ftarJobDestroy(ftarJob_t job);

/* ---- view: an immutable snapshot of who is in ---- */

typedef struct {
  size_t size;
  ftarId id;
  int32_t rank, replica, shard; /* rank in the view asked: of the job or of the group */
  uint32_t flags;               /* 0 */
  double weight;                /* ftarOpParticipants: in that op, 0: not counted; in views: 1 */
  /* Not told by ftarOpParticipants: 0, "", 0. */
  uint64_t joined_epoch;
  char host[64];
  /* Of the group: its first operation with this member. 0 in a job's view, and where the member
   * joined at a step: it is in from that step's first operation on. */
  uint64_t first_seq;
} ftarMemberInfo;
#define FTAR_MEMBER_INFO_INIT \
  { sizeof(ftarMemberInfo), {0, 0}, -1, -1, -1, 0, 0, 0, "", 0 }

typedef struct {
  size_t size;
  uint64_t epoch;            /* orders views; grows; not dense */
  int32_t members, replicas; /* ranks are 0 .. members - 1 */
  int32_t my_rank;           /* -1: I am not in it */
  int32_t shards;
  uint64_t first_seq; /* of the group: my first operation; 0 in a job's view */
  ftarId my_id;
} ftarViewInfo;
#define FTAR_VIEW_INFO_INIT                           \
  {                                                   \
    sizeof(ftarViewInfo), 0, 0, 0, -1, 0, 0, { 0, 0 } \
  }

/* The newest view. The snapshot never changes and outlives the job; release it. FTAR_ERR_STATE: not
 * ready yet. */
FTAR_API ftarResult_t ftarJobGetView(ftarJob_t job, ftarView_t* view);
FTAR_API ftarResult_t ftarViewGetInfo(ftarView_t view, ftarViewInfo* info);
/* FTAR_ERR_ARG: no such rank. */
FTAR_API ftarResult_t ftarViewGetMember(ftarView_t view, int32_t rank, ftarMemberInfo* info);
FTAR_API ftarResult_t ftarViewRelease(ftarView_t view);

/* ---- groups and steps ---- */

/* Operations of one group are delivered in the order of their calls, so what is urgent has a group
 * of its own. `priority`, -100 to 100, larger is more urgent: on this member the group's data is
 * sent and handed out, and its work is done, before what waits of groups with a lower one. It is
 * strict, and it overtakes nothing but other groups' data: what a member is told and whether it
 * lives is no part of any group. Give it alike on all members, since an operation is as fast as the
 * slowest of them; nothing but that depends on it. The last ftarGroupOpen of a group decides. */
typedef struct {
  size_t size;
  const char* name; /* the same name is the same group all over a column; 255 bytes at most;
                       NULL: "default" */
  int32_t shard;    /* -1: mine; another column than mine is FTAR_ERR_UNSUPPORTED */
  uint32_t flags;   /* 0 */
  int32_t window;   /* operations in flight before starts queue, the same on all (else operations
                       are FTAR_ERR_MISMATCH); the first ftarGroupOpen decides; 0: the knob */
  int32_t priority; /* 0: like any other; see above */
} ftarGroupConfig;
#define FTAR_GROUP_CONFIG_INIT \
  { sizeof(ftarGroupConfig), NULL, -1, 0, 0, 0 }

typedef struct {
  size_t size;
  ftarId my_id;
  int32_t my_rank; /* in the group's view; -1: before my first operation's boundary */
  int32_t shard, members;
  uint64_t first_seq; /* the first operation that is mine to call */
  uint64_t next_seq;  /* the next one to be called here */
  uint64_t epoch;     /* of the group's view */
} ftarGroupInfo;
#define FTAR_GROUP_INFO_INIT \
  { sizeof(ftarGroupInfo), {0, 0}, -1, 0, 0, 0, 0, 0 }

/* Opens this member's end of a group; every member of the column opens it under the same name.
 * Operations of a group are matched by the order in which they are started (seq, from 0), whatever
 * handle of it they are started on; different groups are independent. NULL config: my column's
 * default group. May be called before the job is ready. */
FTAR_API ftarResult_t ftarGroupOpen(ftarJob_t job, const ftarGroupConfig* config,
                                    ftarGroup_t* group);
FTAR_API ftarResult_t ftarGroupGetInfo(ftarGroup_t group, ftarGroupInfo* info);
/* The group's view as of its next operation, as ftarGroupGetInfo tells it; ranks are ranks in the
 * group. A member that leaves is in it until its last operation, a newcomer from its first one on:
 * then the same epoch names a view without, or with it, so ask for each operation that names it. */
FTAR_API ftarResult_t ftarGroupGetView(ftarGroup_t group, ftarView_t* view);
/* Gives the handle back. Operations in flight go on; the seqs go on where the group is opened anew.
 */
FTAR_API ftarResult_t ftarGroupClose(ftarGroup_t group);

/* A measure of a step's work, for example {4096, "tokens"}. */
typedef struct {
  double value;
  char name[24];
} ftarHint;

/* ftarStepConfig.flags: all operations of the step that a failure finds undelivered end with the
 * same participants. Without it operation k may lack a member that k + 1 has. What was delivered
 * before the failure keeps the member that died, and so does what that one may have delivered: the
 * first operations of a group, as far as all survivors hold their results; and a broadcast of its
 * own that they all hold. */
#define FTAR_STEP_STRICT 1u

typedef struct {
  size_t size;
  int64_t step;  /* below INT64_MAX; -1: the library counts */
  double weight; /* of this member's inputs in the step, for operations that name none; NaN: 1 */
  uint32_t flags;
  const ftarHint* hints; /* must be NULL */
  size_t hint_count;     /* must be 0 */
} ftarStepConfig;
#define FTAR_STEP_CONFIG_INIT \
  { sizeof(ftarStepConfig), -1, FTAR_NAN, 0, NULL, 0 }

typedef struct {
  size_t size;
  int64_t step;
  /* Names the step's ranks: of the view in which the first member began it, the same on all,
   * whoever has died between their calls. For ftarOpDesc.epoch in this step. */
  uint64_t epoch;
  int32_t participants; /* members of that view in this step: the n of its segments */
  int32_t joined;       /* members new at this step's boundary, the same on all */
  int32_t left;         /* members gone since the last step, as of the call */
  /* Rank in the group's view of `epoch` of a member that was here before, the same member on all.
   * When joined > 0, broadcast the state from it, with `epoch` as ftarOpDesc.epoch: ranks shift
   * when somebody dies meanwhile. Where the broadcast is FTAR_ERR_ABSENT, since it has left or
   * died, the others that were here before are ranks 0 to participants - joined - 1, for another
   * try of all.
   * -1 with joined 0: a job's first step; nobody sends anything, so all must begin with equal
   * state. -1 with joined > 0: all who had it have left. Load a checkpoint, or stop. */
  int32_t source;
  /* As of ftarStepEnd the least one of the step's all-reduces and reduce-scatters. Of weights
   * members hear with these; without any, and as of ftarStepBegin, it is `participants`. */
  double weight_sum;
  int32_t advice_microbatches; /* 0: none, as ever in this release */
  int32_t rank;                /* mine in that view: which segment is this member's */
} ftarStepInfo;
#define FTAR_STEP_INFO_INIT \
  { sizeof(ftarStepInfo), 0, 0, 0, 0, 0, -1, 0, 0, -1 }

/* Marks the start of a step, once a step by every member; members join and leave at these marks.
 * Not a barrier: rank 0 waits for nobody. The others may be one step ahead of it; who asks for more
 * waits until rank 0 has followed, however long that takes. Operations started afterwards belong to
 * the step. It waits until streams have come to the calls that were made on them; graphs that were
 * launched must have ended. `info` may be NULL.
 * FTAR_ERR_ARG: a step that does not follow the last one. FTAR_ERR_STATE: not ready yet, or another
 * thread is beginning one. FTAR_ERR_QUORUM, FTAR_ERR_COORDINATOR: as of ftarOpWait, nobody can
 * decide who is in; no step has begun, call again. */
FTAR_API ftarResult_t ftarStepBegin(ftarJob_t job, const ftarStepConfig* config,
                                    ftarStepInfo* info);
/* Optional: waits for the step's operations, as ftarOpWait does, and sums up; -1: of the step that
 * runs. FTAR_ERR_ARG: it is another one. FTAR_ERR_STATE: none has begun, or the next one has while
 * this waited. */
FTAR_API ftarResult_t ftarStepEnd(ftarJob_t job, int64_t step, ftarStepInfo* info);

/* ---- memory: optional; operations take any, this one saves copies between processes ---- */

typedef struct {
  size_t size;
  ftarMemKind_t kind; /* AUTO is HOST; CUDA is the GPU's, which the host cannot follow */
  int32_t device;     /* of CUDA; -1: the job's GPU, at its first use this thread's current one */
  int32_t numa;       /* must be -1 */
  uint32_t flags;     /* 0 */
} ftarMemDesc;
#define FTAR_MEM_DESC_INIT \
  { sizeof(ftarMemDesc), FTAR_MEM_AUTO, -1, -1, 0 }

/* At least 64-byte aligned, zeroed. 0 bytes: FTAR_ERR_ARG. NULL desc: defaults. Freed by
 * ftarMemFree or with the job. Members of one host read each other's blocks of 64 KiB and more
 * where they lie, which spares a copy. A forked child shares such a block with its parent. GPU
 * memory is not zeroed; FTAR_ERR_DEVICE: no GPU, no driver, or no libftar-cuda.so. Its first use
 * takes seconds. */
FTAR_API ftarResult_t ftarMemAlloc(ftarJob_t job, size_t bytes, const ftarMemDesc* desc,
                                   void** memory);
/* FTAR_ERR_ARG: not memory of this job. The caller sees to it that no operation uses it, and for
 * the GPU's that no stream does any more: unlike cudaFree, this does not wait for them. */
FTAR_API ftarResult_t ftarMemFree(ftarJob_t job, void* memory);
/* Announces memory of the caller's that many operations will use. Host memory needs no such thing
 * today; devices will. */
FTAR_API ftarResult_t ftarMemRegister(ftarJob_t job, void* memory, size_t bytes,
                                      const ftarMemDesc* desc, ftarMem_t* mem);
FTAR_API ftarResult_t ftarMemDeregister(ftarMem_t mem);

/* ---- operations: one descriptor, one start ---- */

/* The verdict: `status`, `epoch`, `participants` and `weight_sum` are the same on all members that
 * get one. */
typedef struct {
  size_t size;
  ftarResult_t status;
  uint32_t flags; /* 0 */
  /* Of the view whose members made the result. From one operation to the next it may fall. */
  uint64_t epoch;
  uint64_t seq;
  int32_t participants; /* members whose weight was > 0 */
  int32_t attempts;     /* 1: undisturbed */
  int32_t plan;         /* as chosen: 1 oneshot, 2 direct, 3 ring; 0: none was needed */
  /* Who came last, as seen here. -1: unknown, where not everybody's own input comes here (a ring;
   * one owner for all), where inputs are read in shared memory, and after a death. */
  int32_t slowest_rank;
  double weight_sum; /* of the weights > 0 */
  uint64_t bytes_resent;
  uint64_t digest;                             /* 0 in this release */
  int64_t start_ns, complete_ns, delivered_ns; /* called; all data here; known stable */
  int64_t arrival_skew_ns;                     /* from who came first to slowest_rank; or 0 */
  ftarId culprit;                              /* on an error, whose fault it was */
} ftarOutcome;
#define FTAR_OUTCOME_INIT                                                       \
  {                                                                             \
    sizeof(ftarOutcome), 0, 0, 0, 0, 0, 0, 0, -1, 0, 0, 0, 0, 0, 0, 0, { 0, 0 } \
  }

/* An outcome for the GPU. */
typedef struct {
  ftarResult_t status;
  int32_t participants;
  double weight_sum;
  uint64_t seq, epoch; /* seq: FTAR_NO_SEQ if the call was refused when its stream got there */
} ftarDeviceOutcome;

typedef struct {
  size_t size;
  ftarKind_t kind;
  ftarDtype_t dtype;
  ftarRedop_t redop; /* read by allreduce and reduce-scatter */
  uint32_t flags;    /* 0 */
  /* Host memory, or both the GPU's (cudaMalloc'ed, ftarMemAlloc'ed, a tensor's); an address is
   * recognised. Without a stream the input must be ready. Any alignment. In place is send == recv,
   * and members may differ in that; any other overlap is FTAR_ERR_ARG. */
  const void* send;
  void* recv;
  uint64_t count;     /* elements; see FTAR_ALLREDUCE and its neighbours. 0 is legal */
  int32_t root;       /* broadcast: rank in the view of `epoch` */
  int32_t priority;   /* must be 0: a priority is a group's */
  double weight;      /* 0: the input is not read and does not count, but `send` has to be memory
                         all the same; NaN: the step's, else 1 */
  double scale;       /* multiplies the result; finite, not 0; the same on all. Of integers that is
                         done in f64, truncated toward zero and kept within the type. Of what only
                         copies, broadcast and all-gather, it must be 1 */
  int64_t timeout_ns; /* no time limit of a wait; ftarOpWait has one. When it passes on any one
                         member, whoever the operation still lacks there and who holds it up itself
                         is evicted, and be it that it only computes; the operation goes on without.
                         0 and -1: the job's rules alone */
  uint64_t tag;       /* the caller's own, for logs */
  ftarMem_t send_mem, recv_mem; /* NULL, or registered memory that holds the buffer */
  /* FTAR_STREAM_CUDA: the call does not wait for it; the operation begins when `stream` (a
   * cudaStream_t; NULL is the legacy default stream) has done what was put onto it before, and the
   * stream goes on when the operation is delivered, whatever its status. Calls of one group begin
   * in the order in which they were made. While the stream is captured, the call becomes part of
   * the graph and is made again, with a seq of its own, at every launch: the handle given out is no
   * operation's then, and a graph that is launched after ftarJobDestroy never ends. */
  ftarStreamKind_t stream_kind;
  int32_t device; /* -1, or the GPU that the job uses; its first use settles which (for -1: where
                     the buffers lie, or the stream) */
  void* stream;
  ftarDtype_t accumulate, wire; /* -1, or what the type gets anyway */
  const char* plan; /* "auto", "oneshot", "direct", "ring", the same on all; NULL: the knob */
  /* With a stream: an ftarDeviceOutcome in pinned or device memory, written in the stream's order,
   * so that the next kernel on it may read it; or NULL. */
  void* device_outcome;
  /* Once, with the final outcome; may be NULL. Maybe after ftarOpWait has returned, and after
   * ftarOpRelease: what `user` points to has to live until it has run. ftarJobDestroy returns after
   * the last one. */
  void (*on_done)(const ftarOutcome* outcome, void* user);
  void* user;
  /* Reduce-scatter and all-gather: the view whose ranks own the segments; segments of members gone
   * since are zero. Broadcast: the view that `root` counts in. 0: the group's view at the call. */
  uint64_t epoch;
} ftarOpDesc;
#define FTAR_OP_DESC_INIT                                                                        \
  {                                                                                              \
    sizeof(ftarOpDesc), FTAR_ALLREDUCE, FTAR_F32, FTAR_SUM, 0, NULL, NULL, 0, 0, 0, FTAR_NAN, 1, \
        0, 0, NULL, NULL, FTAR_STREAM_NONE, -1, NULL, -1, -1, NULL, NULL, NULL, NULL, 0          \
  }

/* Starts an operation; never blocks (a full window queues it) but for a stream that waits for 128
 * operations: then until one of them is over, or this member is out. It runs no callbacks, but hold
 * no lock there that one takes. The operation takes the group's next seq; a refused start takes
 * none. Until its final outcome the buffers are the library's, and no two operations in flight may
 * touch the same bytes unless both read. *op must be released; NULL op: nobody waits, on_done or
 * ftarGroupOutcome tell. On an error *op is NULL. FTAR_ERR_ARG names the field; FTAR_ERR_LEFT,
 * FTAR_ERR_EVICTED, FTAR_ERR_ABORTED: this member is out. */
FTAR_API ftarResult_t ftarOpStart(ftarGroup_t group, const ftarOpDesc* desc, ftarOp_t* op);

/* Starts n operations, 65,536 at most, with consecutive seqs, all or none. `desc` points to the
 * first of n descriptors `stride` bytes apart, each with a `size` of at most `stride`. `ops`: NULL,
 * or room for n. */
FTAR_API ftarResult_t ftarOpStartMany(ftarGroup_t group, const ftarOpDesc* desc, size_t stride,
                                      size_t n, ftarOp_t* ops);

/* ftarOpWait with timeout 0. */
FTAR_API ftarResult_t ftarOpTest(ftarOp_t op, ftarOutcome* outcome);

/* Waits and returns the operation's status. `outcome` may be NULL and is written when the status is
 * final. Not final, so the operation lives on, its buffers stay the library's and waiting again is
 * legal: FTAR_IN_PROGRESS (timeout 0), FTAR_TIMEOUT, FTAR_ERR_QUORUM, FTAR_ERR_COORDINATOR. Agreed
 * by all: FTAR_OK, FTAR_ERR_MISMATCH, FTAR_ERR_ABSENT. This member is out: FTAR_ERR_EVICTED,
 * FTAR_ERR_LEFT, FTAR_ERR_ABORTED. On an error the input is intact, but for one in place on a GPU
 * that has stopped; an out-of-place output is untouched after MISMATCH and ABSENT, else
 * unspecified. */
FTAR_API ftarResult_t ftarOpWait(ftarOp_t op, int64_t timeout_ns, ftarOutcome* outcome);

/* All members of the delivered attempt, in member order, with their weight in this op. Writes at
 * most `capacity` elements `stride` bytes apart, sets the `size` of each, and *n to how many there
 * are. FTAR_IN_PROGRESS: not final yet. `members` may be NULL when capacity is 0. */
FTAR_API ftarResult_t ftarOpParticipants(ftarOp_t op, ftarMemberInfo* members, size_t stride,
                                         size_t capacity, size_t* n);

/* Gives the handle back; the operation goes on. */
FTAR_API ftarResult_t ftarOpRelease(ftarOp_t op);

/* The outcome of one of the last 1,024 operations of the group, by seq. The status is in the
 * outcome and is not this call's result. FTAR_IN_PROGRESS: not final yet. FTAR_ERR_ARG: not started
 * yet, or too long ago. */
FTAR_API ftarResult_t ftarGroupOutcome(ftarGroup_t group, uint64_t seq, ftarOutcome* outcome);

/* Short forms of ftarOpStart with all other fields at their defaults. */
FTAR_API ftarResult_t ftarAllReduce(const void* send, void* recv, uint64_t count, ftarDtype_t dtype,
                                    ftarRedop_t redop, ftarGroup_t group, ftarOp_t* op);
FTAR_API ftarResult_t ftarReduceScatter(const void* send, void* recv, uint64_t recv_count,
                                        ftarDtype_t dtype, ftarRedop_t redop, ftarGroup_t group,
                                        ftarOp_t* op);
FTAR_API ftarResult_t ftarAllGather(const void* send, void* recv, uint64_t send_count,
                                    ftarDtype_t dtype, ftarGroup_t group, ftarOp_t* op);
FTAR_API ftarResult_t ftarBroadcast(const void* send, void* recv, uint64_t count, ftarDtype_t dtype,
                                    int32_t root, ftarGroup_t group, ftarOp_t* op);
FTAR_API ftarResult_t ftarBarrier(ftarGroup_t group, ftarOp_t* op);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* FTAR_FTAR_H_ */
