#!/usr/bin/env python3
"""Reads what every member of a chaos run has written down and compares: check.py FOLDER. Knows nothing of libftar but what
its header promises. member.cc says how a record looks."""
import bisect
import collections
import glob
import json
import math
import os
import sys

LOST, LINK_DOWN, VIEW = 3, 6, 0
OUT = ("FTAR_ERR_EVICTED", "FTAR_ERR_ABORTED", "FTAR_ERR_LEFT", "FTAR_ERR_MEMORY")  # this member alone is out
AGREED = ("FTAR_OK", "FTAR_ERR_MISMATCH", "FTAR_ERR_ABSENT")
DESCRIPTORS_MORE = 12
# What a member remembers is bounded (outcomes, views, events, whom it has dropped), and some seven hundred faults fill it. From then on
# it holds as much at each rest.
FILLING_FAULTS, RESTS_MIN = 375, 6
HEAP_PER_FAULT, RESIDENT_PER_FAULT = 150, 2048  # bytes
PATIENCE_NS = 5_000_000_000
ERRORS_SHOWN = 20


class Incarnation:
    def __init__(self, place, fields):
        self.place, self.joined, self.id = place, int(fields[1]), fields[2]
        self.replica = int(fields[3])
        self.started = {}  # group -> (first seq, one past the last)
        self.seqs = {}  # group -> the last seq with an outcome
        self.out = {}  # group -> status of the first outcome that says: out
        self.epoch, self.job = 0, 0


class Checker:
    def __init__(self, spared):
        self.spared = spared  # replica
        self.errors, self.verdicts = [], {}
        self.incarnations, self.outcomes, self.compared = {}, 0, 0
        self.statuses, self.refusals = collections.Counter(), collections.Counter()
        self.lost, self.noticed = collections.defaultdict(list), collections.defaultdict(list)
        self.deliveries = collections.defaultdict(list)  # place of the spared replica -> times
        self.beginnings = []  # of the job: when members joined whose first operation has number 0

    def say(self, kind, text):
        self.errors.append(f"{kind}: {text}")

    def find_beginnings(self, paths):
        """A job whose members are all lost begins anew from 0. That is to be said, and not to be taken for disagreement."""
        firsts = []
        for path in paths:
            joined = None
            with open(path, encoding="utf-8", errors="replace") as file:
                for line in file:
                    if line.startswith("J\t"):
                        joined = int(line.split("\t", 2)[1])
                    elif joined and line.startswith("S\t"):
                        if line.split("\t")[3] == "0":
                            firsts.append(joined)
                        joined = None
        for when in sorted(firsts):
            if not self.beginnings or when - self.beginnings[-1] > 1_500_000_000:
                self.beginnings.append(when)
                if len(self.beginnings) > 1:
                    self.say("over", f"all were lost, and the job begins anew at {when}")

    def read(self, path):
        place = os.path.basename(path).removesuffix(".record")
        now = None
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                if not line.endswith("\n"):
                    break  # killed in the middle of it
                fields = line.rstrip("\n").split("\t")
                if fields[0] == "J":
                    now = Incarnation(place, fields)
                    now.job = bisect.bisect_right(self.beginnings, now.joined)
                    self.incarnations[now.id] = now
                elif fields[0] == "S" and now:
                    self.on_start(now, fields)
                elif fields[0] == "O" and now:
                    self.on_outcome(now, fields)
                elif fields[0] == "E":
                    self.on_event(now, place, fields)
                elif fields[0] == "F":
                    self.refusals[(fields[2], fields[3].split(":")[0])] += 1
                elif fields[0] == "X":
                    now = None

    def on_start(self, now, fields):
        group, first, count = fields[2], int(fields[3]), int(fields[4])
        begin, end = now.started.get(group, (first, first))
        if first != end and now.out.get(group) is None:
            self.say("gap", f"{now.place} starts {group} {first} after {end - 1}")
        now.started[group] = (begin, first + count)

    def on_outcome(self, now, fields):
        group, seq, status, epoch, weight, digest, wrong = fields[2], int(fields[3]), *fields[4:9]
        self.outcomes += 1
        self.statuses[status] += 1
        where = f"{now.place} ({now.id}) {group} {seq}"
        if int(wrong) != 0:
            self.say("wrong", f"{where}: {wrong} elements, {status}, attempts {fields[9]}")
        last = now.seqs.get(group, now.started[group][0] - 1)
        if seq != last + 1:
            self.say("gap", f"{where} comes after {last}")
        now.seqs[group] = seq
        if status in OUT:
            now.out.setdefault(group, status)
            return
        if status not in AGREED:
            self.say("status", f"{where} ends with {status}")
        elif status == "FTAR_ERR_MISMATCH" or status == "FTAR_ERR_ABSENT" and seq % 6 != 5:  # shape kSomeAbsent
            self.say("status", f"{where} ends with {status}")
        elif now.out.get(group):
            self.say("order", f"{where} ends well after one that ended with {now.out[group]}")
        if now.replica == self.spared:
            self.deliveries[now.place].append(int(fields[1]))
        verdict = (status, epoch, weight, digest, fields[12])
        first = self.verdicts.setdefault((now.job, group, seq), (verdict, where, int(fields[1])))
        if first[1] == where:
            return
        self.compared += 1
        if first[0] != verdict:
            self.say("disagreement", f"{where} has {verdict}, but {first[1]} has {first[0]}")
        if status == "FTAR_OK" and now.id + ":" not in fields[12]:
            self.say("disagreement", f"{where} is not in its own result: {fields[12]}")

    def on_event(self, now, place, fields):
        when, kind, epoch, replica = int(fields[1]), int(fields[2]), int(fields[4], 16), int(fields[5])
        mine = int(place[1:].split("s")[0])
        if kind == VIEW and now:
            if epoch <= now.epoch:
                self.say("epoch", f"{place} installs {epoch:x} after {now.epoch:x}")
            now.epoch = epoch
        if kind in (LOST, LINK_DOWN) and mine != replica:
            self.noticed[replica].append(when)
        if kind == LOST and mine == self.spared:
            self.lost[replica].append(when)

    def participants(self):
        """Everybody who counts in a result had joined, and had started that operation, before anybody had the result. Who
        leaves as planned stands in for its caller with weight 0."""
        for (_, group, seq), (verdict, where, when) in self.verdicts.items():
            weights, replicas = 0.0, []
            for part in filter(None, verdict[4].split(",")):
                name, weight = part.split(":")
                who = self.incarnations.get(name)
                weights += float(weight)
                begin, end = who.started.get(group, (0, 0)) if who else (0, 0)
                if float(weight) > 0 and not begin <= seq < end or not who or who.joined > when:
                    self.say("participant", f"{where}: {name} ({who.place if who else 'unknown'}) never started it")
                replicas.append(who.replica if who else -1)
            if len(set(replicas)) != len(replicas) or verdict[0] == "FTAR_OK" and weights != float(verdict[2]):
                self.say("participant", f"{where}: {verdict[4]} with weight {verdict[2]}")


def quantile(sample, part):
    ordered = sorted(sample)
    return ordered[min(int(part * len(ordered)), len(ordered) - 1)] if ordered else math.nan


def after(times, begin):
    """The first of the sorted times after `begin`, if it is close enough to belong to it."""
    at = bisect.bisect_left(times, begin)
    return times[at] if at < len(times) and times[at] - begin < PATIENCE_NS else None


def times_of(checker, struck):
    """Per kind of those that evict: all ms to detect (anybody), decide and finish (the replica that is never struck)."""
    out = collections.defaultdict(lambda: ([], [], []))
    deliveries = sorted(sum(checker.deliveries.values(), []))
    for times in list(checker.lost.values()) + list(checker.noticed.values()):
        times.sort()
    for fault in struck:
        if not fault["evicts"]:
            continue
        for replica in fault["replicas"]:
            detect = after(checker.noticed[replica], fault["begin"])
            decide = after(checker.lost[replica], fault["begin"])
            finish = after(deliveries, decide) if decide else None
            for sample, value in zip(out[fault["kind"]], (detect, decide, finish)):
                if value is not None:
                    sample.append((value - fault["begin"]) / 1e6)
    return out


def stalls(checker):
    """The longest pauses between two outcomes of the replica that is never struck, in ms."""
    gaps = [(b - a) / 1e6 for times in checker.deliveries.values() for a, b in zip(times, times[1:])]
    return sorted(gaps)[-5:][::-1]


def flat(samples):
    """Medians of the second and of the last quarter of the descriptors of the processes that live longest."""
    quarter = len(samples) // 4
    if quarter < 15:  # too short to tell
        return []
    every = [[sample[process][0] for sample in samples] for process in range(len(samples[0]))]
    return [[quantile(series[quarter:2 * quarter], 0.5), quantile(series[-quarter:], 0.5)] for series in every]


def slope(points):
    """The middle one of the slopes between any two points (Theil and Sen): a few that lie far off do not matter."""
    slopes = [(b[1] - a[1]) / (b[0] - a[0]) for at, a in enumerate(points) for b in points[at + 1:] if b[0] > a[0]]
    return quantile(slopes, 0.5)


def growth(rests):
    """Of each process that lives longest: bytes of the heap, and of memory that is its own, that a fault costs for good. Nothing of one
    whose longest life is too short to tell: a member that is evicted begins anew with nothing."""
    out = []
    for process in range(len(rests[0]) if rests else 0):
        lives = collections.defaultdict(list)
        for rest in rests:
            heap, life, resident, fault = rest[process]
            lives[tuple(life)].append((fault, heap, 1024 * resident))
        filled = [[point for point in points if point[0] >= points[0][0] + FILLING_FAULTS] for points in lives.values()]
        points = max(filled, key=len)
        if len(points) >= RESTS_MIN and points[0][1] > 0:
            out.append([slope([(fault, heap) for fault, heap, _ in points]), slope([(fault, own) for fault, _, own in points]),
                        points[-1][1]])
    return out


def check(folder):
    with open(os.path.join(folder, "samples"), encoding="ascii") as file:
        measured = json.load(file)
    checker = Checker(measured["spared"])
    paths = sorted(glob.glob(os.path.join(folder, "*.record")))
    checker.find_beginnings(paths)
    for path in paths:
        checker.read(path)
    checker.participants()
    with open(os.path.join(folder, "faults"), encoding="ascii") as file:
        struck = [json.loads(line) for line in file]
    footprints, grown = flat(measured["samples"]), growth(measured["rests"])
    for early, late in footprints:
        if late > early + DESCRIPTORS_MORE:
            checker.say("leak", f"descriptors of a process grow from {early} to {late}")
    for heap, resident, _ in grown:
        if heap > HEAP_PER_FAULT or resident > RESIDENT_PER_FAULT:
            checker.say("leak", f"a process keeps {heap:.0f} bytes of its heap a fault, and grows by {resident:.0f}")
    return {"faults": len(struck), "kinds": collections.Counter(f["kind"] for f in struck), "errors": checker.errors,
            "operations": len(checker.verdicts), "outcomes": checker.outcomes, "compared": checker.compared,
            "incarnations": len(checker.incarnations), "statuses": checker.statuses, "times": times_of(checker, struck),
            "refusals": {" ".join(k): v for k, v in checker.refusals.items()}, "stalls_ms": stalls(checker),
            "footprints": footprints, "growth": grown}


def merge(results):
    """One report of several runs."""
    out = results[0]
    for more in results[1:]:
        for key in ("faults", "operations", "outcomes", "compared", "incarnations", "seconds"):
            out[key] += more[key]
        for key in ("errors", "footprints", "growth"):
            out[key] += more[key]
        for key in ("kinds", "statuses", "refusals"):
            out[key] = collections.Counter(out[key]) + collections.Counter(more[key])
        for kind, samples in more["times"].items():
            have = out["times"].setdefault(kind, [[], [], []])
            out["times"][kind] = [a + b for a, b in zip(have, samples)]
        out["stalls_ms"] = sorted(out["stalls_ms"] + more["stalls_ms"])[-5:][::-1]
    return out


def count(result, kind):
    return sum(error.startswith(kind + ":") for error in result["errors"])


def line(result):
    return (f"{result['faults']} faults in {result.get('seconds', 0):.0f} s, {result['compared']} comparisons, "
            f"{count(result, 'disagreement')} disagreements, {count(result, 'wrong')} wrong, {count(result, 'hang')} hangs, "
            f"{count(result, 'crash')} crashes, {count(result, 'over')} jobs over, {count(result, 'leak')} leaks, {len(result['errors'])} errors in all")


def tell(result):
    def figures(three):
        if not three:
            return "-"
        return "/".join(f"{v:.1f}" if v < 100 else f"{v:.0f}" for v in (quantile(three, p) for p in (0.5, 0.95, 1.0)))

    lines = ["", f"{'':<26}{'':>7}   ms, median/p95/max, of those that lost a replica its place",
             f"{'kind':<26}{'faults':>7}   {'detect':<21}{'decide':<21}finish"]
    for kind, number in sorted(result["kinds"].items(), key=lambda item: -item[1]):
        columns = "".join(f"{figures(three):<21}" for three in result["times"].get(kind, []))
        lines.append(f"{kind:<26}{number:>7}   {columns}".rstrip())
    lines += ["", f"operations {result['operations']}, outcomes {result['outcomes']}, compared {result['compared']}, "
                  f"incarnations {result['incarnations']}",
              "outcomes by status: " + ", ".join(f"{k} {v}" for k, v in sorted(result["statuses"].items())),
              "calls that did not succeed: " + ", ".join(f"{k} {v}" for k, v in sorted(result["refusals"].items())),
              "longest pauses of the replica that is never struck: " + ", ".join(f"{v:.0f}" for v in result["stalls_ms"]) + " ms",
              "descriptors of its processes, second and last quarter: " +
              ", ".join(f"{a} to {b}" for a, b in result["footprints"]),
              "bytes that they hold at rest, more with each fault: " +
              ", ".join(f"{heap:+.0f} of {all_of} (resident {resident:+.0f})" for heap, resident, all_of in result["growth"])]
    return "\n".join(lines + result["errors"][:ERRORS_SHOWN] + ["chaos: " + line(result)])


if __name__ == "__main__":
    outcome = check(sys.argv[1])
    print(tell(outcome))
    sys.exit(1 if outcome["errors"] else 0)
