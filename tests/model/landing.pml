/* libftar: whose bytes lie in a landing area (rules F1 and F2). One receiver R, one sender S that stays, one member X that is left out.
 *
 * Writes are one-sided, as with RDMA or a mapping: once posted on a path they land at some later time, without R doing
 * anything, in the order of that path, until R destroys its end of the path. S has two paths and may post a chunk again on the
 * other one. Areas: 0 is S's, 1 is X's, 2 is fresh memory. Bytes are named by who wrote them for what: 1 and 2 are S's first
 * and second chunk of the old epoch, 3 is X's, 5 is S's chunk of the new one.
 *
 * R freezes, revokes X, gives its Status, installs, and grants S one area for the new epoch: S's or X's old one only when drained,
 * the fresh one at any time.
 *
 * Property own_bytes: what R takes out of an area at the end of its reading is what it found announced there at the start.
 * Property right_epoch: R takes nothing that belongs to another epoch than its own.
 * Property progress: in the end R has S's chunk of the new epoch.
 *
 * Mutations:
 *   NO_CREDIT       S sends data of the new epoch before R's credit for it
 *   NO_DRAIN        the credit does not wait for the markers
 *   ONE_PATH        the marker of one path is enough
 *   NO_FLUSH        the leaver's link is not revoked before the Status (X's area is used again)
 *   FAILOVER        after a chunk has moved to another path its slot is used again at once
 *   OLD_COUNTS      a notification of the old epoch counts in the new one
 *   NO_RETURN       what is dropped does not give its area back, and there is no fresh memory
 * SHM: X is a neighbour in shared memory that writes its own segment only, and R copies (pull). Its mutations:
 *   PUSH            X writes into R's memory, and no mapping of a stopped process can be revoked
 *   SEAL_LATE       R passes its descriptor on before it seals the memory, and X maps it for writing
 */
#define MUST(name, p) assert(name || (p))
hidden byte own_bytes, right_epoch, progress;

#define WRITE 1
#define MARK  2
chan path[3] = [3] of { byte, byte, byte };   /* kind, area, bytes; 0 and 1 are S's, 2 is X's */
bool closed[3];                               /* R has destroyed its end */
bool marked[3];                               /* the marker of the old epoch has come */
byte bad;                                     /* bit p: S has given path p up and said so */

byte mem[3];                                  /* bytes in each area */
byte note[3];                                 /* announced there and not yet taken, 0 = nothing */
byte reading[3];                              /* being read */
byte granted = 9;                             /* area that S may use in the new epoch */
bool returned;                                /* R has taken S's first chunk: its slot is free */
bool frozen, status, installed, got;
bool s_installed;
bool sealed, passed, writable;                /* R's memory, as X sees it (SHM) */
byte segment;                                 /* X's own (SHM) */

#define EPOCH(bytes) ((bytes) >> 2)           /* 1 to 3 are of epoch 0, 5 of epoch 1 */
#define NOW (installed -> 1 : 0)

/* The network, or the memory system: one write lands. */
/* What is still under way on a path when R destroys its end never lands. */
proctype Wire(byte p) {
  byte kind, area, bytes;
  do
  :: d_step { nempty(path[p]) && !closed[p] -> path[p] ? kind, area, bytes;
       if :: kind == WRITE -> mem[area] = bytes; note[area] = bytes :: else -> marked[p] = true fi;
       kind = 0; area = 0; bytes = 0 }
  od
}

#ifdef NO_CREDIT
#define CREDIT_AREA 0
#define HAS_CREDIT true
#else
#define CREDIT_AREA granted
#define HAS_CREDIT (granted != 9)
#endif
#ifdef FAILOVER
#define SLOT_FREE true
#else
#define SLOT_FREE (moved == 9 || closed[moved])
#endif
#define GOOD(p) (!((bad >> (p)) & 1) && !closed[p])

proctype Sender() {
  byte first = 9, moved = 9;                  /* the path of the first chunk; the one that it was moved away from */
  bool second, again;
  do
#define POST(p) \
  :: d_step { !s_installed && first == 9 && GOOD(p) -> path[p] ! WRITE, 0, 1; first = p } \
  :: d_step { !s_installed && first == 1 - p && moved == 9 && !second && GOOD(p) -> bad = bad | (1 << first); moved = first; path[p] ! WRITE, 0, 1 } \
  :: d_step { !s_installed && first != 9 && returned && !second && SLOT_FREE && GOOD(p) -> path[p] ! WRITE, 0, 2; second = true } \
  :: d_step { s_installed && HAS_CREDIT && !again && GOOD(p) && nfull(path[p]) -> path[p] ! WRITE, CREDIT_AREA, 5; again = true }
  POST(0)
  POST(1)
  /* Install reaches S at its own time; then a marker on every path that works. */
  :: d_step { status && !s_installed -> s_installed = true;
       if :: GOOD(0) -> path[0] ! MARK, 0, 0 :: else fi;
       if :: GOOD(1) -> path[1] ! MARK, 0, 0 :: else fi }
  od
}

proctype Leaver() {
  bool posted;
#ifdef SHM
  if :: passed && !sealed -> writable = true :: passed && sealed -> skip fi;
#ifdef PUSH
  writable = true;
#endif
  if
  :: d_step { writable -> path[2] ! WRITE, 1, 3 }
  :: d_step { !writable -> segment = 3 }
  fi
#else
  path[2] ! WRITE, 1, 3
#endif
}

#if defined(NO_DRAIN)
#define DRAINED true
#elif defined(ONE_PATH)
#define DRAINED (marked[0] || marked[1] || (closed[0] && closed[1]))
#else
#define DRAINED ((marked[0] || closed[0]) && (marked[1] || closed[1]))
#endif
#ifdef SHM
#define X_FLUSHED true                        /* it has never been able to write here */
#else
#define X_FLUSHED (closed[2] || defined_no_flush)
#endif
#ifdef NO_FLUSH
#define defined_no_flush true
#else
#define defined_no_flush false
#endif
#ifdef OLD_COUNTS
#define COUNTS(bytes) true
#else
#define COUNTS(bytes) (EPOCH(bytes) == NOW)
#endif
/* A chunk that has come by two paths counts once. */
#define TWICE(bytes) ((bytes) == 1 && returned)
#ifdef NO_RETURN
#define FREE(a) (mem[a] == 0)
#define FRESH false
#else
#define FREE(a) true
#define FRESH true
#endif

proctype Receiver() {
#ifdef SHM
#ifdef SEAL_LATE
  passed = true; sealed = true;
#else
  sealed = true; passed = true;
#endif
#endif
  do
#define READ(a) \
  :: d_step { (!frozen || installed) && note[a] != 0 && reading[a] == 0 && COUNTS(note[a]) && !TWICE(note[a]) -> reading[a] = note[a]; note[a] = 0 } \
  :: d_step { (!frozen || installed) && reading[a] != 0 -> MUST(own_bytes, mem[a] == reading[a]); MUST(right_epoch, EPOCH(reading[a]) == NOW); \
       if :: reading[a] == 1 -> returned = true :: reading[a] == 5 -> got = true :: else fi; reading[a] = 0 }
  READ(0)
  READ(1)
  READ(2)
#ifdef SHM
  /* pull: R copies out of X's segment into memory of its own, while X belongs to it */
  :: d_step { segment == 3 && !frozen && !closed[2] && mem[1] == 0 -> mem[1] = 3; note[1] = 3 }
#endif
  /* a path that S has given up is destroyed here too, sooner or later */
#define GIVE_UP(p) :: d_step { ((bad >> p) & 1) && !closed[p] -> closed[p] = true }
  GIVE_UP(0)
  GIVE_UP(1)
  :: d_step { !frozen -> frozen = true; reading[0] = 0; reading[1] = 0 }
#if !defined(NO_FLUSH) && !defined(SHM)
  :: d_step { frozen && !closed[2] -> closed[2] = true }
#endif
  :: d_step { frozen && !status && X_FLUSHED -> status = true }
  :: d_step { status && !installed -> installed = true }
  :: d_step { installed && granted == 9 && DRAINED && FREE(0) -> granted = 0 }
  :: d_step { installed && granted == 9 && X_FLUSHED && FREE(1) -> granted = 1 }
  :: d_step { installed && granted == 9 && FRESH -> granted = 2 }
  :: d_step { timeout -> MUST(progress, got || closed[0] && closed[1]) } -> break
  od;
end: do :: false od
}

init { atomic { run Wire(0); run Wire(1); run Wire(2); run Sender(); run Leaver(); run Receiver() } }
