/* libftar: a failure, and a newcomer that is still to call the operation (rule V6). The operation has failed by the verdict of a change, say
 * because its calls disagree. B and C had called it. N is a newcomer, and calls it when it has heard where it begins, which may be
 * after others have delivered the failure.
 *
 * Each installs the change at its own time. B or C may be lost at any moment, and another change asks those who are left: if one
 * of them knows of the failure it stands, or else the operation is tried again, and goes well this time. What a change has
 * said counts until the next one.
 *
 * Property one_result: those who are not lost say the same of it.
 * Property progress: all who have called it deliver it.
 *
 * Mutation NOT_AGAIN: a change tells a failure to nobody if all who have called the operation are through with it.
 */
#ifndef CHANGES
#define CHANGES 2
#endif
#define MUST(name, p) assert(name || (p))
hidden byte one_result, progress;

#define B 0
#define C 1
#define N 2
#define FAILED 1
#define WELL 2
#define BIT(x, i) (((x) >> (i)) & 1)
#define ONE(m) (1 << (m))

byte called = 3;          /* bit m */
byte result[3];           /* delivered, 0 = not yet */
byte keeps;               /* bit m: has been told of the failure, for a call to come */
byte frozen = 7, lost;
byte verdict = FAILED;    /* of the newest change */
bool told = true;         /* it says so */
byte changes = CHANGES;

#define LIVES(m) (!BIT(lost, m))
#define AGREES(m, what) (BIT(lost, m) || result[m] == 0 || result[m] == (what))
inline deliver(m, what) {
  result[m] = what;
  MUST(one_result, AGREES(B, what) && AGREES(C, what) && AGREES(N, what))
}

#define ACTS(m) (!BIT(frozen, m) && LIVES(m))
#define TAKES_PART(m) (BIT(lost, m) || (BIT(called, m) && !BIT(frozen, m) && result[m] != FAILED))

proctype Member(byte m) {
  do
  :: d_step { BIT(frozen, m) && LIVES(m) ->
       frozen = frozen & (7 - ONE(m)); keeps = keeps & (7 - ONE(m));
       if
       :: verdict == FAILED && told && result[m] == 0 && BIT(called, m) -> deliver(m, FAILED)
       :: verdict == FAILED && told && !BIT(called, m) -> keeps = keeps | ONE(m)
       :: else
       fi }
  :: d_step { m == N && ACTS(N) && !BIT(called, N) ->
       called = called | ONE(N);
       if :: BIT(keeps, N) -> deliver(N, FAILED) :: else fi }
  :: d_step { ACTS(m) && BIT(called, m) && result[m] == 0 && TAKES_PART(B) && TAKES_PART(C) && TAKES_PART(N) -> deliver(m, WELL) }
  od
}

#define SAYS(m) (LIVES(m) && (result[m] == FAILED || BIT(keeps, m)))
#define WAITS(m) (LIVES(m) && BIT(called, m) && result[m] == 0)
inline change(m) {
  changes--; lost = lost | ONE(m); frozen = 7;
  if :: SAYS(B) || SAYS(C) || SAYS(N) -> verdict = FAILED :: else -> verdict = WELL fi;
#ifdef NOT_AGAIN
  told = WAITS(B) || WAITS(C) || WAITS(N)
#endif
}

proctype Coordinator() {
  do
  :: d_step { changes > 0 -> changes = 0 }
  :: d_step { changes > 0 && LIVES(B) -> change(B) }
  :: d_step { changes > 0 && LIVES(C) -> change(C) }
  :: d_step { timeout -> MUST(progress, (BIT(lost, B) || result[B] != 0) && (BIT(lost, C) || result[C] != 0) && result[N] != 0) } -> break
  od;
end: do :: false od
}

init { atomic { run Member(B); run Member(C); run Member(N); run Coordinator() } }
