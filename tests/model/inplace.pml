/* libftar: an operation in place, and the input that a retry needs (rule F3). N members, a chunk each; an owner reads its chunk of
 * every input, writes the sum to a final shard in memory of the library, and raises its flag. Results then land on the inputs.
 * Owners read the inputs of others where they lie (pull), so a chunk may land only where its owner has read already.
 *
 * One member is lost at any moment; the survivors then salvage if every chunk is final somewhere among them, or else retry from their
 * inputs. Shards may be read after their owner's death. The next operation uses the shards again.
 *
 * Property input_safe: when the verdict is a retry every survivor has all of its input, or can restore it.
 * Property right_bytes: what lands is this operation's final chunk, and what is restored is the input.
 *
 * Mutations without an undo log:
 *   OVERWRITE_EARLY  a chunk lands on the input when its own flag is up, not all of them
 *   SHARDS_DIE       final shards lie in memory that goes with their owner
 *   REUSE_EARLY      a shard is used again when its owner is complete, not when the operation is stable
 *   NO_CHECK         with REUSE_EARLY: who copies a shard does not look at the header and checksum after its copy
 *   FLAG_FIRST       the flag goes up before the shard is whole
 * UNDO: each chunk's input goes to the log before the result lands on it, and results land one by one. Its mutations:
 *   LOG_LATE         the log is taken when the first byte has landed
 * CHAIN: two operations, the second on the result of the first, both undone. Its mutation:
 *   UNDO_FORWARD     the first is undone first
 */
#ifndef N
#define N 3
#endif
#define ALL ((1 << N) - 1)
#define MUST(name, p) assert(name || (p))
hidden byte input_safe, right_bytes;
#define BIT(x, i) (((x) >> (i)) & 1)
#define B(i) (1 << (i))

#ifdef CHAIN
/* One buffer of one member: 0 the input, 1 and 2 the results of the operations. */
byte buffer, log[2];
active proctype Chain() {
  byte k;
  log[0] = buffer; buffer = 1;
  log[1] = buffer; buffer = 2;
  /* a change: neither was stable, both are tried again */
#ifdef UNDO_FORWARD
  k = 0; do :: k < 2 -> buffer = log[k]; k++ :: else -> break od;
#else
  k = 2; do :: k > 0 -> k--; buffer = log[k] :: else -> break od;
#endif
  MUST(right_bytes, buffer == 0)
}
#else

byte over[N];                 /* bit c: the result of chunk c has landed on m's input; half[] while it lands */
byte half[N];
byte logged[N], spoilt[N];    /* bit c: in m's undo log; and what went there was not the input any more */
byte shard;                   /* bit c: owner c's shard is whole; flags: its flag is up */
byte flags;
byte partial;                 /* bit c: the shard is being written */
byte reused;                  /* bit c: it holds something of the next operation */
byte complete;                /* bit m: all results have landed at m */
byte lost = 9;
bool dead;                    /* or else it is alive, and does not know */
byte frozen;
bool decided;

#define RUNS(m) (!((m) == lost && dead) && !BIT(frozen, m) && !decided)
#ifdef FLAG_FIRST
#define FLAGGABLE(m) (BIT(partial, m) || BIT(shard, m))
#else
#define FLAGGABLE(m) BIT(shard, m)
#endif
#if defined(OVERWRITE_EARLY) || defined(UNDO)
#define SEEN(c) BIT(flags, c)
#else
#define SEEN(c) (flags == ALL)
#endif
#ifdef UNDO
#ifdef LOG_LATE
#define LOGGED(m, c) true
#define MAY_LOG(m, c) (BIT(half[m], c) || BIT(over[m], c))
#else
#define LOGGED(m, c) BIT(logged[m], c)
#define MAY_LOG(m, c) true
#endif
#else
#define LOGGED(m, c) true
#define MAY_LOG(m, c) false
#endif
#ifdef REUSE_EARLY
#define MAY_REUSE(m) BIT(complete, m)
#else
#define MAY_REUSE(m) (complete == ALL)
#endif

/* Header and checksum of the shard, looked at after the copy. */
#define CHECK(c) (BIT(shard, c) && !BIT(reused, c))
#ifdef NO_CHECK
#define CHECKED(c) true
#else
#define CHECKED(c) CHECK(c)
#endif

proctype Member(byte m) {
  do
  :: d_step { RUNS(m) && !BIT(shard, m) && !BIT(partial, m) ->
       /* the inputs of this chunk are read here, by all of the owner's works */
       MUST(right_bytes, ((over[0] | half[0]) & B(m)) == 0 && ((over[1] | half[1]) & B(m)) == 0 && ((over[N-1] | half[N-1]) & B(m)) == 0);
       partial = partial | B(m) }
  :: d_step { RUNS(m) && BIT(partial, m) -> partial = partial & (ALL - B(m)); shard = shard | B(m) }
  :: d_step { RUNS(m) && FLAGGABLE(m) && !BIT(flags, m) -> flags = flags | B(m) }
#define LAND(c) \
  :: d_step { RUNS(m) && MAY_LOG(m, c) && SEEN(c) && !BIT(logged[m], c) -> logged[m] = logged[m] | B(c); \
       if :: BIT(half[m] | over[m], c) -> spoilt[m] = spoilt[m] | B(c) :: else fi } \
  :: d_step { RUNS(m) && SEEN(c) && LOGGED(m, c) && !BIT(half[m], c) && !BIT(over[m], c) -> half[m] = half[m] | B(c) } \
  :: d_step { RUNS(m) && BIT(half[m], c) && CHECKED(c) -> half[m] = half[m] & (ALL - B(c)); over[m] = over[m] | B(c); \
       MUST(right_bytes, BIT(shard, c) && !BIT(reused, c)); \
       if :: over[m] == ALL -> complete = complete | B(m) :: else fi }
  LAND(0)
  LAND(1)
#if N > 2
  LAND(2)
#endif
  /* the next operation, which an evicted member may still begin if it may at all */
  :: d_step { lost != 9 && m != lost && !BIT(frozen, m) -> frozen = frozen | B(m) }
  :: d_step { RUNS(m) && MAY_REUSE(m) && !BIT(reused, m) -> reused = reused | B(m) }
  od
}

/* Is chunk c final at a survivor, or in a shard that can still be read? */
#ifdef SHARDS_DIE
#define READABLE(c) (BIT(flags, c) && (c) != lost)
#else
#define READABLE(c) BIT(flags, c)
#endif
#define LANDED(c) ((lost != 0 && BIT(over[0], c)) || (lost != 1 && BIT(over[1], c)) || (N > 2 && lost != 2 && BIT(over[N-1], c)))
#define FINAL(c) (LANDED(c) || (READABLE(c) && CHECKED(c)))

inline intact(m) {
  if
  :: m != lost ->
#ifdef UNDO
     MUST(input_safe, ((over[m] | half[m]) & (ALL - logged[m])) == 0);
     MUST(right_bytes, spoilt[m] == 0)
#else
     MUST(input_safe, (over[m] | half[m]) == 0)
#endif
  :: else
  fi
}

proctype Change() {
  byte m;
  do :: m < N - 1 -> m++ :: break od;
  if :: dead = true :: skip fi;
  atomic { lost = m; m = 0 }
  /* Statuses and verdict; what an evicted member still writes goes on until then */
  atomic {
    frozen == ALL - B(lost) -> decided = true;
    if
    :: FINAL(0) && FINAL(1) && (N < 3 || FINAL(N-1)) ->
       /* salvage: what did not land is copied from the shards */
       MUST(right_bytes, (LANDED(0) || CHECK(0)) && (LANDED(1) || CHECK(1)) && (N < 3 || LANDED(N-1) || CHECK(N-1)))
    :: else -> m = 0; do :: m < N -> intact(m); m++ :: else -> break od
    fi
  }
}
init { atomic { byte n = 0; do :: n < N -> run Member(n); n++ :: else -> break od; run Change() } }
#endif
