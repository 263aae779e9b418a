/* libftar: the one-pass one-shot exchange of one host (rule F4), with every store and load on its own.
 *
 * Each member owns a segment with three words per slot: payload, tag (number of the operation + 1) and done (operations finished
 * here), and one frozen flag. Only the owner writes them; all others map them read-only. Stores go into a buffer of the writer
 * and become visible later: in the order of writing (TSO), or, with -DWEAK, in any order but for two rules, that a
 * release store waits for what was written before it, and that a full fence empties the buffer. Loads: -DWEAK lets a
 * deliverer take the flags before it has taken the inputs, unless a fence stands between.
 *
 * N members, two operations through one slot. One change: the coordinator leaves out X, which may be dead (its buffer's fate is
 * open: what it has stored may still become visible or never) or alive and unaware. The survivors freeze, scan and report.
 *
 * Property one_verdict: whatever anyone delivered, X included, is what the survivors' Statuses make them commit.
 * Property whole_input: nobody takes an input whose payload is another operation's.
 *
 * Mutations, each a condition of F4 left out:
 *   NO_RELEASE       (a) the tag does not wait for the payload (needs WEAK)
 *   REUSE_EARLY      (b) a slot is used again when its owner has delivered, not when the operation is stable
 *   NO_FENCE_FREEZE  (c) no full fence between the own flag and the scan
 *   SCAN_FIRST       (c) the scan before the flag
 *   NO_RESCAN        (c) no scan: the Status says what was known before
 *   REVOKE_FIRST     (c) the leaver's segment is unmapped before the scan
 *   NO_FLAGS         (d) deliver on all inputs without a look at the flags
 *   OWN_FLAGS        (d) only the own flag is looked at
 *   NO_FENCE_DELIVER (d) no fence between the inputs and the flags (needs WEAK)
 */
#ifndef N
#define N 3
#endif
#define B(m) (1 << (m))
#define ALL (B(N) - 1)
#define MUST(name, p) assert(name || (p))
hidden byte one_verdict, whole_input;

#ifdef WEAK
#define IN_ORDER false
#else
#define IN_ORDER true
#endif

/* Visible memory: bit m is member m's word. */
byte payload, tagged;        /* operation 0: payload and tag of m are in its slot */
byte reused;                 /* m's tag says operation 1: operation 0's input is gone */
byte torn;                   /* m's payload is operation 1's */
byte done;                   /* m says that operation 0 is delivered here */
byte flag;                   /* m is frozen */

/* A member's store buffer: bit i is word i of the list in the order of writing. */
#define W_PAYLOAD 1
#define W_TAG     2
#define W_DONE    4
#define W_PAYLOAD1 8
#define W_TAG1    16
#define W_FLAG    32
byte buffer[N], order[N];    /* words waiting; which of them the newer ones must wait for is in the guards of Drain */

byte out = 255;              /* who is left out */
bool dead;                   /* and is dead */
byte delivered, frozen, reported, has;  /* has: what the Statuses say: m holds all inputs */
byte prepared;

#define IS(x, m) (((x) >> (m)) & 1)
#define SEES(r, m, i) (IS(tagged, i) || (i) == (m))

/* The owner sees its own words without waiting for them. */
#define FLAG_SEEN(m, i) (IS(flag, i) || ((i) == (m) && (buffer[m] & W_FLAG)))

/* One word of m's buffer becomes visible. */
#define FREE(m, w) ((buffer[m] & (w)) && (!IN_ORDER || OLDEST(m, w)))
/* In order of writing: payload, tag, done, next payload, next tag; the flag may have been written at any point, so it carries the
   set of words that were before it. */
#define OLDEST(m, w) ((w) == W_FLAG -> ((buffer[m] & order[m]) == 0) : ((buffer[m] & ((w) - 1)) == 0 && \
                      (!(buffer[m] & W_FLAG) || (order[m] & (w)))))
#ifdef NO_RELEASE
#define TAG_FREE(m, w) true
#else
#define TAG_FREE(m, w) ((buffer[m] & ((w) >> 1)) == 0)
#endif

inline reach(m, w) {
  if
  :: (w) == W_PAYLOAD -> payload = payload | B(m)
  :: (w) == W_TAG -> tagged = tagged | B(m)
  :: (w) == W_DONE -> done = done | B(m)
  :: (w) == W_PAYLOAD1 -> torn = torn | B(m)
  :: (w) == W_TAG1 -> reused = reused | B(m)
  :: (w) == W_FLAG -> flag = flag | B(m)
  fi;
  buffer[m] = buffer[m] & (255 - (w))
}
/* A full fence waits until the buffer is empty: to the fencing member that is all it does. */
#define FENCED(m) (buffer[m] == 0)

proctype Drain(byte m) {
  do
  :: d_step { FREE(m, W_PAYLOAD) -> reach(m, W_PAYLOAD) }
  :: d_step { FREE(m, W_TAG) && TAG_FREE(m, W_TAG) -> reach(m, W_TAG) }
  :: d_step { FREE(m, W_DONE) && (buffer[m] & (W_PAYLOAD | W_TAG)) == 0 -> reach(m, W_DONE) }
  :: d_step { FREE(m, W_PAYLOAD1) && (buffer[m] & W_TAG) == 0 -> reach(m, W_PAYLOAD1) }
  :: d_step { FREE(m, W_TAG1) && TAG_FREE(m, W_TAG1) -> reach(m, W_TAG1) }
  :: d_step { FREE(m, W_FLAG) -> reach(m, W_FLAG) }
  od
}

/* m takes the input of i, once: from then on it has it. An input that is there already with the next tag is lost to m. */
#define READABLE(m, i) ((i) == (m) || (IS(tagged, i) && !IS(reused, i)))
inline take(m, i) {
  MUST(whole_input, (i) == (m) || (IS(payload, i) && !IS(torn, i)));
  got = got | B(i)
}

#define OTHERS_DONE(m) (((done | B(m)) & ALL) == ALL)
#ifdef REUSE_EARLY
#define MAY_REUSE(m) true
#else
#define MAY_REUSE(m) OTHERS_DONE(m)
#endif

#if defined(NO_FENCE_DELIVER)
#define DELIVER_FENCED(m) true
#else
#define DELIVER_FENCED(m) (got == ALL && FENCED(m))
#endif
#if defined(NO_FENCE_DELIVER) && defined(WEAK)
#define MAY_LOOK(m) true
#else
#define MAY_LOOK(m) (got == ALL && DELIVER_FENCED(m))
#endif
#if defined(NO_FLAGS)
#define LOOKED ALL
#elif defined(OWN_FLAGS)
#define LOOKED (looked | (ALL - B(m)))
#else
#define LOOKED looked
#endif

/* What a freezing member scans: every segment of the old view. */
#ifdef REVOKE_FIRST
#define SCANS(i) ((i) != out)
#else
#define SCANS(i) true
#endif
#ifdef NO_FENCE_FREEZE
#define FREEZE_FENCED(m) true
#else
#define FREEZE_FENCED(m) FENCED(m)
#endif

proctype Member(byte m) {
  byte got, looked, scan;
  bool posted, again, raised, scanned;
#define STOPPED (m == out && dead)
#define RUNS (!STOPPED && !raised)
  do
  :: d_step { RUNS && !posted -> posted = true; buffer[m] = buffer[m] | W_PAYLOAD | W_TAG; got = got | B(m) }
  /* inputs, in any order */
#define TAKE(i) \
  :: d_step { RUNS && posted && !IS(delivered, m) && !IS(got, i) && READABLE(m, i) -> take(m, i) }
  /* flags, each once; one that is up stays up, so that is the end of it */
#define LOOK(i) \
  :: d_step { RUNS && posted && !IS(delivered, m) && MAY_LOOK(m) && !IS(looked, i) && !FLAG_SEEN(m, i) -> looked = looked | B(i) }
  TAKE(0) TAKE(1) LOOK(0) LOOK(1)
#if N > 2
  TAKE(2) LOOK(2)
#endif
  :: d_step { RUNS && !IS(delivered, m) && got == ALL && LOOKED == ALL && DELIVER_FENCED(m) ->
       delivered = delivered | B(m); buffer[m] = buffer[m] | W_DONE; looked = 0 }
  :: d_step { RUNS && IS(delivered, m) && !again && MAY_REUSE(m) && (buffer[m] & W_DONE) == 0 ->
       again = true; buffer[m] = buffer[m] | W_PAYLOAD1 | W_TAG1 }
  /* the change: flag, fence, scan, Status */
#ifdef SCAN_FIRST
#define MAY_RAISE (scan == ALL)
#define MAY_SCAN (!raised)
#else
#define MAY_RAISE true
#define MAY_SCAN (raised && FREEZE_FENCED(m))
#endif
  :: d_step { prepared && m != out && !raised && MAY_RAISE -> raised = true; order[m] = buffer[m]; buffer[m] = buffer[m] | W_FLAG }
#define SCAN(i) \
  :: d_step { prepared && m != out && !scanned && MAY_SCAN && !IS(scan, i) -> scan = scan | B(i); \
       if :: SCANS(i) && !IS(got, i) && READABLE(m, i) && posted -> take(m, i) :: else fi }
#ifdef NO_RESCAN
#define SCAN_DONE raised
#else
  SCAN(0) SCAN(1)
#if N > 2
  SCAN(2)
#endif
#define SCAN_DONE (scan == ALL && raised)
#endif
  :: d_step { SCAN_DONE && !scanned -> scanned = true; looked = 0; reported = reported | B(m);
       if :: got == ALL -> has = has | B(m) :: else fi }
  od
}

#define SURVIVORS (ALL - B(out))
proctype Coordinator() {
  byte x;
  do :: x < N - 1 -> x++ :: break od;
  atomic { out = x; prepared = 1; x = 0 }
  if :: dead = true :: skip fi;
  reported == SURVIVORS;
  /* The leader's table: all complete -> commit, else a retry without X. The retry would be another result. */
  do
  :: atomic { delivered != 0 -> MUST(one_verdict, has == SURVIVORS); break }
  od
}

init { atomic { byte n = 0; do :: n < N -> run Drain(n); run Member(n); n++ :: else -> break od; run Coordinator() } }
