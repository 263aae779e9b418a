/* libftar: view change + stability + verdicts, as in shared/design.md 5 and 6.
 *
 * Messages are monotone facts: a Prepare, a Status, a verdict, a contribution, an ack, once said, may be received at
 * any later time, in any order, many times or never. That covers loss, delay, reorder, duplicates and a sender that
 * died with its message in flight; no queue bounds are needed.
 *
 * N members, K ops in the window, C=2 chunks an op, V view instances (0 is the first view).
 * Budgets: F crashes, S false suspicions (alive member evicted), P same-set re-Prepares, R coordinator crashes.
 *
 * Mutations (-D...):  NOFREEZE  LATE_FIN  LATE_DELIVER  DELIVER_COMPLETE  SALVAGE_DELIVER  MIXATT  STALE_INSTALL
 *                     REPORT_INSTALLED  NOMONO  HEAR_ANY  NOSUBSET  LATE_CALL_IGNORES  SOME_STATUS  SHM=1 (FENCE, SHM=2: rules, see below)
 * QUORUM = 1: a view needs more than half of the base view.  QUORUM = 0: min_replicas = 1.
 */
#ifndef N
#define N 3
#endif
#ifndef K
#define K 1
#endif
#ifndef V
#define V 4
#endif
#ifndef F
#define F 2
#endif
#ifndef S
#define S 1
#endif
#ifndef P
#define P 1
#endif
#ifndef R
#define R 0
#endif
#ifndef QUORUM
#define QUORUM 0
#endif
#ifndef ONECHUNK
#define FULL 3
#else
#define FULL 1
#endif
#define ALL ((1<<N)-1)
#ifndef ZERO
#define ZERO 0          /* mask of members with weight 0: results go to them, nothing is needed from them */
#endif
#define B(m) (1<<(m))

/* A property has a name, which the table of cases gives for each mutated model. The names are never set, and cost no state. */
#define MUST(name, p) assert(name || (p))
hidden byte delivered_is_complete, verdict_keeps_result, commit_is_complete, one_attempt, commit_reaches_callers,
  delivers_complete, all_contributed, one_result, progress;

/* op record of a member: bits 0-1 final chunks, 2-4 attempt (view instance), 5 delivered, 6 commit verdict, 7 called */
#define FIN(x) ((x)&3)
#define ATT(x) (((x)>>2)&7)
#define DLV(x) (((x)>>5)&1)
#define CMT(x) (((x)>>6)&1)
#define CALLED(x) (((x)>>7)&1)
#define REC(fin,att,dlv,cmt) (128|((cmt)<<6)|((dlv)<<5)|((att)<<2)|(fin))

byte alive = ALL;
byte ep[N], prom[N];
byte o[N*K];                 /* op records */
byte mask[V];                /* members of a view instance */
byte key[V];                 /* (epoch << 2) | coordinator incarnation */
byte nv = 1;
byte gave[V];                /* who answered Status */
byte st[V*N*K];              /* the Status itself */
byte dec;                    /* bit v: leader decided */
byte ver[V*K];               /* verdict: type*8 + attempt; 1 commit 2 salvage 3 retry */
byte contrib[V*K], ack[V*K];
byte res[K];                 /* participants delivered by anybody, 0 = none yet */
byte f = F, s = S, p = P, r = R;
bool up = true;
byte cc = 0;                 /* instance the coordinator issued last */
byte inc = 0;
bool halted = false;         /* no quorum */

#ifdef NOFREEZE
#define UNFROZEN(m) true
#else
#define UNFROZEN(m) (ep[m] == prom[m])
#endif
#if defined(LATE_FIN) || defined(NOFREEZE)
#define MAYFIN(m) true
#else
#define MAYFIN(m) UNFROZEN(m)
#endif
#if defined(LATE_DELIVER) || defined(NOFREEZE)
#define MAYDLV(m) true
#else
#define MAYDLV(m) UNFROZEN(m)
#endif
#define AL(m) ((alive>>(m))&1)
#define IN(m,v) ((mask[v]>>(m))&1)
#define VT(v,k) (ver[(v)*K+(k)]>>3)
#define VA(v,k) (ver[(v)*K+(k)]&7)
#define O(m,k) o[(m)*K+(k)]

inline addfin(m, k, bits) {
  O(m,k) = O(m,k) | (bits);
  if :: FIN(O(m,k)) == FULL -> ack[ep[m]*K+k] = ack[ep[m]*K+k] | B(m)   /* complete: tell the tree */
     :: else fi
}

/* the user calls op k: a member that called late enters whatever the verdict of its epoch says (only a weight-0 member can be late) */
inline start(m, k) {
  if
#ifndef LATE_CALL_IGNORES
  :: VT(ep[m],k) == 2 -> O(m,k) = REC(0, VA(ep[m],k), 0, 0)
#endif
  :: else -> O(m,k) = REC(0, ep[m], 0, 0); contrib[ep[m]*K+k] = contrib[ep[m]*K+k] | B(m)
  fi
}

/* which other member of the same view can re-serve chunk bit b of attempt a? */
#define SERVES(h,v,k,a,b) (AL(h) && ep[h]==(v) && CALLED(O(h,k)) && ATT(O(h,k))==(a) && (FIN(O(h,k))&(b)))
#if N == 3
#define SOMEONE(v,k,a,b) (SERVES(0,v,k,a,b) || SERVES(1,v,k,a,b) || SERVES(2,v,k,a,b))
#elif N == 4
#define SOMEONE(v,k,a,b) (SERVES(0,v,k,a,b) || SERVES(1,v,k,a,b) || SERVES(2,v,k,a,b) || SERVES(3,v,k,a,b))
#elif N == 5
#define SOMEONE(v,k,a,b) (SERVES(0,v,k,a,b) || SERVES(1,v,k,a,b) || SERVES(2,v,k,a,b) || SERVES(3,v,k,a,b) || SERVES(4,v,k,a,b))
#else
#define SOMEONE(v,k,a,b) (SERVES(0,v,k,a,b) || SERVES(1,v,k,a,b))
#endif

/* the two member-side rules the model asked for (both are missing in the text):
   a Prepare is refused unless its survivors are a subset of the survivors last promised;
   (alternative, -DFENCE) reporting to a coordinator incarnation refuses Prepares of older incarnations from then on */
#ifdef NOSUBSET
#define SUBSET(v,m) true
#else
#define SUBSET(v,m) ((mask[v] & (ALL - mask[prom[m]])) == 0)
#endif
#ifdef FENCE
byte minc[N];
#define FENCED(v,m) ((key[v]&3) >= minc[m])
#else
#define FENCED(v,m) true
#endif
#ifdef SAME_EPOCH
/* Epochs are bare numbers: a Status for a number counts for any view of that number. Who has promised it is frozen and would say it again. */
#define GIVES(m,v) (!IN(m,v) || ((gave[v]>>(m))&1) || key[prom[m]] == key[v])
#define ALL_GAVE(v) (GIVES(0,v) && GIVES(1,v) && GIVES(2,v))
#elif defined(SOME_STATUS)
#define ALL_GAVE(v) true
#else
#define ALL_GAVE(v) (gave[v]==mask[v])
#endif
#define LEADER(m,v) (IN(m,v) && (mask[v] & (B(m)-1)) == 0)
#define PREVDONE(m,k) ((k)==0 || DLV(O(m,(k)-1)))
#define STABLE(m,k) (ack[ep[m]*K+(k)] == mask[ep[m]] && FIN(O(m,k))==FULL)
/* one-shot on one host: contributions lie in single-writer segments that outlive their writer. SHM=1: deliver when all
   are there, a freezing member scans once more. SHM=2: also look, after the scan, that nobody's frozen flag is up. */
#ifndef SHM
#define SHM 0
#endif
#define FZ(i,e) (IN(i,e) && prom[i] != (e))
#if N == 3
#define ANYFROZEN(e) (FZ(0,e)||FZ(1,e)||FZ(2,e))
#elif N == 4
#define ANYFROZEN(e) (FZ(0,e)||FZ(1,e)||FZ(2,e)||FZ(3,e))
#else
#define ANYFROZEN(e) false
#endif
#if SHM > 0
#define DELIVERABLE(m,k) (CMT(O(m,k)) || STABLE(m,k) || (FIN(O(m,k))==FULL && ATT(O(m,k))==ep[m] && (SHM < 2 || !ANYFROZEN(ep[m]))))
#elif defined(DELIVER_COMPLETE)
#define DELIVERABLE(m,k) (FIN(O(m,k))==FULL)
#elif defined(SALVAGE_DELIVER)
#define DELIVERABLE(m,k) (CMT(O(m,k)) || STABLE(m,k) || (VT(ep[m],k)==2 && FIN(O(m,k))==FULL))
#else
#define DELIVERABLE(m,k) (CMT(O(m,k)) || STABLE(m,k))
#endif

/* ---- the group leader's table ---- */
inline decide(v) {
#ifdef SAME_EPOCH
  i = 0;
  do :: i < N -> if :: IN(i,v) && !((gave[v]>>i)&1) -> k = 0; do :: k < K -> st[((v)*N+i)*K+k] = O(i,k); k++ :: else -> break od :: else fi; i++
     :: else -> break od; i = 0;
#endif
  k = 0;
  do
  :: k < K ->
     isdlv = 0; datt = 0; same = 1; i = 0; hi = 0; first = 255;
     do
     :: i < N ->
        if :: IN(i,v) ->
              x = st[((v)*N+i)*K+k];
              if :: DLV(x) -> isdlv = 1; datt = ATT(x) :: else fi;
              if :: !CALLED(x) || FIN(x) != FULL -> same = 0
                 :: else ->
                    if :: first == 255 -> first = ATT(x)
                       :: else -> if :: first != ATT(x) -> same = 0 :: else fi
                    fi
              fi
           :: else fi;
        i++
     :: else -> break
     od;
     if
     :: isdlv ->
        ver[(v)*K+k] = 8 + datt;
        MUST(delivered_is_complete, same && first == datt)   /* "everyone then is complete" */
     :: !isdlv && same -> ver[(v)*K+k] = 8 + first
     :: else ->
        /* salvage: newest attempt all of whose chunks survive, chunks of ONE attempt only */
        a = V; ver[(v)*K+k] = 24;
        do
        :: a > 0 ->
           a--;
           acc = 0; i = 0;
           do
           :: i < N ->
              if :: IN(i,v) ->
                    x = st[((v)*N+i)*K+k];
#ifdef MIXATT
                    if :: CALLED(x) -> acc = acc | FIN(x) ; if :: FIN(x) && ATT(x) > hi -> hi = ATT(x) :: else fi :: else fi
#else
                    if :: CALLED(x) && ATT(x) == a -> acc = acc | FIN(x) :: else fi
#endif
                 :: else fi;
              i++
           :: else -> break
           od;
#ifdef MIXATT
           if :: acc == FULL -> ver[(v)*K+k] = 16 + hi; break :: else fi
#else
           if :: acc == FULL -> ver[(v)*K+k] = 16 + a; break :: else fi
#endif
        :: else -> break
        od
     fi;
     /* whatever anyone anywhere delivered must be what the newest view's verdict says: recoverable by all survivors.
        (A leader of an older view, itself evicted, may still decide otherwise; it can then not reach stability.) */
#ifndef HOSTED
     MUST(verdict_keeps_result, res[k] == 0 || (v != nv-1 && VT(v,k) != 1) || (VT(v,k) != 3 && mask[VA(v,k)] == res[k]));
#endif
     k++
  :: else -> break
  od;
  dec = dec | B(v);
  i = 0;
  do :: i < N*K -> st[(v)*N*K+i] = 0; i++ :: else -> break od;   /* forget, to keep states few */
  i = 0; k = 0; x = 0; a = 0; acc = 0; same = 0; isdlv = 0; datt = 0; first = 0; hi = 0
}

inline install(m, v) {
  ep[m] = v;
  k = 0;
  do
  :: k < K ->
     x = O(m,k);
     if
     :: DLV(x) -> skip
     :: !DLV(x) && CALLED(x) ->
        if
        :: VT(v,k) == 1 ->
           MUST(commit_is_complete, FIN(x) == FULL && ATT(x) == VA(v,k));
           O(m,k) = REC(FULL, VA(v,k), 0, 1)
        :: VT(v,k) == 2 ->
#ifdef MIXATT
           MUST(one_attempt, FIN(x) == 0 || ATT(x) == VA(v,k));   /* one result, one set of participants */
           O(m,k) = REC(FIN(x), VA(v,k), 0, 0);
#else
           if :: ATT(x) == VA(v,k) -> O(m,k) = REC(FIN(x), VA(v,k), 0, 0)
              :: else -> O(m,k) = REC(0, VA(v,k), 0, 0)
           fi;
#endif
           if :: FIN(O(m,k)) == FULL -> ack[(v)*K+k] = ack[(v)*K+k] | B(m) :: else fi
        :: else ->
           O(m,k) = REC(0, v, 0, 0);
           contrib[(v)*K+k] = contrib[(v)*K+k] | B(m)
        fi
     :: else -> MUST(commit_reaches_callers, VT(v,k) != 1 && (ZERO != 0 || VT(v,k) == 3))   /* who has not called is never told to commit */
     fi;
     k++
  :: else -> break
  od;
  k = 0; x = 0
}

proctype Member(byte m) {
  byte i, x, a, acc, same, isdlv, datt, first, hi, k;
  do
  :: d_step { AL(m) && UNFROZEN(m) && !CALLED(O(m,0)) ->
       start(m,0) }
#if K > 1
  :: d_step { AL(m) && UNFROZEN(m) && !CALLED(O(m,1)) && CALLED(O(m,0)) ->
       start(m,1) }
#endif
#define STEPS(k) \
  :: d_step { AL(m) && MAYFIN(m) && CALLED(O(m,k)) && ATT(O(m,k))==ep[m] && !DLV(O(m,k)) && ((contrib[ep[m]*K+k]|ZERO)&mask[ep[m]])==mask[ep[m]] && !(FIN(O(m,k))&1) -> addfin(m,k,1) } \
  :: d_step { AL(m) && MAYFIN(m) && CALLED(O(m,k)) && ATT(O(m,k))==ep[m] && !DLV(O(m,k)) && ((contrib[ep[m]*K+k]|ZERO)&mask[ep[m]])==mask[ep[m]] && FULL==3 && !(FIN(O(m,k))&2) -> addfin(m,k,2) } \
  :: d_step { AL(m) && MAYFIN(m) && CALLED(O(m,k)) && VT(ep[m],k)==2 && ATT(O(m,k))==VA(ep[m],k) && !DLV(O(m,k)) && !(FIN(O(m,k))&1) && SOMEONE(ep[m],k,ATT(O(m,k)),1) -> addfin(m,k,1) } \
  :: d_step { AL(m) && MAYFIN(m) && CALLED(O(m,k)) && VT(ep[m],k)==2 && ATT(O(m,k))==VA(ep[m],k) && !DLV(O(m,k)) && FULL==3 && !(FIN(O(m,k))&2) && SOMEONE(ep[m],k,ATT(O(m,k)),2) -> addfin(m,k,2) } \
  :: d_step { AL(m) && MAYDLV(m) && CALLED(O(m,k)) && !DLV(O(m,k)) && PREVDONE(m,k) && DELIVERABLE(m,k) -> \
       MUST(delivers_complete, FIN(O(m,k)) == FULL); \
       MUST(all_contributed, ((contrib[ATT(O(m,k))*K+k]|ZERO) & mask[ATT(O(m,k))]) == mask[ATT(O(m,k))]); \
       O(m,k) = O(m,k) | 32; \
       if :: res[k] == 0 -> res[k] = mask[ATT(O(m,k))] :: else -> MUST(one_result, res[k] == mask[ATT(O(m,k))]) fi }
  STEPS(0)
#if K > 1
  STEPS(1)
#endif
#if SHM > 0
#define RESCAN1(m,k) if :: CALLED(O(m,k)) && ATT(O(m,k))==ep[m] && contrib[ep[m]*K+k]==mask[ep[m]] -> O(m,k) = O(m,k) | FULL :: else fi;
#else
#define RESCAN1(m,k)
#endif
#if K > 1
#define RESCAN(m) RESCAN1(m,0) RESCAN1(m,1)
#else
#define RESCAN(m) RESCAN1(m,0)
#endif
#define VSTEPS(v) \
  :: d_step { AL(m) && v < nv && IN(m,v) && key[v] > key[prom[m]] && SUBSET(v,m) && FENCED(v,m) -> \
       prom[m] = v; gave[v] = gave[v] | B(m); RESCAN(m) \
       if :: !((dec>>v)&1) -> k = 0; do :: k < K -> st[((v)*N+m)*K+k] = O(m,k); k++ :: else -> break od; k = 0 :: else fi } \
  :: d_step { AL(m) && v < nv && LEADER(m,v) && prom[m]==v && ALL_GAVE(v) && !((dec>>v)&1) -> decide(v) } \
  :: d_step { AL(m) && v < nv && IN(m,v) && ((dec>>v)&1) && ep[m] != v && MAYINST(m,v) -> install(m,v) }
#ifdef SAME_EPOCH
#define MAYINST(m,v) (key[prom[m]] == key[v])
#elif defined(STALE_INSTALL)
#define MAYINST(m,v) (key[prom[m]] >= key[v] && key[ep[m]] < key[v])
#else
#define MAYINST(m,v) (prom[m] == v)
#endif
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
  :: d_step { AL(m) && f > 0 -> f--; alive = alive & (ALL-B(m)) }
  od
}

#ifndef HOSTED   /* hosted.pml has its own coordinators */
inline count(b, c) { c = 0; i = 0; do :: i < N -> if :: ((b)>>i)&1 -> c++ :: else fi; i++ :: else -> break od; i = 0 }

/* issue instance nv with member set ms, epoch number above base instance bs */
inline issue(ms, bs) {
  count(ms, c1); count(mask[bs], c2);
  if
  :: c1 == 0 || (QUORUM && 2*c1 <= c2) -> halted = true
  :: else -> mask[nv] = ms; if :: key[bs] > key[cc] -> key[nv] = (((key[bs]>>2)+1)<<2) | inc :: else -> key[nv] = (((key[cc]>>2)+1)<<2) | inc fi; cc = nv; nv++
  fi;
  c1 = 0; c2 = 0
}

/* what a restarted coordinator takes from member j's report */
#ifdef REPORT_INSTALLED
#define REPORT(j) ep[j]
#else
#define REPORT(j) prom[j]
#endif

proctype Coordinator() {
  byte i, j, c1, c2, h, best, ms;
  do
  /* a death is seen */
  :: d_step { up && !halted && nv < V && (mask[cc] & (ALL-alive)) -> ms = mask[cc] & alive; issue(ms, cc); ms = 0 }
  /* an alive member is evicted (partition, hang): it is not told */
#define SUSPECT(j) :: d_step { up && !halted && nv < V && s > 0 && IN(j,cc) && AL(j) -> s--; ms = mask[cc] & (ALL-B(j)); issue(ms, cc); ms = 0 }
  SUSPECT(0)
  SUSPECT(1)
#if N > 2
  SUSPECT(2)
#endif
#if N > 3
  SUSPECT(3)
#endif
  /* somebody did not answer in time, same set again */
  :: d_step { up && !halted && nv < V && p > 0 && cc > 0 -> p--; issue(mask[cc], cc) }
  /* a member says it promised something higher */
#define NACK(j) :: d_step { up && !halted && nv < V && IN(j,cc) && AL(j) && prom[j] != cc && (key[prom[j]] > key[cc] || !SUBSET(cc,j)) -> \
      ms = NACKMASK(j); issue(ms, prom[j]); ms = 0 }
#ifdef NOMONO
#define NACKMASK(j) mask[cc]
#else
#define NACKMASK(j) (mask[cc] & mask[prom[j]])
#endif
#if R > 0
  NACK(0)
  NACK(1)
#if N > 2
  NACK(2)
#endif
#if N > 3
  NACK(3)
#endif
  :: d_step { up && r > 0 -> r--; up = false; cc = 0; inc++; halted = false }
  /* restart: hear a set h of alive members */
#define HEAR(hh) :: d_step { !up && nv < V && ((hh) & ALL) == (hh) && ((hh) & alive) == (hh) -> \
      best = 255; j = 0; \
      do :: j < N -> if :: ((hh)>>j)&1 -> if :: best == 255 -> best = REPORT(j) :: best != 255 && key[REPORT(j)] > key[best] -> best = REPORT(j) :: else fi :: else fi; j++ :: else -> break od; \
      RESTARTMASK(hh); \
      count(ms, c1); count(mask[best], c2); \
      if :: ms != 0 && (HEARALL(hh)) && !(QUORUM && 2*c1 <= c2) -> up = true; issue(ms, best); FENCEALL(hh) :: else fi; \
      best = 0; j = 0; ms = 0; c1 = 0; c2 = 0 }
#ifdef FENCE
#define FENCEALL(hh) i = 0; do :: i < N -> if :: ((hh)>>i)&1 -> minc[i] = inc :: else fi; i++ :: else -> break od; i = 0
#else
#define FENCEALL(hh) skip
#endif
#ifdef NOMONO
#define RESTARTMASK(hh) ms = (hh)
#else
#define RESTARTMASK(hh) ms = (hh) & mask[best]
#endif
#ifdef HEAR_ANY
#define HEARALL(hh) true
#else
#define HEARALL(hh) (QUORUM || (hh) == alive)
#endif
  HEAR(1) HEAR(2) HEAR(3) HEAR(4) HEAR(5) HEAR(6) HEAR(7)
#if N > 3
  HEAR(8) HEAR(9) HEAR(10) HEAR(11) HEAR(12) HEAR(13) HEAR(14) HEAR(15)
#endif
#endif
  :: d_step { timeout ->
       /* nothing can move any more: everyone who is alive and in the last view has delivered everything */
       if :: halted || nv == V || !up -> skip
          :: else ->
             j = 0;
             do :: j < N ->
                   if :: IN(j,cc) && AL(j) -> i = 0; do :: i < K -> MUST(progress, DLV(O(j,i))); i++ :: else -> break od; i = 0
                      :: else fi; j++
                :: else -> break od; j = 0
       fi } -> break
  od;
end: do :: false od
}

init {
  atomic {
    mask[0] = ALL;
    byte n = 0;
    do :: n < N -> run Member(n); n++ :: else -> break od;
    run Coordinator()
  }
}
#endif
