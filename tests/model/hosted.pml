/* libftar: succession with data (rules Q1 to Q5 with V1 to V6). The members, the leader's table and the operation in flight are
 * those of verdict.pml; the coordinators live in members 0 and 1 and may both be awake at any time: the successor takes over while
 * the old one is dead, or cut off, or merely slow, and either of them finishes changes that the other began.
 *
 * A coordinator hears any set of members that are alive (a partition, at any moment another one), takes their reports and numbers
 * a view: survivors are whom it has heard and the highest promise heard allows (Q2, Q3); they must be more than half of the
 * highest view that one of them has installed, or half of it with its first (Q4); the epoch lies above all it has heard of
 * and carries its incarnation (Q1). It does so again when a change is left unfinished. A member that nobody hears is a member suspected.
 * Safety only: with so few views nothing is promised of an end. So there are no deaths either: who is dead is like one who does
 * nothing more and whom nobody hears.
 *
 * Mutations:
 *   NUMBERED      the base is the highest view promised, not installed
 *   NO_QUORUM     whoever is heard is enough
 *   NOSUBSET      promises do not nest (Q3; in the members)
 *   SAME_EPOCH    an epoch is a bare number (Q1)
 *   SOME_STATUS   the leader does not wait for the Status of all (V3, Q5; in the members)
 */
#define HOSTED
#define ONECHUNK
#ifndef N
#define N 3
#endif
#include "verdict.pml"

byte cur[2];                   /* the newest view of each coordinator */

#ifdef SAME_EPOCH
#define NUMBER(top, c) (((top >> 2) + 1) << 2)
#else
#define NUMBER(top, c) ((((top >> 2) + 1) << 2) | c)
#endif
#define LOW(b) ((b) & (256 - (b)))

inline weigh(b, c) { c = 0; i = 0; do :: i < N -> if :: ((b) >> i) & 1 -> c++ :: else fi; i++ :: else -> break od; i = 0 }

proctype Coordinator(byte c) {
  byte i, best, base, c1, c2, ms, open, top;
  do
#define HEAR(h) \
  :: d_step { AL(c) && nv < V && ((h) & alive) == (h) -> \
       best = 0; base = 0; open = 0; i = 0; \
       do :: i < N -> if :: ((h) >> i) & 1 -> \
               if :: key[prom[i]] > key[best] -> best = prom[i] :: else fi; \
               if :: key[ep[i]] > key[base] -> base = ep[i] :: else fi \
             :: else fi; i++ :: else -> break od; \
       i = 0; \
       do :: i < N -> if :: (((h) >> i) & 1) && ep[i] != best -> open = 1 :: else fi; i++ :: else -> break od; i = 0; \
       ms = (h) & mask[best]; \
       weigh(ms & mask[BASE], c1); weigh(mask[BASE], c2); \
       if \
       :: ms != 0 && (open || ms != mask[best]) && ENOUGH(ms) -> \
            top = key[best]; if :: key[cur[c]] > top -> top = key[cur[c]] :: else fi; \
            mask[nv] = ms; key[nv] = NUMBER(top, c); cur[c] = nv; nv++ \
       :: else \
       fi; best = 0; base = 0; c1 = 0; c2 = 0; ms = 0; open = 0; top = 0 }
#ifdef NUMBERED
#define BASE best
#else
#define BASE base
#endif
#ifdef NO_QUORUM
#define ENOUGH(ms) true
#else
#define ENOUGH(ms) (2 * c1 > c2 || (2 * c1 == c2 && ((ms) & LOW(mask[BASE]))))
#endif
  HEAR(1) HEAR(2) HEAR(3) HEAR(4) HEAR(5) HEAR(6) HEAR(7)
#if N > 3
  HEAR(8) HEAR(9) HEAR(10) HEAR(11) HEAR(12) HEAR(13) HEAR(14) HEAR(15)
#endif
  od
}

init {
  atomic {
    mask[0] = ALL;
    byte n = 0;
    do :: n < N -> run Member(n); n++ :: else -> break od;
    run Coordinator(0); run Coordinator(1)
  }
}
