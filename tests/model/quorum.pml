/* libftar: "a view must hold more than half of the previous view's replicas". Membership only, two coordinators alive
 * at once, N=5 replicas, a partition that may cut anybody from anybody at any time (a message = a fact heard or not).
 * Property: never two disjoint views both complete (every one of its members installed it; from there ops are delivered).
 *
 * RULE 0: as in the text, "previous view" = the view the coordinator numbered last (or the highest promise it heard)
 * RULE 1: previous view = highest view that some heard member has INSTALLED
 * RULE 2: more than half of the last view known to be FORMED (all installed) and of every later one that a heard member promised
 * -DREUSE: epochs are bare numbers; two coordinators may issue the same one with different lists
 */
#ifndef RULE
#define RULE 0
#endif
#ifndef V
#define V 5
#endif
#define N 5
#define ALL 31
#define MUST(name, p) assert(name || (p))
hidden byte one_complete_view;
byte ep[N], prom[N], formed[N];
byte mask[V], key[V], gave[V], inst[V];
byte nv = 1, dec;
byte cur[2];
#define IN(m,v) ((mask[v]>>(m))&1)
#ifdef NOSUBSET
#define SUBSET(v,m) true
#else
#define SUBSET(v,m) ((mask[v] & (ALL-mask[prom[m]])) == 0)
#endif
inline pop(b,c) { c=0; i=0; do :: i<N -> if :: ((b)>>i)&1 -> c++ :: else fi; i++ :: else -> break od; i=0 }

proctype Member(byte m) {
  byte v;
  do
  :: atomic { v = 1; do :: v < V-1 -> v++ :: break od;
     if
     :: d_step { v < nv && IN(m,v) && key[v] > key[prom[m]] && SUBSET(v,m) -> prom[m] = v; gave[v] = gave[v] | (1<<m) }
#ifdef REUSE
     :: d_step { v < nv && IN(m,v) && ep[m] != v && ((dec>>v)&1) && key[v]==key[prom[m]] -> ep[m] = v; inst[v] = inst[v] | (1<<m) }
#else
     :: d_step { v < nv && IN(m,v) && ep[m] != v && ((dec>>v)&1) && prom[m]==v -> ep[m] = v; inst[v] = inst[v] | (1<<m) }
#endif
     :: d_step { v < nv && gave[v]==mask[v] && mask[v]!=0 && !((dec>>v)&1) && IN(m,v) && prom[m]==v -> dec = dec | (1<<v) }
#if RULE == 2
     :: d_step { v < nv && ep[m]==v && inst[v]==mask[v] && formed[m] != v -> formed[m] = v }   /* first stable op of v */
#endif
     :: else -> skip
     fi; v = 0 }
  od
}

/* coordinator c hears any set h of members (its side of the partition) and issues a view out of them */
proctype Coord(byte c) {
  byte h, i, best, c1, c2, f, top, ok, j;
  do
  :: atomic { nv < V ->
     if :: nv == 1 -> if :: h = 7 :: h = 15 fi      /* up to renaming of replicas */
        :: else -> h = 1; do :: h < ALL -> h++ :: break od fi;
     d_step {
       /* base = highest promise heard; members: only those in it */
       best = 0; f = 0; top = 0; i = 0;
       do :: i < N -> if :: (h>>i)&1 ->
               if :: key[prom[i]] > key[best] -> best = prom[i] :: else fi;
               if :: key[ep[i]] > key[top] -> top = ep[i] :: else fi;
               if :: key[formed[i]] > key[f] -> f = formed[i] :: else fi
             :: else fi; i++ :: else -> break od; i = 0;
#if RULE == 0
       if :: key[cur[c]] > key[best] -> best = cur[c] :: else fi;
#endif
       h = h & mask[best];
       ok = (h != 0 && h != mask[best]);
       pop(h, c1);
#if RULE == 0
       pop(mask[best], c2); ok = ok && 2*c1 > c2;
#elif RULE == 1
       pop(h & mask[top], c1); pop(mask[top], c2); ok = ok && 2*c1 > c2;
#else
       pop(h & mask[f], c1); pop(mask[f], c2); ok = ok && 2*c1 > c2;
       j = 1;
       do :: j < nv -> 
             if :: key[j] > key[f] ->
                   /* promised by one of the heard? */
                   if :: (gave[j] & h) -> { pop(mask[j] & h, c1); pop(mask[j], c2); ok = ok && 2*c1 > c2 } :: else fi
                :: else fi; j++
          :: else -> break od; j = 0;
#endif
       if :: ok -> mask[nv] = h;
#ifdef REUSE
             key[nv] = key[best] + 1;
#else
             key[nv] = ((((key[best]>>1)+1)<<1) | c);
#endif
             cur[c] = nv; nv++
          :: else fi;
       h = 0; best = 0; c1 = 0; c2 = 0; f = 0; top = 0; ok = 0
     } }
  od
}

/* two disjoint complete views */
#define DONE(v) (mask[v] != 0 && inst[v] == mask[v])
#define CLASH(a,b) (DONE(a) && DONE(b) && (mask[a] & mask[b]) == 0)
proctype Monitor() {
  d_step { (CLASH(1,2) || CLASH(1,3) || CLASH(2,3)
#if V > 4
   || CLASH(1,4) || CLASH(2,4) || CLASH(3,4)
#endif
  ) -> MUST(one_complete_view, false) }
}
init { atomic { mask[0] = ALL; byte n = 0; do :: n < N -> run Member(n); n++ :: else -> break od; run Coord(0); run Coord(1); run Monitor() } }
