/* libftar: raw pieces that outlive a change (rule F5, direct plan). R owns a chunk; S, who stays, and X, who is left out, each send
 * their raw input of it. A piece arrives in two halves, whole or with a wrong bit. After the change R keeps the pieces that may be
 * kept, says so in its credit, gets the rest again, and reduces.
 *
 * Property right_bytes: what R reduces are whole, unharmed pieces of the grid in force, of exactly the members of the new view.
 * Property progress: R reduces in the end.
 *
 * Mutations:
 *   GRID_BY_N     the chunk grid depends on the number of members
 *   KEEP_HALF     a piece counts that has not come whole
 *   NO_CHECKSUM   a piece counts whose checksum is wrong
 *   NO_LIST       S does not send again what it has sent, instead of asking what lies there
 *   KEEP_LEAVERS  the pieces of who is left out count, too
 */
#define MUST(name, p) assert(name || (p))
hidden byte right_bytes, progress;
#define NONE 0
#define HALF 1
#define HARMED 2
#define WHOLE 3
#define S 0
#define X 1

byte piece[2];            /* of each sender, as it lies at R */
byte grid[2];             /* number of members that the grid was made for */
byte members = 3;
bool sent[2];             /* by the sender's own account, in the old attempt */
bool status, credit, keeps, sending, resent, reduced;
bool kept[2];

#ifdef GRID_BY_N
#define GRID members
#else
#define GRID 3            /* the operation's own */
#endif
#ifdef KEEP_HALF
#define COUNTS(p) (piece[p] != NONE && piece[p] != HARMED)
#elif defined(NO_CHECKSUM)
#define COUNTS(p) (piece[p] >= HARMED)
#else
#define COUNTS(p) (piece[p] == WHOLE)
#endif
#ifdef KEEP_LEAVERS
#define MINE(p) true
#else
#define MINE(p) ((p) == S)
#endif

proctype Sender(byte p) {
  do
  :: d_step { !status && !sent[p] -> sent[p] = true; piece[p] = HALF; grid[p] = GRID }
  /* the second half; whatever was not here at the freeze is lost or goes nowhere (F2) */
  :: d_step { !status && sent[p] && piece[p] == HALF -> piece[p] = WHOLE }
  :: d_step { !status && sent[p] && piece[p] == HALF -> piece[p] = HARMED }
#ifdef NO_LIST
#define SKIPS sent[S]
#else
#define SKIPS keeps
#endif
  :: d_step { p == S && credit && !SKIPS && !resent -> resent = true; piece[S] = HALF; grid[S] = GRID; kept[S] = false }
  :: d_step { p == S && resent && piece[S] == HALF -> piece[S] = WHOLE }
  :: d_step { p == S && resent && piece[S] == HALF -> resent = false; piece[S] = NONE }    /* harmed: asked for again */
  od
}

proctype Receiver() {
  d_step { !status -> status = true; kept[S] = COUNTS(S); kept[X] = COUNTS(X) && MINE(X) }
  d_step { members = 2; credit = true; keeps = kept[S] }
  do
  :: d_step { !reduced && (kept[S] || (resent && piece[S] == WHOLE)) -> reduced = true;
       MUST(right_bytes, piece[S] == WHOLE && grid[S] == GRID);
       MUST(right_bytes, !kept[X]) }
  :: d_step { timeout -> MUST(progress, reduced) } -> break
  od;
end: do :: false od
}

init { atomic { run Sender(S); run Sender(X); run Receiver() } }
