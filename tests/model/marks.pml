/* libftar: marks of steps that newcomers and leavers need (rules J4, J5). A newcomer that has not heard where its first step begins, and a
 * leaver that has not heard where the step at its end does, must be told by whoever is the root, however far it is ahead by then.
 *
 * One column: R, its root, and B have always been in, N begins at step FIRST, L ends before step END. One operation a step. The root
 * says where each step begins that it begins; nobody else begins a step before it has heard that of the one before. Who takes part in
 * an operation has delivered it when all have begun its step. The root is at most W steps ahead of that.
 *
 * Everybody keeps the newest KEEP marks, as it begins a step or hears of it, and those that a bound needs. A change may come at any time and
 * R may be lost in it; what was on the way is void, and so are marks of steps that no survivor has begun. Each installs at its own time.
 * The root tells everybody the marks that it has kept, then the new ones. N begins at the first mark at or behind FIRST that it hears
 * of; L goes when it has delivered what comes before the first mark at or behind END.
 *
 * Property right_step: N begins at FIRST.
 * Property progress: all get to the last step, and L goes.
 *
 * Mutations:
 *   NO_BEGINNING  the mark where N begins is kept no longer than others
 *   NO_END        that at L's end
 *   ROOT_ALONE    the root alone keeps such marks
 */
#ifndef T
#define T 5
#endif
#ifndef KEEP
#define KEEP 2
#endif
#ifndef W
#define W 3
#endif
#ifndef FIRST
#define FIRST 2                /* beyond T: N is not there */
#endif
#ifndef END
#define END 1                  /* L is not there */
#endif
#ifndef CHANGES
#define CHANGES 1
#endif
#define MUST(name, p) assert(name || (p))
hidden byte right_step, progress;

#define R 0
#define B 1
#define N 2
#define L 3
#define BIT(x, i) (((x) >> (i)) & 1)
#define ONE(i) (1 << (i))
#define MAX(a, b) ((a) > (b) -> (a) : (b))

byte step[4], done[4];         /* begun, delivered */
byte marks[4];                 /* bit t: keeps the mark of step t */
byte sent, heard[4];           /* in this era: what the root has said, and the last step that m has heard of */
byte frozen = 4;               /* N has not installed the view that takes it in */
bool lost, gone;               /* R; L */
byte changes = CHANGES;

#define ROOT (lost -> B : R)
#define IN(m) ((m) == R -> !lost : ((m) == L -> END > 1 : ((m) == N -> FIRST <= T : true)))
#define ACTS(m) (IN(m) && !BIT(frozen, m))
#define TAKES(m, t) (IN(m) && ((m) != N || (t) >= FIRST) && ((m) != L || (t) < END))
#define HAS(m, t) (!TAKES(m, t) || (step[m] >= (t) && !BIT(frozen, m)))
#define ENTERED (step[N] > 0)

/* The first of the marks of m at or behind a bound. */
#define NONE_FROM_TO(m, from, to) ((marks[m] & (ONE(to) - ONE(from))) == 0)
#define FIRST_BEHIND(m, t, bound) ((t) >= (bound) && NONE_FROM_TO(m, bound, t))
#ifdef ROOT_ALONE
#define KEEPS(m) ((m) == ROOT)
#else
#define KEEPS(m) true
#endif
#ifdef NO_BEGINNING
#define FOR_N(m, t) false
#else
#define FOR_N(m, t) (FIRST_BEHIND(m, t, FIRST) && done[m] < (t))
#endif
#ifdef NO_END
#define FOR_L(m, t) false
#else
#define FOR_L(m, t) (END > 1 && FIRST_BEHIND(m, t, END))
#endif
#define NEEDED(m, t) (KEEPS(m) && (FOR_N(m, t) || FOR_L(m, t)))

/* The oldest that no bound needs goes if there are too many. */
inline keep(m, t) {
  marks[m] = marks[m] | ONE(t); n = 0; x = 1;
  do :: x <= T -> n = n + BIT(marks[m], x); x++ :: else -> break od;
  x = 1;
  do
  :: n <= KEEP || x > T -> break
  :: n > KEEP && x <= T && BIT(marks[m], x) && !NEEDED(m, x) -> marks[m] = marks[m] & (255 - ONE(x)); n--; x++
  :: else -> x++
  od;
  n = 0; x = 0
}
byte x, n;

inline begin(m) {
  step[m]++; keep(m, step[m]);
  if :: m == ROOT -> sent = sent | ONE(step[m]) :: else fi
}
inline enter() {
  x = FIRST;
  do :: x <= T && !BIT(marks[N], x) -> x++ :: else -> break od;
  if
  :: x <= T && !ENTERED -> MUST(right_step, x == FIRST); step[N] = x; done[N] = x - 1
  :: else
  fi;
  x = 0
}

#define NEXT(m) (step[m] + 1)
#define FOLLOWS(m) (m == ROOT || step[m] == 0 || heard[m] >= step[m])
proctype Member(byte m) {
  do
  :: d_step { ACTS(m) && (m != N || ENTERED) && NEXT(m) <= T && TAKES(m, NEXT(m)) && NEXT(m) <= done[m] + W && FOLLOWS(m) -> begin(m) }
  :: d_step { ACTS(m) && done[m] < step[m] && HAS(R, done[m] + 1) && HAS(B, done[m] + 1) && HAS(N, done[m] + 1) && HAS(L, done[m] + 1) ->
       done[m]++ }
  /* the next of what the root has said */
  :: d_step { ACTS(m) && m != ROOT && (sent >> (heard[m] + 1)) != 0 ->
       heard[m]++;
       do :: !BIT(sent, heard[m]) -> heard[m]++ :: else -> break od;
       keep(m, heard[m]);
       if :: m == N -> enter() :: else fi }
  :: d_step { BIT(frozen, m) && IN(m) ->
       frozen = frozen & (255 - ONE(m));
       if :: m == ROOT -> sent = marks[m] :: else fi;
       if :: m == N -> enter() :: else fi }
  :: d_step { m == L && ACTS(L) && !gone && END > 1 && done[L] == END - 1 && BIT(marks[L], END) -> gone = true }
  od
}

#define REACHED (MAX(lost -> 0 : step[R], MAX(step[B], MAX(step[N], step[L]))))
inline change() {
  changes--; sent = 0; frozen = 15; heard[R] = 0; heard[B] = 0; heard[N] = 0; heard[L] = 0;
  n = 0; x = REACHED;
  do :: n < 4 -> marks[n] = marks[n] & (ONE(x + 1) - 1); n++ :: else -> break od;
  n = 0; x = 0
}
#define DONE(m) (!IN(m) || done[m] == T)
proctype Coordinator() {
  do
  :: d_step { changes > 0 -> changes = 0 }
  :: d_step { changes > 0 -> change() }
  :: d_step { changes > 0 && !lost -> lost = true; change() }
  :: d_step { timeout -> MUST(progress, DONE(R) && DONE(B) && DONE(N) && (!IN(L) || gone)) } -> break
  od;
end: do :: false od
}

init { atomic { run Member(R); run Member(B); run Member(N); run Member(L); run Coordinator() } }
