/* libftar: a shared operation (rules F4 and V1, src/collective/group_share.cc), in place.
 *
 * N members, a chunk each. A member publishes its line; with the lines of all it sums its own chunk
 * out of the inputs, says that it is made, and copies the chunks of the others that are. All this
 * lies in the members' own memory. A chunk counts, is final, if no flag is up after it was read;
 * with all of them final a member says that it is done. Who is complete and has heard that of all
 * delivers, and its memory is its user's again.
 *
 * One change, at any moment: X is dead (its memory stays what it is), alive and unaware, or knows
 * that it is out: then it raises its own flag, and its memory is its user's again. The others
 * freeze, raise their flags and report, and the verdict is a commit if all of them are complete, a
 * salvage if every chunk is final at one of them, else a retry. Then their memory is theirs again.
 *
 * Memory is sequentially consistent here; oneshot.pml has lines and flags with stores seen late.
 * (The words are released and acquired, and the look at the flags passes a full fence first.) All
 * inputs are read in one step: what is overwritten stays so, so a read that takes its time finds no
 * more than one at its end. The word `made` goes out before the look, as on the fast path. Words
 * carry the operation's number, so they are never another's here. Frames beside them: lane.pml.
 *
 * Property right_bytes: what is delivered, and every final chunk that a salvage may take, is a sum
 * of this operation's inputs.
 * Property one_result: if anyone delivered, X included, the verdict is a commit.
 * Property progress: without a change all deliver, and with one there is a verdict.
 *
 * ALL_SUM: the calls are not in place, and each member makes every chunk out of the inputs. Nobody
 * looks at `made`.
 *
 * ASIDE: sums lie in memory of the library, which has one writer, and land in the buffers of who
 * reads them when it has delivered; or before that, with the input saved, when somebody freezes, or
 * leaves the fast path, which the last one may at any moment (src/runtime/asides.h). An owner writes
 * over them in its next operation, with the lines of all, which say that they have landed here;
 * after a change never, as it takes other memory.
 *
 * Mutations:
 *   IN_PLACE       with ALL_SUM: the calls are in place
 *   UNSEEN         inputs are read before the lines of all are seen
 *   UNMADE         a chunk is copied before its owner has made it
 *   EARLY_DONE     a member says that it is done before all its chunks are final
 *   REUSE_EARLY    its memory is its user's when it is done, not when all are
 *   NO_FLAG_CHECK  what was read counts without a look at the flags
 *   CHECK_FIRST    the look at the flags comes before the reading
 *   OWNER_FLAG     who copies a chunk looks at its owner's flag alone
 *   FLAG_LATE      who freezes raises its flag after its status
 *   OUT_UNFLAGGED  who is out gives its memory back without raising its flag
 *   UNSTABLE       a member delivers when it is complete itself
 *   MADE_LATE      a member says what it has made when it is done
 *   LINE_EARLY     with ASIDE: a member's next line is out before its sums have landed
 *   ASIDE_REUSED   with ASIDE: an owner writes over its sums after the verdict
 */
#ifndef N
#define N 3
#endif
#define B(m) (1 << (m))
#define ALL (B(N) - 1)
#define IS(x, m) (((x) >> (m)) & 1)
#define MUST(name, p) assert(name || (p))
hidden byte right_bytes, one_result, progress;

byte line;             /* m's line is out, its input written before */
byte made, done;       /* m's words */
byte flag;             /* m's is up */
byte reused;           /* m's memory holds something else */
byte has[N], bad[N];   /* chunks that m has read, and those which are not what they should be */
byte final[N];
#ifdef ASIDE
byte landed[N];
byte gone;             /* m's sums are written over */
byte next;             /* m's next line is out */
#endif
byte delivered, frozen;
byte out = 255;
bool dead, left, prepared;
byte verdict;
#define COMMIT  1
#define SALVAGE 2
#define RETRY   3
#define SURVIVORS (ALL - B(out))

#define RUNS(m) (!((m) == out && (dead || left)) && !IS(frozen, m) && !IS(delivered, m))
#define COMPLETE(m) (final[m] == ALL)

/* The inputs of chunk c, as m finds them. In place a copy, or a sum, lies where the input was. */
#define OTHERS(m) (ALL - B(m))
#define STAY(m) (line == ALL && (reused & OTHERS(m)) == 0)
#ifdef ASIDE
#define OVER(m) landed[m]
#else
#define OVER(m) has[m]
#endif
#if defined(ALL_SUM) && !defined(IN_PLACE)
#define INPUTS_GOOD(m, c) STAY(m)
#else
#define INPUTS_GOOD(m, c) (STAY(m) && \
                           (((m) != 0 && IS(OVER(0), c)) || ((m) != 1 && IS(OVER(1), c)) || \
                            ((m) != N - 1 && IS(OVER(N - 1), c))) == 0)
#endif
#define SUM_GOOD(c) (IS(has[c], c) && !IS(bad[c], c) && !IS(reused, c))
#ifdef ASIDE
#define KEPT_GOOD(c) (IS(has[c], c) && !IS(bad[c], c) && !IS(gone, c))
#define LANDS(m, c) MUST(right_bytes, !IS(final[m], c) || IS(landed[m], c) || KEPT_GOOD(c))
#define LAND_FINAL(m) \
  LANDS(m, 0); \
  LANDS(m, 1); \
  LANDS(m, N - 1); \
  landed[m] = landed[m] | final[m]
#ifdef LINE_EARLY
#define MAY_CALL(m) IS(delivered, m)
#else
#define MAY_CALL(m) (IS(delivered, m) && landed[m] == ALL)
#endif
#ifdef ASIDE_REUSED
#define MAY_WRITE(m) (next == ALL || (verdict != 0 && m != out))
#else
#define MAY_WRITE(m) (next == ALL && verdict == 0)
#endif
#endif

#ifdef UNSEEN
#define LINES(m) IS(line, m)
#else
#define LINES(m) (line == ALL)
#endif
#ifdef ASIDE
#define SUM_SEEN(c) true
#else
#define SUM_SEEN(c) SUM_GOOD(c)
#endif
#ifdef UNMADE
#define MADE(c) true
#else
#define MADE(c) IS(made, c)
#endif
#if defined(ALL_SUM)
#define MAY_TELL_MADE(m) false
#elif defined(MADE_LATE)
#define MAY_TELL_MADE(m) IS(done, m)
#else
#define MAY_TELL_MADE(m) IS(has[m], m)
#endif
#ifdef EARLY_DONE
#define MAY_TELL_DONE(m) (line == ALL)
#else
#define MAY_TELL_DONE(m) COMPLETE(m)
#endif
#ifdef UNSTABLE
#define STABLE true
#else
#define STABLE (done == ALL)
#endif
#ifdef REUSE_EARLY
#define MAY_REUSE(m) IS(done, m)
#else
#define MAY_REUSE(m) IS(delivered, m)
#endif

#if defined(NO_FLAG_CHECK)
#define STOPS(m, i) false
#elif defined(OWNER_FLAG)
#define FRESH(m) (has[m] & (ALL - final[m]))
#define STOPS(m, i) (IS(flag, i) && (IS(FRESH(m), m) || IS(FRESH(m), i)))
#else
#define STOPS(m, i) IS(flag, i)
#endif
/* One thing after the other: nothing is read between two flags. */
#ifdef CHECK_FIRST
#define MAY_READ(m) (RUNS(m) && checked)
#define MAY_LOOK(m) (RUNS(m) && !checked && line == ALL)
#define READ(m, c) final[m] = final[m] | B(c); checked = false
#define LOOKED(m) checked = true
#else
#define MAY_READ(m) (RUNS(m) && look == 0)
#define MAY_LOOK(m) (RUNS(m) && has[m] != final[m])
#define READ(m, c) skip
#define LOOKED(m) final[m] = has[m]
#endif

inline deliver(m) {
  MUST(right_bytes, bad[m] == 0);
  delivered = delivered | B(m)
}

proctype Member(byte m) {
  byte look;   /* the next flag */
#ifdef CHECK_FIRST
  bool checked;
#endif
  do
  :: d_step { RUNS(m) && !IS(line, m) -> line = line | B(m) }
  :: d_step { MAY_READ(m) && LINES(m) && !IS(has[m], m) ->
       if :: INPUTS_GOOD(m, m) :: else -> bad[m] = bad[m] | B(m) fi;
       has[m] = has[m] | B(m);
       READ(m, m) }
  :: d_step { RUNS(m) && MAY_TELL_MADE(m) && !IS(made, m) -> made = made | B(m) }
#ifdef ALL_SUM
#define COPY(c) \
  :: d_step { MAY_READ(m) && (c) != m && LINES(m) && !IS(has[m], c) -> \
       if :: INPUTS_GOOD(m, c) :: else -> bad[m] = bad[m] | B(c) fi; \
       has[m] = has[m] | B(c); \
       READ(m, c) }
#else
#define COPY(c) \
  :: d_step { MAY_READ(m) && (c) != m && line == ALL && MADE(c) && !IS(has[m], c) -> \
       if :: SUM_SEEN(c) :: else -> bad[m] = bad[m] | B(c) fi; \
       has[m] = has[m] | B(c); \
       READ(m, c) }
#endif
  COPY(0) COPY(1)
#if N > 2
  COPY(2)
#endif
#ifdef ASIDE
#define LAND(c) \
  :: d_step { !(m == out && dead) && IS(delivered, m) && !IS(landed[m], c) -> \
       LANDS(m, c); \
       landed[m] = landed[m] | B(c) }
  LAND(0) LAND(1)
#if N > 2
  LAND(2)
#endif
  :: d_step { m == N - 1 && RUNS(m) && (final[m] & (ALL - landed[m])) != 0 -> LAND_FINAL(m) }
  :: d_step { !(m == out && dead) && MAY_CALL(m) && !IS(next, m) -> next = next | B(m) }
  :: d_step { !(m == out && dead) && MAY_WRITE(m) && !IS(gone, m) -> gone = gone | B(m) }
#endif
  /* who finds a flag up looks at it for good, and waits for the verdict */
  :: d_step { MAY_LOOK(m) && !STOPS(m, look) ->
       look++;
       if :: look == N -> look = 0; LOOKED(m) :: else fi }
  :: d_step { RUNS(m) && MAY_TELL_DONE(m) && !IS(done, m) -> done = done | B(m) }
  /* also while frozen: what was said before is heard */
  :: d_step { !(m == out && (dead || left)) && !IS(delivered, m) && COMPLETE(m) && STABLE &&
              (m == out || verdict == 0) ->
       MUST(one_result, verdict == 0 || verdict == COMMIT);
       deliver(m) }
  :: d_step { !(m == out && dead) && !IS(reused, m) &&
              (MAY_REUSE(m) || (m == out && left) || (m != out && verdict != 0)) ->
       reused = reused | B(m) }
  /* the change */
  :: d_step { m == out && !dead && !left -> left = true;
#ifndef OUT_UNFLAGGED
       flag = flag | B(m);
#endif
       look = 0 }
  :: d_step { prepared && m != out && !IS(frozen, m) -> frozen = frozen | B(m);
#ifndef FLAG_LATE
       flag = flag | B(m);
#endif
#ifdef ASIDE
       LAND_FINAL(m);
#endif
       look = 0 }
#ifdef FLAG_LATE
  :: d_step { IS(frozen, m) && !IS(flag, m) -> flag = flag | B(m) }
#endif
  :: d_step { verdict == COMMIT && m != out && !IS(delivered, m) -> deliver(m) }
  od
}

/* What is final at a survivor does not change any more when it is frozen. */
#define AT(m) ((m) == out -> 0 : final[m])
#define UNFIT(m) (AT(m) & bad[m])
proctype Coordinator() {
  byte x;
  do :: x < N - 1 -> x++ :: break od;
  if :: atomic { out = x; dead = true } :: out = x fi;
  prepared = true;
  d_step {
    frozen == SURVIVORS ->
    if
    :: (out == 0 || COMPLETE(0)) && (out == 1 || COMPLETE(1)) &&
       (out == N - 1 || COMPLETE(N - 1)) -> verdict = COMMIT
    :: else ->
       if
       :: (AT(0) | AT(1) | AT(N - 1)) == ALL -> verdict = SALVAGE;
          MUST(right_bytes, (UNFIT(0) | UNFIT(1) | UNFIT(N - 1)) == 0)
       :: else -> verdict = RETRY
       fi
    fi;
    MUST(one_result, delivered == 0 || verdict == COMMIT)
  }
}

init {
  atomic {
    byte n = 0;
    do :: n < N -> run Member(n); n++ :: else -> break od;
#ifndef HEALTHY
    run Coordinator()
#endif
  }
  timeout;
#if defined(HEALTHY) && defined(ASIDE)
  MUST(progress, gone == ALL)
#elif defined(HEALTHY)
  MUST(progress, delivered == ALL)
#else
  MUST(progress, verdict != 0)
#endif
}
