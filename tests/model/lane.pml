/* libftar: the lane beside the frames (rule F4, protocol.md 10), and the sleeper's doorbell.
 *
 * oneshot.pml has the memory: stores that are seen late, fences, slots. Here each load and store is a step, in order, and the
 * question is another: every member of one operation chooses for itself between the lane and frames, those who wait in the lane
 * may send frames as well, and a change leaves out X, alive and unaware or dead, at any moment.
 *
 * A member that publishes waits for the lines of all. When a frame of the operation reaches it, or when it likes (patience), it
 * sends its input by frames, and goes on looking at the lane. Who does not publish sends frames. Complete is who holds all inputs,
 * whichever way; by frames one delivers on the acks of all, by the lane on all lines, the inputs read, and then all flags down.
 * Then the survivors begin the next era, and use their slots again.
 *
 * Property one_verdict: whatever anyone delivered, X included, all survivors report as complete.
 * Property whole_input: whoever delivers has read inputs of this operation.
 * With SLEEP they may sleep, and nobody loses patience: the doorbell alone must do.
 *
 * Property progress: without a change all deliver; who sleeps is woken.
 *
 * Mutations:
 *   BLIND          a member publishes that does not see the lane of X
 *   NO_SCAN        a member that has gone by frames does not scan the lane when it freezes
 *   READ_LATE      the inputs are read after the look at the flags
 *   NEVER_FRAMES   who waits in the lane does not heed frames
 *   FRAMES_ALONE   who has sent frames looks at the lane no more
 *   NO_SECOND_LOOK a sleeper does not look at the lane again when its doorbell is armed
 *   NO_RING        who publishes does not look who sleeps
 */
#define N 3
#define B(m) (1 << (m))
#define ALL (B(N) - 1)
#define IS(x, m) (((x) >> (m)) & 1)
#define MUST(name, p) assert(name || (p))
hidden byte one_verdict, whole_input, progress;

byte line;             /* m's line and input are out */
byte reused;           /* and then something of the next era in their place */
byte flag;             /* m is frozen */
byte raws[N];          /* raws[m]: whose inputs m holds by frames */
byte onwire[N];        /* onwire[m]: whose inputs are under way to m */
byte acked[N];         /* acked[m]: whose acks m has heard */
byte called, delivered, complete, reported, has;
byte asleep, rung;
byte out = 255;
bool dead, prepared, change;

/* With EYES, 0 does not see the lane of 2. */
#ifdef EYES
#define SEES(m, i) (!((m) == 0 && (i) == 2))
#else
#define SEES(m, i) true
#endif
#ifdef BLIND
#define MAY_PUBLISH(m) true
#else
#define MAY_PUBLISH(m) SEES(m, 2)
#endif
#define LINES(m) (((line & B(0)) && SEES(m, 0)) && ((line & B(1)) && SEES(m, 1)) && ((line & B(2)) && SEES(m, 2)))
#define STOPPED(m) ((m) == out && dead)

inline send_raws(m) {
  sent = true;
  onwire[0] = onwire[0] | B(m); onwire[1] = onwire[1] | B(m); onwire[2] = onwire[2] | B(m);
  rung = rung | asleep
}
inline ring(m) {
#ifdef NO_RING
  skip
#else
  rung = rung | asleep
#endif
}

/* Frames that have come, which the rings' own doorbell is for. */
#define NEWS(m) ((onwire[m] & (ALL - raws[m])) != 0)

#define ACKED(m) (IS(acked[0], m) && IS(acked[1], m) && IS(acked[2], m))

proctype Member(byte m) {
  bool published, sent, frozen, lane_read, checked;
  byte looked;
  do
  /* the call */
  :: atomic { !STOPPED(m) && !frozen && !IS(called, m) -> called = called | B(m); raws[m] = raws[m] | B(m) }
     if
     :: atomic { MAY_PUBLISH(m) -> published = true; line = line | B(m) }
        ring(m)
     :: send_raws(m)
     fi
  /* a frame arrives; a frozen member drops it */
#define HEAR(i) \
  :: d_step { !STOPPED(m) && !frozen && IS(called, m) && IS(onwire[m], i) && !IS(raws[m], i) && HEEDS -> \
       raws[m] = raws[m] | B(i); \
       if :: published && !sent -> send_raws(m) :: else fi }
#ifdef NEVER_FRAMES
#define HEEDS (!published)
#else
#define HEEDS true
#endif
  HEAR(0) HEAR(1) HEAR(2)
#if !defined(NEVER_FRAMES) && !defined(SLEEP)
  :: d_step { !STOPPED(m) && !frozen && published && !sent && !IS(complete, m) -> send_raws(m) }
#endif
  /* complete by frames; the ack goes out, or is lost with its sender */
  :: d_step { !STOPPED(m) && !frozen && !IS(complete, m) && IS(called, m) && raws[m] == ALL -> complete = complete | B(m) }
#define ACK(i) :: d_step { !STOPPED(m) && !frozen && IS(complete, m) && !IS(acked[i], m) -> \
       acked[i] = acked[i] | B(m); rung = rung | asleep }
  ACK(0) ACK(1) ACK(2)
  :: d_step { !STOPPED(m) && IS(complete, m) && !IS(delivered, m) && acked[m] == ALL -> delivered = delivered | B(m) }
  /* by the lane: all lines, the inputs, the flags one by one */
#ifdef FRAMES_ALONE
#define LOOKS (!sent)
#else
#define LOOKS true
#endif
  :: d_step { !STOPPED(m) && !frozen && published && LOOKS && !IS(delivered, m) && !lane_read && LINES(m) && reused == 0 ->
       lane_read = true }
#define LOOK(i) :: d_step { !STOPPED(m) && !frozen && lane_read && !IS(delivered, m) && !IS(looked, i) && !IS(flag, i) -> looked = looked | B(i) }
  LOOK(0) LOOK(1) LOOK(2)
  :: d_step { !STOPPED(m) && !frozen && looked == ALL && !IS(delivered, m) ->
#ifdef READ_LATE
       MUST(whole_input, reused == 0);
#endif
       delivered = delivered | B(m); complete = complete | B(m) }
  /* the change: flag, scan, Status */
  :: d_step { prepared && m != out && !frozen -> frozen = true; flag = flag | B(m) }
  :: d_step { frozen && !IS(reported, m) ->
#ifdef NO_SCAN
       if :: published && !sent && LINES(m) -> complete = complete | B(m) :: else fi;
#else
       if :: published && LINES(m) -> complete = complete | B(m) :: else fi;
#endif
       reported = reported | B(m);
       if :: IS(complete, m) || IS(delivered, m) -> has = has | B(m) :: else fi }
  /* the next era: all survivors have installed it, which is after all have reported */
  :: d_step { frozen && reported == (ALL - B(out)) && !IS(reused, m) && IS(line, m) -> reused = reused | B(m) }
#ifdef SLEEP
  /* sleep: arm the doorbell, look once more, wait for it */
  :: atomic { !change && published && !IS(complete, m) && !IS(delivered, m) && !LINES(m) && !NEWS(m) && raws[m] != ALL -> skip }
     atomic { rung = rung & (ALL - B(m)); asleep = asleep | B(m) }
#ifdef NO_SECOND_LOOK
     if :: NEWS(m) -> rung = rung | B(m) :: else fi;
#else
     if :: NEWS(m) || LINES(m) -> rung = rung | B(m) :: else fi;
#endif
     atomic { IS(rung, m) || prepared -> asleep = asleep & (ALL - B(m)) }
#endif
  /* Acks went out before; who has delivered from the lane owes none. */
  :: IS(delivered, m) && !change && (looked == ALL || ACKED(m)) -> break
  :: IS(delivered, m) && reported == (ALL - B(out)) -> break
  :: reported == (ALL - B(out)) && m != out && change -> break
  :: change && m == out -> if :: dead -> break :: else -> skip fi
  od
}

#define SURVIVORS (ALL - B(out))
proctype Coordinator() {
  byte x;
  do :: x < N - 1 -> x++ :: break od;
  atomic { out = x; change = true; prepared = true }
  if :: dead = true :: skip fi;
  reported == SURVIVORS;
  do
  :: atomic { delivered != 0 -> MUST(one_verdict, has == SURVIVORS); break }
  od
}

init {
  atomic {
    run Member(0); run Member(1); run Member(2);
#ifndef HEALTHY
    run Coordinator()
#endif
  }
#ifdef HEALTHY
  /* All end; where one cannot, everything stands still. */
  timeout;
  MUST(progress, delivered == ALL)
#endif
}
