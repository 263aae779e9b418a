/* libftar: two groups (columns), one step boundary (rules J4, J1, J3), with a failure change at any time.
 *
 * Two old replicas and a newcomer J, each with one member in either column. Steps, not operations: a member begins step t when
 * it knows that its column's root has begun t - 1; marks and announcements of a root travel first in, first out. The two
 * columns share nothing but the coordinator, and one may be far ahead of the other.
 *
 * Planned: the coordinator asks both roots; a root at step s promises s + 3 and puts off step s + 2 until it has announced
 * (or is told that the plan is void). The coordinator takes the latest promise, J confirms, both roots announce, each
 * at its own time. Change: Prepare to all, Status, each column's leader says which bound of J it knows, or which step nobody
 * has begun; the coordinator makes one bound of it; Install to each at its own time. A second change may interrupt the first.
 *
 * Property one_step: no step has J in one place and lacks it in another, whichever the column (replicas that are lost do not count).
 * Property progress: whoever is in reaches the last step.
 *
 * Mutations:
 *   NO_MAX        each root announces what it has promised
 *   NO_HOLD       a root goes on while its promise is out
 *   PER_COLUMN    in a change each column keeps the fresh bound that its leader chose
 *   NO_SHARE      a bound that one column knows does not bind the other
 *   FRESH_OF_ALL  with SECOND: a fresh bound is the latest of all newcomers', also for one whose bound another column knows
 * ANNOUNCING: begins where both roots have promised step 3. NO_LOSS: a change is a Prepare that nobody is left out of. SECOND: a second newcomer comes by the change itself, with a fresh bound.
 */
#ifndef T
#define T 5
#endif
#ifndef CHANGES
#define CHANGES 1
#endif
#define MUST(name, p) assert(name || (p))
hidden byte one_step, progress;

#define J 2
#define AT(c, m) ((c) * 3 + (m))
#define BIT(x, i) (((x) >> (i)) & 1)
#define MAX(a, b) ((a) > (b) -> (a) : (b))

byte step[6];                   /* begun by member AT(c, m); 0 = none yet */
byte with[3], without[3];       /* bit t: replica m has begun step t in some column with J, without J */
byte bound[6], bound_of[6];     /* J's first step as known there, 0 = unknown; from which change: 1 the plan, 2 and 3 changes */
byte frozen;                    /* bit AT(c, m) */
byte promised[6];               /* newest change promised */
byte lost = 9;                  /* replica; only that of the roots: without the other one the root's word is left, which knows more */

#ifdef ANNOUNCING
#define FIRST_PLAN 2
#define FIRST_BOUND 3
#else
#define FIRST_PLAN 1
#define FIRST_BOUND 0
#endif
byte reserved[2] = FIRST_BOUND;               /* what the root holds back for, 0 = nothing */
byte said[2];                   /* what it has promised, as the coordinator knows */
byte announced[2];              /* 1 + the root's step when it announced, 0 = not */
byte plan = FIRST_PLAN;         /* the coordinator: 1 asked, 2 announcing, 3 void */
byte agreed[2] = FIRST_BOUND;               /* the bound to announce */

byte change;                    /* the newest change, 0 = none, else 2 or 3 */
byte changes = CHANGES;
bool inside;                    /* J is among the members of the newest change */
byte told[2];                   /* the leader has decided: bit 0; bit 1 a bound is known, bit 2 it is J's first step below */
byte known[2], fresh[2];
byte final[2];                  /* bound by Install, per column */
bool installable;

#define ROOT (lost == 0 -> 1 : 0)
/* The root as members of that view see it: replica 0 until a change without it is installed. */
#define ROOT_AT(c, m) (lost == 0 && installed[AT(c, m)] == change && change > 0 -> 1 : 0)
byte installed[6];
#define IN(m) ((m) != lost)
#define FROZEN(c, m) BIT(frozen, AT(c, m))

/* Has m heard of step t of the root? Whatever the root said after the announcement comes after it. */
#define HEARD(c, m, t) (step[AT(c, ROOT_AT(c, m))] >= (t) && \
  (announced[c] == 0 || (t) < announced[c] || bound[AT(c, m)] != 0 || installed[AT(c, m)] > 0))

#define ENTERS(c, m, t) (bound[AT(c, m)] != 0 && (t) >= bound[AT(c, m)])
#define ALL_WITH (SAID(with, 0) | SAID(with, 1) | with[J])
#define ALL_WITHOUT (SAID(without, 0) | SAID(without, 1))
#define SAID(set, m) (IN(m) -> set[m] : 0)

inline begin(c, m) {
  step[AT(c, m)]++;
  if
  :: (m) == J || ENTERS(c, m, step[AT(c, m)]) -> with[m] = with[m] | (1 << step[AT(c, m)])
  :: else -> without[m] = without[m] | (1 << step[AT(c, m)])
  fi;
  MUST(one_step, (ALL_WITH & ALL_WITHOUT) == 0)
}

#ifdef NO_HOLD
#define MAY_GO(c, m) true
#else
#define MAY_GO(c, m) ((m) != 0 || reserved[c] == 0 || step[AT(c, m)] + 2 < reserved[c])
#endif

/* A step has an operation, and the window lets nobody be more than a step ahead of another one. */
#define SLACK(c, m) (step[AT(c, m)] < step[AT(c, 1 - (m))] + 2 || !IN(1 - (m)))
#define OLD(c, m) \
  :: d_step { IN(m) && !FROZEN(c, m) && step[AT(c, m)] < T && MAY_GO(c, m) && SLACK(c, m) && \
       ((m) == ROOT_AT(c, m) || step[AT(c, m)] == 0 || HEARD(c, m, step[AT(c, m)])) -> begin(c, m) } \
  :: d_step { IN(m) && !FROZEN(c, m) && announced[c] != 0 && bound[AT(c, m)] == 0 && (m) != 0 && installed[AT(c, m)] == 0 -> \
       bound[AT(c, m)] = agreed[c]; bound_of[AT(c, m)] = 1 }
/* J knows its bound by the announcement or by an Install; it begins with the first step that the root has begun.
   What it does afterwards is what the others do, and left out. */
#define NEW(c) \
  :: d_step { !FROZEN(c, J) && announced[c] != 0 && bound[AT(c, J)] == 0 && installed[AT(c, J)] == 0 -> \
       bound[AT(c, J)] = agreed[c]; bound_of[AT(c, J)] = 1 } \
  :: d_step { !FROZEN(c, J) && bound[AT(c, J)] != 0 && step[AT(c, J)] == 0 && HEARD(c, J, bound[AT(c, J)]) -> \
       step[AT(c, J)] = bound[AT(c, J)] - 1; begin(c, J) }

/* J promises with replica 1: it has heard of nothing that the root has not said, so its own moment adds nothing. */
inline promise(c, m) {
  promised[AT(c, m)] = change; frozen = frozen | (1 << AT(c, m));
  if :: (m) == 0 -> reserved[c] = 0 :: else fi
}
#define CHANGE(c, m) \
  :: d_step { change > promised[AT(c, m)] && IN(m) && (m) != J -> \
       promise(c, m); if :: (m) == 1 && inside -> promise(c, J) :: else fi } \
  INSTALL1(c, m)
#define TO_INSTALL(c, m) (installable && promised[AT(c, m)] == change && installed[AT(c, m)] != change && IN(m) && ((m) != J || inside))
inline install(c, m) {
  installed[AT(c, m)] = change; frozen = frozen & (255 - (1 << AT(c, m)));
  if :: inside -> bound[AT(c, m)] = final[c]; bound_of[AT(c, m)] = change
     :: else -> bound[AT(c, m)] = 0; bound_of[AT(c, m)] = 0
  fi
}
/* Where no second change can come between, a column's members install together: one that comes later is one that is slow. */
#if CHANGES > 1
#define INSTALL1(c, m) :: d_step { TO_INSTALL(c, m) -> install(c, m) }
#define INSTALL(c)
#else
#define INSTALL1(c, m)
#define INSTALL(c) \
  :: d_step { TO_INSTALL(c, 0) || TO_INSTALL(c, 1) -> \
       if :: TO_INSTALL(c, 0) -> install(c, 0) :: else fi; if :: TO_INSTALL(c, 1) -> install(c, 1) :: else fi; \
       if :: TO_INSTALL(c, J) -> install(c, J) :: else fi }
#endif

/* The columns are alike, so let column 0 announce first. */
#define FIRST_COLUMN(c) ((c) == 0 || announced[0] != 0)

proctype Column(byte c) {
  byte x;
  do
  OLD(c, 0)
  OLD(c, 1)
  NEW(c)
  CHANGE(c, 0)
  CHANGE(c, 1)
  CHANGE(c, J)
  INSTALL(c)
  /* the root: a promise, then the announcement */
  :: d_step { plan == 1 && said[c] == 0 && !FROZEN(c, 0) && change == 0 -> reserved[c] = step[AT(c, 0)] + 3; said[c] = reserved[c] }
  :: d_step { plan == 2 && announced[c] == 0 && !FROZEN(c, 0) && lost != 0 && installed[AT(c, 0)] == 0 && reserved[c] != 0 && FIRST_COLUMN(c) ->
       announced[c] = 1 + step[AT(c, 0)]; reserved[c] = 0; bound[AT(c, 0)] = agreed[c]; bound_of[AT(c, 0)] = 1 }
  :: d_step { plan == 3 && reserved[c] != 0 -> reserved[c] = 0 }
  /* a root that is evicted and does not know: it may still announce in its old view, to whoever is not frozen */
  :: d_step { plan == 2 && announced[c] == 0 && !FROZEN(c, 0) && lost == 0 && reserved[c] != 0 && FIRST_COLUMN(c) ->
       announced[c] = 1 + step[AT(c, 0)]; reserved[c] = 0 }
  /* the leader of the newest change, when all have frozen for it */
#define GAVE(c, m) (!IN(m) || promised[AT(c, m)] == change)
  :: d_step { change > 0 && !BIT(told[c], 0) && GAVE(c, 0) && GAVE(c, 1) && (!inside || GAVE(c, J)) ->
       fresh[c] = 0; known[c] = 0; x = 0;
       if :: IN(0) && bound_of[AT(c, 0)] > x -> x = bound_of[AT(c, 0)]; known[c] = bound[AT(c, 0)] :: else fi;
       if :: IN(1) && bound_of[AT(c, 1)] > x -> x = bound_of[AT(c, 1)]; known[c] = bound[AT(c, 1)] :: else fi;
       /* J's own word of the plan counts if it has acted on it, of an Install always */
       if :: (step[AT(c, J)] > 0 || bound_of[AT(c, J)] > 1) && bound_of[AT(c, J)] > x -> known[c] = bound[AT(c, J)] :: else fi;
       if :: IN(0) -> fresh[c] = MAX(fresh[c], step[AT(c, 0)] + 1) :: else fi;
       if :: IN(1) -> fresh[c] = MAX(fresh[c], step[AT(c, 1)] + 1) :: else fi;
       if :: step[AT(c, J)] > 0 -> fresh[c] = MAX(fresh[c], step[AT(c, J)] + 1) :: else fi;
       told[c] = 1; x = 0 }
  od
}

/* One bound out of two columns' words. A bound that one column knows was announced there, so the other's root has promised not
   to pass it; if the other knows nothing, nobody is beyond it. */
inline combine(c) {
  if
#ifdef NO_SHARE
  :: known[c] != 0 -> final[c] = known[c]
  :: else -> final[c] = MAX(fresh[0], fresh[1])
#elif defined(PER_COLUMN)
  :: known[c] != 0 -> final[c] = known[c]
  :: else -> final[c] = (known[1 - c] != 0 && fresh[c] <= known[1 - c] -> known[1 - c] : fresh[c])
#elif defined(FRESH_OF_ALL)
  :: known[c] != 0 -> final[c] = known[c]
  :: else ->
     /* the latest fresh bound of this newcomer, and of the second one, whose bound is fresh in both columns */
     x = fresh[c];
     if :: known[1 - c] == 0 -> x = MAX(x, fresh[1 - c]) :: else fi;
#ifdef SECOND
     x = MAX(x, fresh[1 - c]);
#endif
     final[c] = (known[1 - c] != 0 && x <= known[1 - c] -> known[1 - c] : x)
#else
  :: known[c] != 0 -> final[c] = known[c]
  :: known[c] == 0 && known[1 - c] != 0 -> final[c] = MAX(known[1 - c], fresh[c])
  :: else -> final[c] = MAX(fresh[0], fresh[1])
#endif
  fi;
  x = 0
}

#define START(who) \
  if :: plan == 2 -> inside = true :: else -> skip fi; \
  if :: plan < 2 -> plan = 3 :: else fi; \
  lost = (lost == 9 -> (who) : lost); \
  if :: lost < 9 -> with[lost] = 0; without[lost] = 0 :: else fi; \
  change = (change == 0 -> 2 : change + 1); changes--; told[0] = 0; told[1] = 0; installable = false

proctype Coordinator() {
  byte x;
  do
  :: d_step { plan == 1 && said[0] != 0 && said[1] != 0 && change == 0 -> plan = 2;
#ifdef NO_MAX
       agreed[0] = said[0]; agreed[1] = said[1]
#else
       agreed[0] = MAX(said[0], said[1]); agreed[1] = agreed[0]
#endif
     ; said[0] = 0; said[1] = 0 }
  /* somebody did not answer, or a replica is lost; the whole replica leaves. A newcomer that was not announced may come along. */
  :: d_step { changes > 0 -> START(9) }
#ifndef NO_LOSS
  :: d_step { changes > 0 && lost == 9 -> START(0) }
#endif
  :: d_step { changes > 0 && lost == 9 && plan < 2 && change == 0 -> START(9); inside = true }
  :: d_step { change > 0 && told[0] == 1 && told[1] == 1 && !installable ->
       if :: inside -> combine(0); combine(1) :: else fi; installable = true; known[0] = 0; known[1] = 0; fresh[0] = 0; fresh[1] = 0 }
  :: d_step { timeout ->
       /* nothing moves any more: all who are in are at the last step, and J has begun unless its bound lies beyond */
       MUST(progress, !IN(0) || (step[AT(0, 0)] == T && step[AT(1, 0)] == T));
       MUST(progress, !IN(1) || (step[AT(0, 1)] == T && step[AT(1, 1)] == T));
       MUST(progress, bound[AT(0, J)] == 0 || bound[AT(0, J)] > T || step[AT(0, J)] > 0);
       MUST(progress, bound[AT(1, J)] == 0 || bound[AT(1, J)] > T || step[AT(1, J)] > 0) } -> break
  od;
end: do :: false od
}

init { atomic { run Column(0); run Column(1); run Coordinator() } }
