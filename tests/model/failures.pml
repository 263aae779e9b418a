/* libftar: a failure, and a newcomer that is still to call the operation (rules V5, V6). The operation has failed by the verdict of a change, say
 * because its calls disagree. B and C had called it. N is a newcomer, and calls it when it has heard where it begins, which may be
 * after others have delivered the failure.
 *
 * Each installs the newest change that it has promised, at its own time. B or C may be lost at any moment, and another change asks those who are
 * left: if one of them knows of the failure it stands, or else the operation is tried again, and goes well this time. What a change
 * has said counts until the next one. Who is lost has perhaps only stood still: it installs what it had promised, and delivers what it may by that.
 * A failure is delivered when all members of the change by which it is known have installed that one.
 *
 * Property one_result: all say the same of it, the lost as well.
 * Property progress: all who are not lost deliver it.
 *
 * Mutation NOT_AGAIN: a change tells a failure to nobody if all who have called the operation are through with it.
 * Mutation AT_INSTALL: a failure is delivered by whoever installs it, without the others.
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
byte holds;               /* bit m: knows of the failure, of what it has called, and has not delivered it */
byte keeps;               /* bit m: has been told of the failure, for a call to come */
byte lost;
byte newest = 1;          /* change */
byte promised[3] = 1, installed[3];
/* by change, from 1 on */
byte members[CHANGES + 2], verdict[CHANGES + 2], told[CHANGES + 2], installed_by[CHANGES + 2];

#define LIVES(m) (!BIT(lost, m))
#define AGREES(m, what) (result[m] == 0 || result[m] == (what))
inline deliver(m, what) {
  result[m] = what; holds = holds & (7 - ONE(m));
  MUST(one_result, AGREES(B, what) && AGREES(C, what) && AGREES(N, what))
}

#define FROZEN(m) (promised[m] != installed[m])
#define FAILS(e) (verdict[e] == FAILED && told[e])
#define TAKES_PART(j, m) \
  (!BIT(members[installed[m]], j) || (!FROZEN(j) && installed[j] == installed[m] && BIT(called, j) && !BIT(holds, j) && result[j] != FAILED))
#ifdef AT_INSTALL
#define ALL_KNOW(m) true
#else
#define ALL_KNOW(m) (installed_by[installed[m]] == members[installed[m]])
#endif

proctype Member(byte m) {
  do
  :: d_step { FROZEN(m) ->
       installed[m] = promised[m]; installed_by[installed[m]] = installed_by[installed[m]] | ONE(m);
       keeps = keeps & (7 - ONE(m)); holds = holds & (7 - ONE(m));
       if
       :: FAILS(installed[m]) && result[m] == 0 && BIT(called, m) -> holds = holds | ONE(m)
       :: FAILS(installed[m]) && !BIT(called, m) -> keeps = keeps | ONE(m)
       :: else
       fi }
  :: d_step { m == N && !FROZEN(N) && !BIT(called, N) ->
       called = called | ONE(N);
       if :: BIT(keeps, N) -> keeps = keeps & (7 - ONE(N)); holds = holds | ONE(N) :: else fi }
  :: d_step { BIT(holds, m) && ALL_KNOW(m) -> deliver(m, FAILED) }
  :: d_step { installed[m] != 0 && !FROZEN(m) && BIT(called, m) && result[m] == 0 && !BIT(holds, m) &&
       TAKES_PART(B, m) && TAKES_PART(C, m) && TAKES_PART(N, m) -> deliver(m, WELL) }
  od
}

#define SAYS(m) (LIVES(m) && (result[m] == FAILED || BIT(holds, m) || BIT(keeps, m)))
#define WAITS(m) (LIVES(m) && BIT(called, m) && result[m] == 0)
inline change(m) {
  changes--; lost = lost | ONE(m); newest++;
  members[newest] = 7 - lost;
  if :: SAYS(B) || SAYS(C) || SAYS(N) -> verdict[newest] = FAILED :: else -> verdict[newest] = WELL fi;
  told[newest] = true;
#ifdef NOT_AGAIN
  told[newest] = WAITS(B) || WAITS(C) || WAITS(N);
#endif
  if :: LIVES(B) -> promised[B] = newest :: else fi;
  if :: LIVES(C) -> promised[C] = newest :: else fi;
  promised[N] = newest
}

byte changes = CHANGES;

#define THROUGH(m) (BIT(lost, m) || result[m] != 0)
proctype Coordinator() {
  do
  :: d_step { changes > 0 -> changes = 0 }
  :: d_step { changes > 0 && LIVES(B) -> change(B) }
  :: d_step { changes > 0 && LIVES(C) -> change(C) }
  :: d_step { timeout -> MUST(progress, THROUGH(B) && THROUGH(C) && result[N] != 0) } -> break
  od;
end: do :: false od
}

init { atomic {
  members[1] = 7; verdict[1] = FAILED; told[1] = true;
  run Member(B); run Member(C); run Member(N); run Coordinator()
} }
