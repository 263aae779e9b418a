/* libftar: behind the end of a leaver (rules J3, J5). Whoever goes on there may be lost with all that it delivered, and those who are
 * left must not give the same numbers to anybody else.
 *
 * One column: A, its root, and B stay, L asks to leave, N comes by a change. Operations 1 to K in order, one at a time. What happens
 * inside of one is left to verdict.pml: a member may deliver it when all of its attempt have called it, and a change commits what all
 * had called by then. How announcements get ahead of operations is left to boundary.pml: nobody who does not know of the end starts
 * one behind it while the root that announced it is in.
 *
 * L's end is E: it takes part below it. The announcement reaches B and L late or never. A change loses one or two of A, B and L, who may go on
 * in the view that they had; the verdicts reach all survivors at once, the new view one after the other. It may take N in.
 * NO_B: B is not there. CUT: the link between B and L may end; what L has said and B has not heard is lost then, and L is lost for it unless
 * it has gone already.
 * BETWEEN: B is a newcomer that was announced behind L's end, of which all have heard by then (a root takes up no plan before). Its first
 * operation is FB, and between the two A is alone.
 *
 * Property one_result: an operation is delivered with one set of participants.
 * Property progress: whoever is in and stays gets to the end, and who leaves goes. N is in, or nobody stays that it could go on with.
 *
 * Mutations:
 *   UNHEARD          operations behind an end do not wait for the word of who leaves that it knows of it
 *   ANNOUNCED_ONLY   they do after an announcement, and not after an Install, which may have reached few
 *   LEAVER_STAYS     N takes over from a leaver that has been given its end
 *   ANYWHERE         N may begin before the first operation of whoever stays
 *   LET_GO_UNHEARD   who waits for the word of L is ready to let L go
 */
#ifndef K
#define K 3
#endif
#ifndef CHANGES
#define CHANGES 2
#endif
#define MUST(name, p) assert(name || (p))
hidden byte one_result, progress;

#define A 0
#define B 1
#define L 2
#define N 3
#define E 2
#ifdef BETWEEN
#define FB 3
#else
#define FB 1
#endif
#ifdef NO_B
#define ALL 5
#else
#define ALL 7
#endif
#define BIT(x, i) (((x) >> (i)) & 1)
#define ONE(m) (1 << (m))
#define MAX(a, b) ((a) > (b) -> (a) : (b))

byte view[4] = ALL;          /* the members of the view that each has installed */
byte done[4], called[4];     /* the last operation that it has delivered, and called */
byte ends;                   /* bit m: the view of m has L's end */
byte word;                   /* bit m: m has heard L say that it knows of its end */
byte moved;                  /* bit m: has installed the view of a change */
byte frozen;                 /* bit m: has promised a newer view than it has installed */
byte members = ALL;          /* of the newest view */
byte first, begins[4];       /* N's first operation, and as the view of each has it */
bool known;                  /* the newest view has L's end */
bool announced, said;        /* by A; L's word on the way in the first view */
bool cut, gone;
bool back;                   /* N is turned back */
byte changes = CHANGES;
byte lost;                   /* who was left out of a change, and may go on all the same */
byte with[4], whole[4];      /* of whom: who was left out with it, and which operation was complete everywhere */
byte by[K + 1];              /* the participants with whom it was delivered first */

/* The participants of operation k as m knows them. */
#define TAKES(m, x, k) (BIT(view[m], x) && !((x) == L && BIT(ends, m) && (k) >= E) && !((x) == N && (k) < begins[m]) && \
  !((x) == B && (k) < FB))
#define PARTS(m, k) (TAKES(m, A, k) | TAKES(m, B, k) << B | TAKES(m, L, k) << L | TAKES(m, N, k) << N)
#define IN(m) (BIT(members, m) && !((m) == L && gone))
#define ACTS(m) (!BIT(frozen, m) && (BIT(lost, m) || IN(m)))
#define STAYS(m) (IN(m) && !((m) == L && known))

#ifdef UNHEARD
#define HEARD(m, k) true
#else
#define HEARD(m, k) (!BIT(ends, m) || (k) < E || !BIT(view[m], L) || BIT(word, m))
#endif
/* Whoever delivers the operation before L's end has heard of that one from the root, and so of the end (boundary.pml). */
#define TOLD(m, k) ((k) < E || BIT(ends, m) || !announced || BIT(moved, m))
#define NEXT(m) (done[m] + 1)
#define MAY_CALL(m) (ACTS(m) && called[m] < NEXT(m) && NEXT(m) <= K && TAKES(m, m, NEXT(m)) && HEARD(m, NEXT(m)) && \
  TOLD(m, NEXT(m)))

/* Has x called k, in the era that m is in? Of those who have gone on without m it counts what was complete everywhere by then. */
#define CALLED(m, x, k) (!TAKES(m, x, k) || (x) == (m) || (called[x] >= (k) && !BIT(frozen, x) && \
  (BIT(lost, m) -> BIT(with[m], x) : !BIT(lost, x))))
#define ALL_CALLED(m, k) (called[m] >= (k) && CALLED(m, A, k) && CALLED(m, B, k) && CALLED(m, L, k) && CALLED(m, N, k))
#define MAY_DELIVER(m) (ACTS(m) && called[m] == NEXT(m) && (ALL_CALLED(m, NEXT(m)) || (BIT(lost, m) && whole[m] == NEXT(m))))

inline deliver(m) {
  done[m]++;
  if :: by[done[m]] == 0 -> by[done[m]] = PARTS(m, done[m]) :: else fi;
  MUST(one_result, by[done[m]] == PARTS(m, done[m]))
}

inline install(m) {
  view[m] = members; begins[m] = first; frozen = frozen & (15 - ONE(m)); moved = moved | ONE(m);
  ends = (ends & (15 - ONE(m))) | (known << m);
#ifdef ANNOUNCED_ONLY
  word = word | ONE(m);
#else
  word = word & (15 - ONE(m));
#endif
  if
  :: (m) == N && done[N] == 0 -> done[N] = first - 1; called[N] = first - 1
  :: else
  fi
}

/* J5: L is needed no more, and nobody waits for its word. */
#ifdef LET_GO_UNHEARD
#define READY(m) (!STAYS(m) || (!BIT(frozen, m) && BIT(ends, m) && NEXT(m) >= E))
#else
#define READY(m) (!STAYS(m) || (!BIT(frozen, m) && BIT(ends, m) && NEXT(m) >= E && BIT(word, m)))
#endif

proctype Member(byte m) {
  do
  :: d_step { MAY_CALL(m) -> called[m] = NEXT(m) }
  :: d_step { MAY_DELIVER(m) -> deliver(m) }
  :: d_step { BIT(frozen, m) && IN(m) -> install(m) }
  /* The root announces when nobody can have begun what lies behind the end (J3); the others hear of it in the view that they share. */
  :: d_step { m == A && !announced && ACTS(A) && !BIT(moved, A) && called[A] + 1 < E -> announced = true; ends = ends | ONE(A) }
  :: d_step { m != A && m != N && announced && ACTS(m) && !BIT(moved, m) && !BIT(ends, m) -> ends = ends | ONE(m); said = said || m == L }
  /* L's word. */
  :: d_step { m != L && !BIT(word, m) && BIT(ends, m) && ACTS(m) && !(m == B && cut) &&
       (BIT(moved, m) -> !BIT(lost, m) && IN(L) && BIT(moved, L) && BIT(ends, L) && !BIT(frozen, L) : said) -> word = word | ONE(m) }
  :: d_step { m == L && ACTS(L) && !BIT(lost, L) && BIT(ends, L) && NEXT(L) >= E && READY(A) && READY(B) && READY(N) -> gone = true }
  od
}

/* ---- changes */

byte s, all;                 /* who survives; whose next operation all have called */

inline lose(m) {
  if
  :: BIT(members & (15 - s), m) ->
       with[m] = members & (15 - s);
       if :: ALL_CALLED(m, NEXT(m)) -> whole[m] = NEXT(m) :: else fi
  :: else
  fi
}
/* V3: what all of an attempt had called may have been delivered, and is committed. */
inline look(m) {
  if :: BIT(s, m) && !BIT(frozen, m) && called[m] == NEXT(m) && ALL_CALLED(m, NEXT(m)) -> all = all | ONE(m) :: else fi
}
inline commit(m) {
  if :: BIT(all, m) -> deliver(m) :: else fi
}

#define OLD(m) (BIT(s, m) && (m) != N)
#ifdef LEAVER_STAYS
#define OLD_STAYS (OLD(A) || OLD(B) || OLD(L))
#else
#define OLD_STAYS (OLD(A) || OLD(B) || (OLD(L) && !known))
#endif
/* Where the first of those begins who stay. */
#ifdef ANYWHERE
#define EARLIEST 1
#else
#define EARLIEST ((OLD(A) || (OLD(L) && !known)) -> 1 : FB)
#endif
#define BY(m) (OLD(m) && ((m) != B || called[B] >= FB) -> called[m] : 0)
#define FRESH (MAX(MAX(BY(A), BY(B)), BY(L)) + 1)

#define HAS_N(m) (BIT(s, m) && BIT(view[m], N))
/* The change of all but `out`, with N or not. What any survivor knows of bounds stands (J1). */
inline change(out, take) {
  s = members & (15 - (out)) & (15 - (gone -> ONE(L) : 0));
  lose(A); lose(B); lose(L);
  look(A); look(B); look(L); look(N);
  commit(A); commit(B); commit(L); commit(N);
  known = (ends & s) != 0;
  if
  :: !(take) && !BIT(members, N) -> skip
  :: HAS_N(A) -> first = begins[A]
  :: HAS_N(B) -> first = begins[B]
  :: HAS_N(L) -> first = begins[L]
  :: HAS_N(N) -> first = begins[N]
  :: else ->
       s = s & 7;
       if
       :: OLD_STAYS -> first = MAX(FRESH, EARLIEST); s = s | ONE(N)
       :: else -> back = true
       fi
  fi;
  lost = lost | (members & (15 - s) & 7); members = s; frozen = frozen | s; s = 0; all = 0
}

#define CHANGE(out, take) \
  :: d_step { changes > 0 && (members & (out)) == (out) && (!(take) || (!BIT(members, N) && !back)) && !((out) == 0 && !(take)) && \
       !(gone && ((out) & ONE(L))) -> changes--; change(out, take) }

#define DONE(m) (!STAYS(m) || done[m] == K)

proctype Coordinator() {
  do
  :: d_step { changes > 0 -> changes = 0 }
  CHANGE(0, true)
  CHANGE(ONE(A), false)
  CHANGE(ONE(A), true)
  CHANGE(ONE(B), false)
  CHANGE(ONE(B), true)
  CHANGE(ONE(L), false)
  CHANGE(ONE(A) | ONE(B), false)
  CHANGE(ONE(A) | ONE(B), true)
#ifdef CUT
  :: d_step { !cut && IN(B) && IN(L) -> cut = true }
  :: d_step { cut && IN(B) && IN(L) -> change(ONE(L), false) }
#endif
  :: d_step { timeout -> MUST(progress, DONE(A) && DONE(B) && DONE(N) && (!IN(L) || (!known && DONE(L)))) } -> break
  od;
end: do :: false od
}

init { atomic {
#ifdef BETWEEN
  announced = true; said = true; ends = ALL; word = ONE(A) | ONE(B); done[B] = FB - 1; called[B] = FB - 1;
#endif
  run Member(A); run Member(B); run Member(L); run Member(N); run Coordinator() } }
