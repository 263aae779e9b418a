/* libftar: boundaries of joins and planned leaves against a failure view change (rules J1 to J6 with V1 to V4).
 *
 * As in verdict.pml, messages are monotone facts that may be received at any later time, in any order or never.
 * N members, K ops in seq order, window W, one chunk an op, V view instances in the order of their epochs (one
 * coordinator, no restart). JOIN: member N-1 starts outside. LEAVE: member LX asks to leave at any time.
 * A view is {mask, first_seq of the joiner, last_seq of the leaver}; all others have 0 and infinity.
 *
 * Planned view pv on base e from op b on: issued by the coordinator, confirmed by the joiner, announced by the root of e
 * with the stability token of an op s of e, b >= s+W+1. A member that learns the token has pv: ops before b stay
 * in e, ops from b on are of pv. Failure view v: Prepare, Status of all, the leader decides verdicts and boundaries, Install.
 * Idle or forced join: the joiner is in a Prepare. J runs out, dies, is evicted like all others.
 *
 * Budgets: F crashes, S false suspicions, P same-set re-Prepares, Q replaced plans, D joins by Prepare.
 *
 * Mutations:
 *   RAISE        text rule: a failure view sets first_seq = highest called + 1 even if a boundary is known or the joiner has called
 *   VOID_LEAVE   text rule: a failure view forgets a leave boundary that a survivor knows
 *   RETRY_ALL    the participants of a retry are all members of the new view
 *   JDELIVERED   the joiner's delivered-through is first_seq - 1
 *   BEARLY       b >= s+W            GAP         the window counts the newest token, not the run without gaps
 *   EARLYCALL    the joiner starts op b before the announcement is made
 *   LATE_ANN     an announcement is obeyed after a Prepare was promised
 *   LOWFIRST     join by Prepare: first_seq = highest delivered + 1
 *   NOSTANDIN    nobody calls for the leaver     EXITEARLY   it goes when it has delivered b-1 itself
 *   ANYTOKEN     a second plan rides on a token of an op before the first plan's b
 *   REUSEB       after a failure view the root announces the old plan again
 *   JALONE       a joiner that never was in forms a view alone
 */
#ifndef N
#define N 3
#endif
#ifndef K
#define K 3
#endif
#ifndef W
#define W 1
#endif
#ifndef V
#define V 4
#endif
#ifndef F
#define F 1
#endif
#ifndef S
#define S 1
#endif
#ifndef P
#define P 0
#endif
#ifndef Q
#define Q 0
#endif
#ifndef D
#define D 0
#endif
#define B(m) (1<<(m))

/* A property has a name, which the table of cases gives for each mutated model. The names are never set, and cost no state. */
#define MUST(name, p) assert(name || (p))
hidden byte delivered_is_complete, verdict_keeps_result, commit_is_complete, commit_reaches_callers, callers_are_inside,
  delivers_complete, all_contributed, one_result, leaver_goes, progress;
#define ALL ((1<<N)-1)
#ifdef JOIN
#define JJ (N-1)
#define JB B(N-1)
#else
#define JJ 99
#define JB 0
#endif
#ifdef LEAVE
#ifndef LX
#define LX 1
#endif
#define XB B(LX)
#else
#define LX 99
#define XB 0
#endif
#define INF 15

/* op record: bit 0 final, 2-4 attempt, 5 delivered, 6 commit verdict, 7 called */
#define FIN(x) ((x)&1)
#define ATT(x) (((x)>>2)&7)
#define DLV(x) (((x)>>5)&1)
#define CMT(x) (((x)>>6)&1)
#define CALLED(x) (((x)>>7)&1)
#define REC(fin,att,cmt) (128|((cmt)<<6)|((att)<<2)|(fin))
#define O(m,k) o[(m)*K+(k)]

byte alive = ALL;
byte left;                    /* went after a release */
byte ep[N], prom[N];
byte o[N*K];
byte mask[V], base[V], bnd[V];/* bnd: b of a planned view */
byte fj[V];                   /* first_seq of the joiner, as used for membership */
byte sj[V];                   /* the seq at which the joiner's own calls begin (the same but under RETRY_ALL) */
byte lx[V];                   /* last_seq + 1 of the leaver */
byte planned;                 /* bit v */
byte annd, conf;              /* bit v: announced, confirmed by the joiner */
byte nv = 1, cc, lastf;       /* next instance, newest one issued, newest failure view */
byte gave[V], sr[V*N], st[V*N*K];
byte dec, ver[V*K];
byte contrib[V*K], ack[V*K], tok[V*K];  /* tok: 0 none, 1 plain, 1+pv with an announcement */
byte res[K];
byte f = F, s = S, p = P, q = Q, d = D;
bool jin, lv, halted;

#define BIT(x,v) (((x)>>(v))&1)
#define AL(m) BIT(alive,m)
#define IN(m,v) BIT(mask[v],m)
#define MEMB(v,k) (mask[v] & (ALL - (((k) < fj[v]) -> JB : 0)) & (ALL - (((k) >= lx[v]) -> XB : 0)))
#define VT(v,k) (ver[(v)*K+(k)]>>3)
#define VA(v,k) (ver[(v)*K+(k)]&7)
#define UNFROZEN(m) (ep[m] == prom[m])
/* the view that op k belongs to, as far as a member with installed view v knows */
#define AT1(v,k) ((BIT(planned,v) && (k) < bnd[v]) -> base[v] : (v))
#define AT(v,k) AT1(AT1(v,k),k)
#define FIRSTOF(m,ms) (BIT(ms,m) && ((ms) & (B(m)-1)) == 0)
#define COMPLETE_IN(x) (CALLED(x) && FIN(x))

#ifdef GAP
#define KNOWS(m,k) (DLV(O(m,k)) || tok[AT(ep[m],k)*K+(k)] != 0)
#else
#define KNOWS(m,k) (DLV(O(m,k)))
#endif
#if W == 1
#define WIN(m,k) ((k) < 1 || ((m) == JJ && (k) < sj[ep[m]]+1) || KNOWS(m,((k)+K-1)%K))
#else
#define WIN(m,k) ((k) < 2 || ((m) == JJ && (k) < sj[ep[m]]+2) || KNOWS(m,((k)+K-2)%K))
#endif
#ifdef EARLYCALL
#define JMAY(m) true
#else
#define JMAY(m) ((m) != JJ || !BIT(planned,ep[m]) || BIT(annd,ep[m]))
#endif
#ifdef NOSTANDIN
#define XMAY(m) ((m) != LX || !lv)
#else
#define XMAY(m) true
#endif
#define PREVCALLED(m,k) ((k) == 0 || CALLED(O(m,((k)+K-1)%K)) || ((m) == JJ && (k) == sj[ep[m]]))
#define PREVDONE(m,k) ((k) == 0 || DLV(O(m,((k)+K-1)%K)) || ((m) == JJ && (k) == sj[ep[m]]))
#define MAYSTART(m,k) (AL(m) && UNFROZEN(m) && !CALLED(O(m,k)) && BIT(MEMB(AT(ep[m],k),k),m) && ((m) != JJ || (k) >= sj[ep[m]]) \
   && PREVCALLED(m,k) && WIN(m,k) && JMAY(m) && XMAY(m))

#define SERVES(h,v,k,a) (AL(h) && AT(ep[h],k)==(v) && COMPLETE_IN(O(h,k)) && ATT(O(h,k))==(a))
#if N == 3
#define SOMEONE(v,k,a) (SERVES(0,v,k,a) || SERVES(1,v,k,a) || SERVES(2,v,k,a))
#elif N == 4
#define SOMEONE(v,k,a) (SERVES(0,v,k,a) || SERVES(1,v,k,a) || SERVES(2,v,k,a) || SERVES(3,v,k,a))
#else
#define SOMEONE(v,k,a) (SERVES(0,v,k,a) || SERVES(1,v,k,a))
#endif

inline start(m, k) {
  a = AT(ep[m],k);
  if :: VT(a,k) == 2 -> O(m,k) = REC(0, VA(a,k), 0)
     :: else -> O(m,k) = REC(0, a, 0); contrib[a*K+k] = contrib[a*K+k] | B(m)
  fi; a = 0
}
inline finish(m, k) { O(m,k) = O(m,k) | 1; ack[AT(ep[m],k)*K+k] = ack[AT(ep[m],k)*K+k] | B(m) }

inline deliver(m, k) {
  MUST(delivers_complete, FIN(O(m,k)));
  a = ATT(O(m,k));
  MUST(all_contributed, ((contrib[a*K+k]|left) & MEMB(a,k)) == MEMB(a,k));   /* everybody in the result has contributed */
  O(m,k) = O(m,k) | 32;
  if :: res[k] == 0 -> res[k] = MEMB(a,k) :: else -> MUST(one_result, res[k] == MEMB(a,k)) fi;
  if :: !CMT(O(m,k)) && tok[AT(ep[m],k)*K+k] > 1 ->
        a = tok[AT(ep[m],k)*K+k] - 1;
#ifdef LATE_ANN
        if :: ep[m] == base[a] -> ep[m] = a; prom[m] = a :: else fi
#else
        if :: UNFROZEN(m) && ep[m] == base[a] -> ep[m] = a; prom[m] = a :: else fi
#endif
     :: else fi;
  a = 0
}

/* boundaries and verdicts of failure view v, by the leader, from the Status of all */
inline decide(v) {
  /* highest seq called (or, mutation, delivered) by any survivor; newest reported view that binds the joiner, the leaver */
  hi = 0; jv = 0; xv = 0; i = 0;
  do :: i < N ->
     if :: IN(i,v) ->
           k = 0;
           do :: k < K ->
#ifdef LOWFIRST
                 if :: DLV(st[(v*N+i)*K+k]) && k+1 > hi -> hi = k+1 :: else fi;
#else
                 if :: CALLED(st[(v*N+i)*K+k]) && k+1 > hi -> hi = k+1 :: else fi;
#endif
                 if :: i == JJ && CALLED(st[(v*N+i)*K+k]) && sr[v*N+i] > jv -> jv = sr[v*N+i] :: else fi;
                 k++
              :: else -> break od;
           x = sr[v*N+i];
           if :: (mask[x] & JB) && (i != JJ || !BIT(planned,x)) && x > jv -> jv = x :: else fi;
           if :: lx[x] != INF && x > xv -> xv = x :: else fi
        :: else fi; i++
     :: else -> break od;
#ifdef RAISE
  fj[v] = hi;
#else
  if :: jv != 0 -> fj[v] = sj[jv] :: else -> fj[v] = hi fi;
#endif
#ifndef JALONE
  if :: jv == 0 && mask[v] == JB -> halted = true; fj[v] = INF :: else fi;   /* a joiner alone is no view: it has no state */
#endif
  sj[v] = fj[v];
#ifdef RETRY_ALL
  fj[v] = 0;
#endif
#ifdef VOID_LEAVE
  lx[v] = INF;
#else
  if :: xv != 0 -> lx[v] = lx[xv] :: else -> lx[v] = INF fi;
#endif
  k = 0;
  do
  :: k < K ->
     isdlv = 0; datt = 0; same = 1; i = 0; first = 255; hi = 0;
     do
     :: i < N ->
        if :: IN(i,v) ->
              x = st[(v*N+i)*K+k];
#ifdef JDELIVERED
              if :: i == JJ && sr[v*N+i] != 0 && k < sj[sr[v*N+i]] -> x = REC(1, 0, 0) | 32 :: else fi;
#endif
              if :: DLV(x) -> isdlv = 1; datt = ATT(x) :: else fi;
              if :: COMPLETE_IN(x) && ATT(x) >= hi -> hi = ATT(x)+1 :: else fi;
              if :: BIT(MEMB(v,k),i) ->
                    if :: !COMPLETE_IN(x) -> same = 0
                       :: else -> if :: first == 255 -> first = ATT(x) :: else -> if :: first != ATT(x) -> same = 0 :: else fi fi
                    fi
                 :: else fi
           :: else fi;
        i++
     :: else -> break
     od;
     if
     :: isdlv && MEMB(v,k) != 0 -> ver[v*K+k] = 8 + datt; MUST(delivered_is_complete, same && first == datt)
     :: !isdlv && same && first != 255 -> ver[v*K+k] = 8 + first
     :: else -> if :: hi > 0 && MEMB(v,k) != 0 -> ver[v*K+k] = 16 + hi - 1 :: else -> ver[v*K+k] = 24 fi
     fi;
     MUST(verdict_keeps_result, res[k] == 0 || MEMB(v,k) == 0 || (v != lastf && VT(v,k) != 1) || (VT(v,k) != 3 && MEMB(VA(v,k),k) == res[k]));
     k++
  :: else -> break
  od;
  dec = dec | B(v);
  i = 0; do :: i < N*K -> st[v*N*K+i] = 0; i++ :: else -> break od;
  i = 0; do :: i < N -> sr[v*N+i] = 0; i++ :: else -> break od;
  i = 0; k = 0; x = 0; hi = 0; same = 0; isdlv = 0; datt = 0; first = 0; jv = 0; xv = 0
}

inline install(m, v) {
  ep[m] = v; k = 0;
  do
  :: k < K ->
     x = O(m,k);
     if
     :: DLV(x) -> skip
     :: !DLV(x) && !BIT(MEMB(v,k),m) -> MUST(callers_are_inside, !CALLED(x))      /* nobody who has called an op is put outside of it */
     :: !DLV(x) && BIT(MEMB(v,k),m) && CALLED(x) ->
        if
        :: VT(v,k) == 1 -> MUST(commit_is_complete, FIN(x) && ATT(x) == VA(v,k)); O(m,k) = REC(1, VA(v,k), 1)
        :: VT(v,k) == 2 ->
           if :: FIN(x) && ATT(x) == VA(v,k) -> O(m,k) = REC(1, VA(v,k), 0); ack[v*K+k] = ack[v*K+k] | B(m)
              :: else -> O(m,k) = REC(0, VA(v,k), 0) fi
        :: else -> O(m,k) = REC(0, v, 0); contrib[v*K+k] = contrib[v*K+k] | B(m)
        fi
     :: else -> MUST(commit_reaches_callers, VT(v,k) != 1)
     fi;
     k++
  :: else -> break
  od;
  k = 0; x = 0
}

/* all others of X's view have it and know b-1 stable: the root releases X */
#define HASALL(i,v) (i == LX || !IN(i,v) || (ep[i] == (v) && DLV(O(i,(lx[v]+K-1)%K))))
#if N == 3
#define RELEASED(v) (HASALL(0,v) && HASALL(1,v) && HASALL(2,v))
#elif N == 4
#define RELEASED(v) (HASALL(0,v) && HASALL(1,v) && HASALL(2,v) && HASALL(3,v))
#endif
#ifdef EXITEARLY
#define MAYEXIT(v) true
#else
#define MAYEXIT(v) RELEASED(v)
#endif

proctype Member(byte m) {
  byte i, k, x, a, hi, jv, xv, same, isdlv, datt, first;
  do
#define PROGRESS(m,k) (AL(m) && UNFROZEN(m) && CALLED(O(m,k)) && !FIN(O(m,k)) && !DLV(O(m,k)))
#define STEPS(k) \
  :: d_step { MAYSTART(m,k) -> start(m,k) } \
  :: d_step { PROGRESS(m,k) && ATT(O(m,k)) == AT(ep[m],k) && (contrib[ATT(O(m,k))*K+k] & MEMB(ATT(O(m,k)),k)) == MEMB(ATT(O(m,k)),k) -> finish(m,k) } \
  :: d_step { PROGRESS(m,k) && ATT(O(m,k)) != AT(ep[m],k) && SOMEONE(AT(ep[m],k),k,ATT(O(m,k))) -> finish(m,k) } \
  :: d_step { AL(m) && CALLED(O(m,k)) && !DLV(O(m,k)) && FIN(O(m,k)) && PREVDONE(m,k) && (CMT(O(m,k)) || tok[AT(ep[m],k)*K+k] != 0) -> deliver(m,k) } \
  :: d_step { AL(m) && tok[AT(ep[m],k)*K+k] == 0 && FIN(O(m,k)) && FIRSTOF(m,MEMB(AT(ep[m],k),k)) && ack[AT(ep[m],k)*K+k] == MEMB(AT(ep[m],k),k) -> tok[AT(ep[m],k)*K+k] = 1 } \
  ANN(k,1) ANN2(k) ANN3(k) ANN4(k)
#ifdef BEARLY
#define BMIN(k) ((k)+W)
#else
#define BMIN(k) ((k)+W+1)
#endif
#ifdef ANYTOKEN
#define RIDES(m,k,v) true
#elif defined(REUSEB)
#define RIDES(m,k,v) true
#else
#define RIDES(m,k,v) (AT(ep[m],k) == base[v])
#endif
#ifdef REUSEB
#define FROM(m,v) true
#else
#define FROM(m,v) (ep[m] == base[v])
#endif
#define ANN(k,v) \
  :: d_step { AL(m) && UNFROZEN(m) && v < nv && BIT(planned,v) && !BIT(annd,v) && BIT(conf,v) && FROM(m,v) && bnd[v] >= BMIN(k) && RIDES(m,k,v) \
       && tok[AT(ep[m],k)*K+k] == 0 && FIN(O(m,k)) && FIRSTOF(m,MEMB(AT(ep[m],k),k)) && ack[AT(ep[m],k)*K+k] == MEMB(AT(ep[m],k),k) -> \
       tok[AT(ep[m],k)*K+k] = 1 + v; annd = annd | B(v) }
#define ANN2(k)
#define ANN3(k)
#define ANN4(k)
#if V > 2
#undef ANN2
#define ANN2(k) ANN(k,2)
#endif
#if V > 3
#undef ANN3
#define ANN3(k) ANN(k,3)
#endif
#if V > 4
#undef ANN4
#define ANN4(k) ANN(k,4)
#endif
  STEPS(0)
#if K > 1
  STEPS(1)
#endif
#if K > 2
  STEPS(2)
#endif
#if K > 3
  STEPS(3)
#endif
#if K > 4
  STEPS(4)
#endif
#define VSTEPS(v) \
  :: d_step { AL(m) && v < nv && !BIT(planned,v) && IN(m,v) && v > prom[m] -> \
       prom[m] = v; gave[v] = gave[v] | B(m); \
       if :: !BIT(dec,v) -> sr[v*N+m] = ep[m]; k = 0; do :: k < K -> st[(v*N+m)*K+k] = O(m,k); k++ :: else -> break od; k = 0 :: else fi } \
  :: d_step { AL(m) && v < nv && !BIT(planned,v) && FIRSTOF(m,mask[v]) && prom[m]==v && gave[v]==mask[v] && !BIT(dec,v) -> decide(v) } \
  :: d_step { AL(m) && v < nv && IN(m,v) && BIT(dec,v) && ep[m] != v && prom[m] == v -> install(m,v) } \
  :: d_step { m == JJ && AL(m) && v < nv && BIT(planned,v) && IN(m,v) && UNFROZEN(m) && v > ep[m] && !BIT(conf,v) && (ep[m] == 0 || BIT(planned,ep[m])) -> \
       ep[m] = v; prom[m] = v; conf = conf | B(v) }
  VSTEPS(1)
#if V > 2
  VSTEPS(2)
#endif
#if V > 3
  VSTEPS(3)
#endif
#if V > 4
  VSTEPS(4)
#endif
#if V > 5
  VSTEPS(5)
#endif
#ifdef LEAVE
  :: d_step { m == LX && AL(m) && !lv -> lv = true }
  :: d_step { m == LX && AL(m) && lv && UNFROZEN(m) && lx[ep[m]] != INF && DLV(O(m,(lx[ep[m]]+K-1)%K)) && MAYEXIT(ep[m]) ->
       alive = alive & (ALL-B(m)); left = left | B(m);
       /* whatever it had said and nobody has read yet is gone */
       i = 0; do :: i < V*K -> contrib[i] = contrib[i] & (ALL-B(m)); ack[i] = ack[i] & (ALL-B(m));
            if :: FIRSTOF(m,mask[i/K]) -> tok[i] = 0 :: else fi; i++ :: else -> break od; i = 0 }
#endif
  :: d_step { AL(m) && f > 0 -> f--; alive = alive & (ALL-B(m)) }
  od
}

inline issue(ms) {
  if :: (ms) == 0 -> halted = true
     :: else -> mask[nv] = ms; base[nv] = cc; fj[nv] = INF; sj[nv] = INF; lx[nv] = INF; cc = nv; lastf = nv; nv++ fi
}
inline planit(ms, bs, b) {
  mask[nv] = ms; base[nv] = bs; bnd[nv] = b; planned = planned | B(nv); fj[nv] = fj[bs]; sj[nv] = sj[bs]; lx[nv] = lx[bs]
}
#define CAN (!halted && nv < V)
#define DEAD (mask[cc] & (ALL-alive) & (ALL-left))
#define GONE (!BIT(planned,cc) && (mask[cc] & left & (ALL-gave[cc])))

proctype Coordinator() {
  byte i, j, ms;
  do
  :: d_step { CAN && (DEAD || GONE) -> ms = mask[cc] & alive; issue(ms); ms = 0 }
#ifdef JOIN
  :: d_step { CAN && d > 0 && DEAD && !jin && AL(JJ) -> d--; jin = true; ms = (mask[cc] & alive) | JB; issue(ms); ms = 0 }
  /* a join by Prepare and Install */
  :: d_step { CAN && d > 0 && !jin && AL(JJ) -> d--; jin = true; ms = mask[cc] | JB; issue(ms); ms = 0 }
#define PLANJ(b) \
  :: d_step { b < K && CAN && !jin && AL(JJ) && !BIT(planned,cc) -> jin = true; planit(mask[cc]|JB, cc, b); fj[nv] = b; sj[nv] = b; cc = nv; nv++ } \
  :: d_step { b < K && CAN && q > 0 && BIT(planned,cc) && !BIT(annd,cc) && bnd[cc] != b && !IN(JJ,base[cc]) && AL(JJ) && IN(JJ,cc) -> q--; planned = planned & (ALLV-B(cc)); bnd[cc] = 0; ms = mask[cc]; mask[cc] = 0; \
       planit(ms, base[cc], b); ms = 0; fj[nv] = b; sj[nv] = b; cc = nv; nv++ }
#define ALLV 255
  PLANJ(1) PLANJ(2) PLANJ(3)
#if K > 4
  PLANJ(4)
#endif
#endif
#ifdef LEAVE
#ifdef JOIN
#define PLANOK (!BIT(planned,cc) || BIT(annd,cc))
#else
#define PLANOK (!BIT(planned,cc))
#endif
#define PLANX(b) \
  :: d_step { b <= K && CAN && lv && AL(LX) && IN(LX,cc) && lx[cc] == INF && PLANOK && (!BIT(planned,cc) || b > bnd[cc]) -> planit(mask[cc], cc, b); conf = conf | B(nv); lx[nv] = b; cc = nv; nv++ }
  PLANX(1) PLANX(2) PLANX(3) PLANX(4) PLANX(5)
#endif
#define SUSPECT(j) :: d_step { CAN && s > 0 && IN(j,cc) && AL(j) -> s--; ms = mask[cc] & (ALL-B(j)); issue(ms); ms = 0 }
  SUSPECT(0)
  SUSPECT(1)
  SUSPECT(2)
#if N > 3
  SUSPECT(3)
#endif
  :: d_step { CAN && p > 0 && cc > 0 -> p--; ms = mask[cc]; issue(ms); ms = 0 }
  :: d_step { timeout ->
       if :: halted || nv == V -> skip
          :: else ->
             j = 0;
             do :: j < N ->
                   if :: IN(j,cc) && AL(j) && (j != JJ || (!BIT(planned,cc) || BIT(annd,cc))) ->
                         if :: j == LX && lx[ep[j]] != INF -> MUST(leaver_goes, false) :: else fi;      /* a released leaver goes */
                         i = 0; if :: j == JJ -> i = sj[ep[j]] :: else fi;
                         do :: i < K -> MUST(progress, DLV(O(j,i))); i++ :: else -> break od; i = 0
                      :: else fi; j++
                :: else -> break od; j = 0
       fi } -> break
  od;
end: do :: false od
}

init {
  atomic {
    mask[0] = ALL - JB; fj[0] = INF; sj[0] = INF; lx[0] = INF;
    byte n = 0;
    do :: n < N -> run Member(n); n++ :: else -> break od;
    run Coordinator()
  }
}
