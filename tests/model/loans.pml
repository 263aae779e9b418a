/* libftar: payload that its sender lends and takes back (rule F1, src/transport/shm/loans.h), with every store and load on its own.
 *
 * The lender has a buffer of two words, a slot's word (age), and lends twice through the same slot: loan 0 of what the buffer holds
 * then, taken back at any moment, whereupon its user overwrites the buffer; then loan 1 of what it holds now, which is not taken
 * back. The borrower has a word of its own (returned). References travel in order. Stores go into a buffer of the writer and become
 * visible later: in the order of writing, or, with -DWEAK, in any order, except across a read-modify-write. Loads of the borrower's:
 * -DWEAK lets it take the age before it has taken the bytes, unless a read-modify-write stands between.
 *
 * Property whole: what the borrower takes for good of a loan is that loan's payload, both words of it.
 * Property lent_once: a loan that the lender takes for returned is one that the borrower is done with.
 * Property progress: in the end loan 1 has come back.
 *
 * Mutations, each a mistake that is easy to make:
 *   USER_FIRST   the memory is the user's before the age has changed
 *   PLAIN_STORE  the age is changed by a store that later ones may pass (needs WEAK)
 *   CHECK_FIRST  the borrower looks at the age before it reads the bytes
 *   NO_FENCE     and nothing keeps its loads in order (needs WEAK)
 *   NO_CHECK     the borrower does not look at the age at all
 *   LATE_RETURN  the borrower gives back what was recalled, too: the slot is another loan's by then
 *   NO_AGE       giving back says which slot, not which loan
 */
#define MUST(name, p) assert(name || (p))
hidden byte whole, lent_once, progress;

#ifdef WEAK
#define IN_ORDER false
#else
#define IN_ORDER true
#endif

/* Visible memory. */
byte word[2];          /* the buffer: the number of the payload, 0 or 1; 2 what the user does in between */
byte age;              /* of the slot */
byte returned;         /* the borrower's word: age + 1 of the last loan given back; with NO_AGE 1 */

/* The lender's store buffer: its next values, and which are waiting. */
#define W0  1
#define W1  2
#define AGE 4
byte waiting, rank[3], next_rank, value[3];

chan ring = [2] of { byte, byte };   /* loan, age */
bool done[2];                        /* the borrower is done with the loan */

inline Store(bit_of, index, v) {
  atomic { value[index] = v; waiting = waiting | bit_of; rank[index] = next_rank; next_rank++ }
}
#define MAY_DRAIN(bit_of, index) ((waiting & bit_of) && (!IN_ORDER || \
  ((!(waiting & W0) || rank[0] >= rank[index]) && (!(waiting & W1) || rank[1] >= rank[index]) && \
   (!(waiting & AGE) || rank[2] >= rank[index]))))

active proctype Memory() {
end: do
  :: atomic { MAY_DRAIN(W0, 0) -> word[0] = value[0]; waiting = waiting & ~W0 }
  :: atomic { MAY_DRAIN(W1, 1) -> word[1] = value[1]; waiting = waiting & ~W1 }
  :: atomic { MAY_DRAIN(AGE, 2) -> age = value[2]; waiting = waiting & ~AGE }
  od
}

inline UserWrites(v) { Store(W0, 0, v); Store(W1, 1, v) }

inline ChangeAge() {
#ifdef PLAIN_STORE
  Store(AGE, 2, 1)
#else
  atomic { waiting == 0 -> age = 1 }   /* a read-modify-write: what was stored before is visible, what follows is not */
#endif
}

active proctype LenderSide() {
  ring ! 0, 0;
  if
  :: /* taken back at once, or after it was read: at any moment */
#ifdef USER_FIRST
    UserWrites(2);
    ChangeAge()
#else
    ChangeAge();
    UserWrites(2)
#endif
  :: returned == 1 ->                  /* the borrower has given it back */
    MUST(lent_once, done[0]);
    ChangeAge();
    UserWrites(2)
  fi;
  UserWrites(1);
  waiting == 0;                        /* publishing in the ring is a read-modify-write as well */
  ring ! 1, 1;
  if
#ifdef NO_AGE
  :: returned == 1 -> MUST(lent_once, done[1])
#else
  :: returned == 2 -> MUST(lent_once, done[1])
#endif
  :: timeout -> MUST(progress, false)
  fi
}

inline GiveBack(loan, its_age) {
#ifndef LATE_RETURN
  if
  :: age == its_age ->
#endif
#ifdef NO_AGE
    returned = 1
#else
    returned = its_age + 1
#endif
#ifndef LATE_RETURN
  :: else
  fi
#endif
}

byte seen0, seen1, seen_age;

active proctype BorrowerSide() {
  byte loan, its_age;
  bool held;                           /* loan 0 is read, and kept for a while */
  do
  :: ring ? loan, its_age ->
    /* The bytes, a load each, and the age: in which order is what this is about. */
#if defined(CHECK_FIRST) || (defined(WEAK) && defined(NO_FENCE))
    seen_age = age;
#endif
    seen0 = word[0];
    seen1 = word[1];
#if !defined(CHECK_FIRST) && !(defined(WEAK) && defined(NO_FENCE))
    seen_age = age;
#endif
#ifdef NO_CHECK
    seen_age = its_age;
#endif
    MUST(whole, seen_age != its_age || (seen0 == loan && seen1 == loan));
    seen0 = 0; seen1 = 0; seen_age = 0;
    if
    :: loan == 0 -> held = true
    :: else -> done[1] = true; GiveBack(1, 1)
    fi
  :: held -> held = false; done[0] = true; GiveBack(0, 0)
  :: done[0] && done[1] && !held -> break
  od
}
