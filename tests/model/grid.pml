/* libftar: the chunk grid is settled by the first attempt (rule F5 as built). Four members, two of whom are lost, one after the other;
 * whoever is left may call the operation at any time. Who begins it first takes the grid from the view of that attempt (here: from how
 * many are in), who begins it after a change the one that the leader tells, and keeps it from then on.
 *
 * Property same_grid: two members that are in an attempt together have one grid, so that a piece of the one is a piece of the other.
 * Property kept_grid: the grid of who has begun never changes, so that what lies there stays what it was.
 *
 * Mutations:
 *   OF_TODAY      each attempt cuts anew
 *   UNTOLD        the leader tells no grid: who begins late takes that of its own view
 *   OVERRULED     who has begun takes what it is told, and the leader tells the grid of the new view
 */
#define MUST(name, p) assert(name || (p))
hidden byte same_grid, kept_grid;
#define N 4
#define NONE 0

byte grid[N];         /* the members that its pieces were cut for; NONE: has not begun */
byte since[N];        /* in which era it began */
bool in[N];
byte told[N];         /* by the verdict of this era */
byte era, members = N;
byte leader_told, oldest, m;

inline Begin(p) {
  d_step {
    in[p] && grid[p] == NONE ->
      since[p] = era;
      if
      :: told[p] != NONE -> grid[p] = told[p]
      :: else -> grid[p] = members
      fi
  }
}

/* The leader has the statuses of all who stay: nobody begins anything between them and the verdict. */
inline Change(lost) {
  d_step {
    in[lost] -> in[lost] = false; members--; era++;
    leader_told = NONE; oldest = 255; m = 0;
    do
    :: m < N ->
      if
      :: in[m] && grid[m] != NONE && since[m] < oldest -> leader_told = grid[m]; oldest = since[m]
      :: else
      fi; m++
    :: else -> break
    od;
#ifdef UNTOLD
    leader_told = NONE;
#endif
#ifdef OVERRULED
    leader_told = members;
#endif
    m = 0;
    do
    :: m < N ->
      told[m] = leader_told;
#ifdef OF_TODAY
      if :: in[m] && grid[m] != NONE -> MUST(kept_grid, grid[m] == members); grid[m] = members :: else fi;
#endif
#ifdef OVERRULED
      if :: in[m] && grid[m] != NONE -> MUST(kept_grid, grid[m] == told[m]); grid[m] = told[m] :: else fi;
#endif
      m++
    :: else -> break
    od
  }
}

/* All who are in and have begun are in the attempt of this era. */
inline Look() {
  d_step {
    byte first = NONE; m = 0;
    do
    :: m < N ->
      if
      :: in[m] && grid[m] != NONE -> MUST(same_grid, first == NONE || first == grid[m]); first = grid[m]
      :: else
      fi; m++
    :: else -> break
    od; first = NONE
  }
}

proctype Member(byte p) { Begin(p); Look() }

proctype Fate() {
  if :: Change(0) :: Change(1) :: Change(2) :: Change(3) fi; Look();
  if :: Change(0) :: Change(1) :: Change(2) :: Change(3) :: true fi; Look()
}

init {
  atomic {
    m = 0;
    do :: m < N -> in[m] = true; m++ :: else -> break od;
    run Fate(); run Member(0); run Member(1); run Member(2); run Member(3)
  }
}
