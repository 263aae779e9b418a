/* libftar: quorum and succession when a view also takes members in. Membership only, hosted coordinators: two incarnations
 * alive at once, each hears any set of members at any time (a fact heard or not). OLD members form view 0, NJ joiners stand
 * outside and may be taken into any one view; survivors nest (Q3), joiners do not.
 * Property: never two disjoint views active at the same moment (all members of each in it, with no higher promise).
 * (Disjoint views one after the other are legal once joiners can replace the old members.)
 *
 * PLANNED: a view that only adds joiners may be taken without Prepare: a member installs it when it learns the announcement
 *   (each at its own time); without the flag all views go by Prepare, Status of all, Install.
 * RULE 1 (text, Q4): base = highest view installed by any member heard; more than half of it (or half with its first).
 * RULE 2: joint: more than half of the base = highest view that a heard member knows FORMED (all its members installed it) and
 *   of every later view that a heard member has installed.
 * RULE 3: as 1, but joiners do not vote until a heard member knows their view formed (base counted over voters only).
 * NOBASECHECK: a Prepare is promised whatever view its quorum was counted on.
 * FIRST: exactly half counts when it holds the base's first.
 */
#ifndef RULE
#define RULE 2
#endif
#ifndef V
#define V 4
#endif
#ifndef OLD
#define OLD 3
#endif
#ifndef NJ
#define NJ 2
#endif
#define N (OLD+NJ)
#define ALL ((1<<N)-1)
#define OLDS ((1<<OLD)-1)
#define MUST(name, p) assert(name || (p))
hidden byte one_active_view;
byte ep[N], prom[N], formed[N];
byte mask[V], surv[V], key[V], gave[V], inst[V], base[V];
byte nv = 1, dec, planned;
#define IN(m,v) ((mask[v]>>(m))&1)
#define BIT(x,v) (((x)>>(v))&1)
#define FRESH(m) ((m) >= OLD && prom[m] == 0)
#define SUBSET(v,m) (FRESH(m) || (surv[v] & (ALL-mask[prom[m]])) == 0)
/* a Prepare names the base its quorum was counted on; nobody promises one that was counted below what it has installed itself */
#ifdef NOBASECHECK
#define BASEOK(v,m) true
#else
#define BASEOK(v,m) (key[base[v]] >= key[ep[m]])
#endif
inline pop(b,c) { c=0; i=0; do :: i<N -> if :: BIT(b,i) -> c++ :: else fi; i++ :: else -> break od; i=0 }
#ifdef FIRST
#define LOWB(b) ((b) & (255-(b)+1))
#define MAJ(h,b) (2*c1 > c2 || (2*c1 == c2 && ((h) & LOWB(b))))
#else
#define MAJ(h,b) (2*c1 > c2)
#endif

proctype Member(byte m) {
  byte v;
  do
  :: atomic { v = 1; do :: v < V-1 -> v++ :: break od;
     if
     :: d_step { v < nv && !BIT(planned,v) && IN(m,v) && key[v] > key[prom[m]] && SUBSET(v,m) && BASEOK(v,m) -> prom[m] = v; gave[v] = gave[v] | (1<<m) }
     :: d_step { v < nv && !BIT(planned,v) && IN(m,v) && ep[m] != v && BIT(dec,v) && prom[m]==v -> ep[m] = v; inst[v] = inst[v] | (1<<m) }
     :: d_step { v < nv && !BIT(planned,v) && gave[v]==mask[v] && !BIT(dec,v) && IN(m,v) && prom[m]==v -> dec = dec | (1<<v) }
     /* the announcement of a planned view reaches an unfrozen member of its base, or its joiner */
     :: d_step { v < nv && BIT(planned,v) && IN(m,v) && ep[m]==prom[m] && (FRESH(m) || ep[m]==base[v]) -> ep[m]=v; prom[m]=v; inst[v] = inst[v] | (1<<m) }
     :: d_step { v < nv && ep[m]==v && inst[v]==mask[v] && formed[m] != v -> formed[m] = v }
     :: else -> skip
     fi; v = 0 }
  od
}

proctype Coord(byte c) {
  byte h, i, best, c1, c2, f, top, ok, j, jo;
  do
  :: atomic { nv < V ->
     h = 1; do :: h < OLDS -> h++ :: break od;
     do :: jo = 0; break :: jo = ALL - OLDS; break :: jo = 1<<OLD; break od;     /* joiners heard too */
     d_step {
       h = h | jo; jo = 0;
       best = 0; f = 0; top = 0; i = 0;
       do :: i < N -> if :: BIT(h,i) ->
               if :: key[prom[i]] > key[best] -> best = prom[i] :: else fi;
               if :: key[ep[i]] > key[top] -> top = ep[i] :: else fi;
               if :: key[formed[i]] > key[f] -> f = formed[i] :: else fi;
               if :: i >= OLD && prom[i] == 0 -> jo = jo | (1<<i) :: else fi
             :: else fi; i++ :: else -> break od; i = 0;
       /* survivors: heard members of the highest promise; joiners: heard, never in any view */
       h = h & mask[best]; jo = jo & (ALL - h);
       ok = (h != 0);
#if RULE == 1
       pop(h & mask[top], c1); pop(mask[top], c2); ok = ok && MAJ(h, mask[top]);
#elif RULE == 3
       pop(h & mask[top] & (OLDS | mask[f]), c1); pop(mask[top] & (OLDS | mask[f]), c2); ok = ok && MAJ(h, mask[top] & (OLDS | mask[f]));
#else
       pop(h & mask[f], c1); pop(mask[f], c2); ok = ok && MAJ(h, mask[f]);
       j = 1;
       do :: j < nv ->
             if :: key[j] > key[f] && (inst[j] & h) -> pop(mask[j] & h, c1); pop(mask[j], c2); ok = ok && MAJ(h, mask[j]) :: else fi; j++
          :: else -> break od; j = 0;
#endif
       if :: ok && (h != mask[best] || jo != 0) ->
             mask[nv] = h | jo; surv[nv] = h; base[nv] = top; key[nv] = ((((key[best]>>1)+1)<<1) | c);
#ifdef PLANNED
             if :: h == mask[best] && best == top -> planned = planned | (1<<nv) :: else fi;
#endif
             nv++
          :: else fi;
       h = 0; best = 0; c1 = 0; c2 = 0; f = 0; top = 0; ok = 0; jo = 0
     } }
  od
}

/* active: all its members are in it and have promised nothing higher, so it can deliver */
#define AT1(m,v) (!IN(m,v) || (ep[m] == (v) && prom[m] == (v)))
#if N == 3
#define ACTIVE(v) ((v) < nv && AT1(0,v) && AT1(1,v) && AT1(2,v))
#elif N == 4
#define ACTIVE(v) ((v) < nv && AT1(0,v) && AT1(1,v) && AT1(2,v) && AT1(3,v))
#else
#define ACTIVE(v) ((v) < nv && AT1(0,v) && AT1(1,v) && AT1(2,v) && AT1(3,v) && AT1(4,v))
#endif
#define CLASH(a,b) (ACTIVE(a) && ACTIVE(b) && (mask[a] & mask[b]) == 0)
proctype Monitor() {
  d_step { (CLASH(1,2) || CLASH(1,3) || CLASH(2,3)
#if V > 4
   || CLASH(1,4) || CLASH(2,4) || CLASH(3,4)
#endif
  ) -> MUST(one_active_view, false) }
}
init { atomic { mask[0] = OLDS; surv[0] = OLDS; byte n = 0; do :: n < N -> run Member(n); n++ :: else -> break od; run Coord(0); run Coord(1); run Monitor() } }
