#!/usr/bin/env python3
"""Chaos on real processes: members of one job in network namespaces, struck by faults that a seed draws, and every record
compared at the end. Needs root for the namespaces; without it says so and ends with 77.

    chaos.py TOOLS [--faults N] [--seed S] [--transport tcp|shm|mixed] [--steps 0|1] [--steady 0|1] [--hosted 0|1] [--report FILE]
             [--relays 0|1] [--only KIND;..] [--keep]

The master is process 1 of its own namespaces (processes, mounts, network): whatever ends it ends all the others.
"""
import argparse
import contextlib
import heapq
import json
import mmap
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

import arena
import check
import faults

SKIP = 77
SHARDS, REPLICAS = 2, 6
SPREAD = [0, 0, 1, 1, 2, 3]  # replica -> host
HANG_S = 10.0  # of healthy time without an outcome
SETTLE_S, LEAVE_S = 30.0, 20.0
REST_FAULTS = 75  # so often all come to rest and are measured,
REST_S, LOOKS = 2.5, 8  # when all links are up and malloc has been trimmed: the least of so many looks, a second apart
AWARE_TIMEOUTS = 5
JOINING, IN = 1, 2


class Member:
    """A place in the job, and the process that has it."""

    def __init__(self, run, replica, shard, host):
        self.run, self.replica, self.shard, self.host = run, replica, shard, host
        self.number, self.process, self.page = 0, None, None
        self.stopped = self.may_die = False
        self.quiet_s, self.seen = 0.0, 0
        self.name = f"r{replica}s{shard}"
        self.restart()

    def path(self, what):
        return os.path.join(self.run.folder, f"{self.name}.{self.number}.{what}")

    def restart(self, more=None):
        self.number += 1
        variables = self.run.variables | {"FTAR_REPLICA": str(self.replica), "FTAR_SHARD": str(self.shard),
                                          "FTAR_COORDINATOR": self.run.meeting(self.host),
                                          "FTAR_LOG_FILE": f"{self.run.disk.folder}/{self.name}.{self.number}.log"} | (more or {})
        arguments = [f"{k}={v}" for k, v in self.run.work.items()]
        with open(self.path("page"), "wb") as file:
            file.truncate(4096)
        with open(self.path("page"), "r+b") as file:
            self.page = mmap.mmap(file.fileno(), 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE)
        command = [self.run.program, f"record={self.path('record')}", f"page={self.path('page')}",
                   f"dump={self.run.disk.folder}/{self.name}.{self.number}.dump"] + arguments
        self.process = arena.Process(self.host, command, variables, self.path("out"))
        self.stopped, self.quiet_s, self.may_die = False, 0.0, False

    def progress(self):
        """When it last got on, and its state."""
        return struct.unpack_from("qq", self.page)

    def step(self):
        return struct.unpack_from("q", self.page, 24)[0]

    def heap(self):
        """Bytes in use, and which of its lives."""
        return struct.unpack_from("q", self.page, 48)[0], (self.number, struct.unpack_from("q", self.page, 16)[0])

    def leave(self, step, end):
        struct.pack_into("qq", self.page, 32, step, end)

    def joined(self):
        return self.process.alive() and not self.stopped and self.progress()[1] == IN

    def stop(self):
        self.process.signal(signal.SIGSTOP)
        self.stopped = True

    def go_on(self):
        self.process.signal(signal.SIGCONT)
        self.stopped = False


class Coordinator:
    """A process of its own, which strikes and their ends start anew; or a relay, which is one to those behind it."""

    def __init__(self, run, host, above=None):
        self.run, self.host, self.above, self.troubled, self.process = run, host, above, False, None
        self.restart()

    def restart(self):
        name = f"relay.{self.host.name}" if self.above else "coordinator"
        way = ["--relay-to", self.above.name(), "--members", str(SHARDS)] if self.above else ["--state", self.run.folder + "/coordinator.state"]
        self.process = arena.Process(self.host, [self.run.tools + "/ftar-coordinator", "--listen", self.name()] + way,
                                     {"FTAR_TOKEN": "chaos", "FTAR_LOG": "info"}, f"{self.run.folder}/{name}.out")

    def name(self):
        return f"{self.host.address}:{7100 if self.above else 7000}"

    def alive(self):
        return self.process.alive()

    def address(self):
        return self.host.address

    def bury(self):
        self.process.bury()


class Members:
    """They coordinate themselves: whoever is struck may be the coordinator, and no strike is at it alone."""
    troubled = False

    @staticmethod
    def alive():
        return True

    @staticmethod
    def address():
        return None

    @staticmethod
    def bury():
        pass


class Disk:
    """A small disk of its own for logs and dumps, which can be filled up."""

    def __init__(self, folder):
        self.folder = folder
        os.mkdir(folder)
        arena.run("mount", "-t", "tmpfs", "-o", "size=600m", "chaos", folder)

    def full(self):
        return os.path.exists(self.folder + "/ballast")

    def fill(self):
        with open(self.folder + "/ballast", "wb") as file, contextlib.suppress(OSError):
            for block in (1 << 24, 1 << 12):  # others write at the same time
                while True:
                    left = os.statvfs(self.folder)
                    if left.f_bavail * left.f_frsize < block:
                        break
                    os.posix_fallocate(file.fileno(), file.seek(0, os.SEEK_END), block)

    def clear(self):
        os.unlink(self.folder + "/ballast")


class Run:
    def __init__(self, options, folder):
        self.options, self.folder, self.tools = options, folder, options.tools
        self.program = self.tools + "/tests/ftar_chaos_member"
        weather = self.tools + "/tests/libftar_weather.so"
        self.weather = weather if os.path.exists(weather) else None
        self.dice = random.Random(options.seed)
        self.timeout = options.timeout / 1e3
        self.disk = Disk(folder + "/disk")
        places = [0] * REPLICAS if options.transport == "shm" else SPREAD
        *self.hosts, home = arena.build(max(places) + 1)
        # The first process founds the job where members coordinate, and is to be struck like any other.
        self.spared = REPLICAS - 1 if options.hosted else 0
        self.places = places
        self.variables = {"FTAR_REPLICAS": str(REPLICAS), "FTAR_SHARDS": str(SHARDS),
                          "FTAR_TOKEN": "chaos", "FTAR_TIMEOUT": f"{options.timeout}ms", "FTAR_LOG": options.log,
                          "FTAR_TRANSPORT": "auto" if options.transport == "mixed" else options.transport,
                          "FTAR_COORDINATOR_KIND": "hosted" if options.hosted else "fixed", "FTAR_JOIN_TIMEOUT": "5s"}
        self.work = {"steps": options.steps, "window": 4, "small": 600, "large": 40000, "pause_us": 5000}
        self.events, self.faults, self.samples, self.rests, self.errors = [], [], [], [], []
        self.trouble, self.troubled_hosts = {}, set()
        self.coordinator = Members() if options.hosted else Coordinator(self, home)
        # One on each host, and one that stands by for all.
        self.relays = [Coordinator(self, host, self.coordinator) for host in self.hosts + [home]] if options.relays else []
        self.members = [Member(self, r, s, self.hosts[h]) for r, h in enumerate(places) for s in range(SHARDS)]
        self.journal = open(folder + "/faults", "w", encoding="ascii")  # pylint: disable=consider-using-with
        self.stop = False

    def meeting(self, host):
        """Where a member of this host looks for its coordinator."""
        if self.options.hosted:
            ports = enumerate(h for h in self.places for _ in range(SHARDS))
            return ",".join(f"{self.hosts[h].address}:{7000 + i}" for i, h in ports)
        own = [relay.name() for relay in self.relays if relay.host is host]
        return ",".join(own + [self.relays[-1].name()]) if own else self.coordinator.name()

    # ---- what the faults ask

    def replica(self, replica):
        return [m for m in self.members if m.replica == replica]

    def healthy(self, replica):
        return self.trouble.get(replica, 0) == 0 and all(m.joined() for m in self.replica(replica))

    def may_trouble(self, replicas):
        """Two replicas at least go on undisturbed, where members coordinate a majority of any view that may be; one is never struck."""
        least = REPLICAS - 2 if self.options.hosted else 2
        return self.spared not in replicas and sum(self.healthy(r) for r in range(REPLICAS) if r not in replicas) >= least

    def victim(self):
        replicas = [r for r in range(REPLICAS) if r != self.spared and self.healthy(r) and self.may_trouble([r])]
        if not replicas:
            return None
        replica = self.dice.choice(replicas)
        self.trouble[replica] = self.trouble.get(replica, 0) + 1
        return replica

    def on(self, host):
        return sorted({m.replica for m in self.members if m.host is host})

    def victim_host(self):
        hosts = [h for h in self.hosts if h not in self.troubled_hosts and all(self.healthy(r) for r in self.on(h)) and
                 self.may_trouble(self.on(h))]
        return self.dice.choice(hosts) if hosts else None

    def troubled_host(self, host, seconds, undo, evicts):
        self.troubled_hosts.add(host)
        for replica in self.on(host):
            self.trouble[replica] = self.trouble.get(replica, 0) + 1
        return faults.Strike(self.on(host), seconds, lambda: (undo(), self.troubled_hosts.discard(host)), host.name, evicts)

    def bystanders(self, host, strike):
        """Replicas of this host may also lose their place by it; those at rest are not struck meanwhile."""
        more = [r for r in self.on(host) if r not in strike.replicas]
        for replica in more:
            self.trouble[replica] = self.trouble.get(replica, 0) + 1
        strike.replicas = strike.replicas + more

    def step_ahead(self):
        """One that nobody is at yet."""
        return max(m.step() for m in self.members if m.joined()) + 60

    def after(self, seconds, action):
        heapq.heappush(self.events, (time.monotonic() + seconds, len(self.faults), id(action), action))

    # ---- the loop

    def strike(self):
        spared = self.options.steady or self.options.hosted
        kinds = {k: v for k, v in faults.KINDS.items() if (len(self.hosts) > 1 or k not in faults.HOSTS) and
                 (not self.options.only or k in self.options.only) and not (spared and "coordinator" in k) and
                 (self.relays or "relay" not in k)}
        kind = self.dice.choices(list(kinds), [share for share, _ in kinds.values()])[0]
        began = time.monotonic_ns()
        strike = kinds[kind][1](self)
        if strike is None:
            return
        if strike.coordinator:
            self.coordinator.troubled = True
        self.faults.append(strike)
        self.journal.write(json.dumps({"n": len(self.faults), "kind": kind, "begin": began, "replicas": strike.replicas, "seconds":
                                       strike.seconds, "evicts": strike.evicts, "detail": strike.detail}) + "\n")
        self.journal.flush()
        self.after(strike.seconds, lambda: self.undo(strike))

    def undo(self, strike):
        if strike.undo:
            strike.undo()
        if strike.coordinator:
            self.coordinator.troubled = False
        if self.options.hosted:  # who was away may not know yet that it is out, and would be counted for a majority
            self.after(AWARE_TIMEOUTS * self.timeout, lambda: self.calm(strike))
        else:
            self.calm(strike)

    def calm(self, strike):
        for replica in strike.replicas:
            self.trouble[replica] -= 1

    def due(self):
        while self.events and self.events[0][0] <= time.monotonic():
            heapq.heappop(self.events)[3]()

    def watch(self, seconds):
        """Counts the healthy time of those who do not get on, and finds processes that ended unasked."""
        for member in self.members:
            progress = member.progress()[0]
            calm = (self.trouble.get(member.replica, 0) == 0 and not self.coordinator.troubled and not member.stopped)
            if progress != member.seen:
                member.seen, member.quiet_s = progress, 0.0
            elif calm:
                member.quiet_s += seconds
            if not member.process.alive() and calm:
                self.errors.append(f"crash: {member.name}.{member.number} ended by itself with {member.process.child.returncode}")
                member.restart()
            if member.quiet_s > HANG_S:
                self.errors.append(f"hang: {member.name}.{member.number} (pid {member.process.pid}) in state "
                                   f"{member.progress()[1]} for {HANG_S:.0f} s")
        for one in [self.coordinator] + self.relays:
            if not one.alive() and not one.troubled:
                self.errors.append("crash: the coordinator, or a relay, ended by itself")
                one.restart()

    def hung(self):
        return any(error.startswith("hang") for error in self.errors)

    def sample(self):
        if all(m.process.alive() for m in self.replica(self.spared)):
            self.samples.append([m.process.footprint() for m in self.replica(self.spared)])

    def together(self, seconds):
        """All come to rest and together, if they do in that time."""
        deadline = time.monotonic() + seconds
        self.turn(lambda: not self.events and self.whole() or time.monotonic() > deadline, False)
        return self.whole()

    def rest(self):
        """How much the spared replica's processes hold can be compared when all are there, and nothing else."""
        if not self.together(SETTLE_S):
            return
        looks = []
        for seconds in [REST_S] + [1.0] * (LOOKS - 1):
            deadline = time.monotonic() + seconds
            if not self.turn(lambda deadline=deadline: time.monotonic() > deadline, False) or not self.whole():
                return
            looks.append([m.heap() for m in self.replica(self.spared)])
        least = map(min, zip(*looks))
        self.rests.append([(*held, m.process.footprint()[1], len(self.faults)) for held, m in zip(least, self.replica(self.spared))])

    def turn(self, until, strikes):
        """Time passes until a condition holds; strikes on the way or not. False: hung, or told to stop."""
        last = sampled = time.monotonic()
        following = last
        while not until() and not self.stop and not self.hung():
            time.sleep(0.004)
            now = time.monotonic()
            self.due()
            self.watch(now - last)
            last = now
            if strikes and now >= following:
                self.strike()
                following = now + self.dice.uniform(0.05, 0.4)
            if now - sampled > 1:
                self.sample()
                sampled = now
        return not self.stop and not self.hung()

    def whole(self):
        return all(m.joined() for m in self.members)

    def run(self):
        if not self.together(SETTLE_S):
            self.errors.append("hang: not all joined at the start")
        began = time.monotonic()
        between_rests = max(REST_FAULTS, self.options.faults // 16)
        while not self.hung() and not self.stop and len(self.faults) < self.options.faults:
            goal = min(len(self.faults) + between_rests, self.options.faults)
            if self.turn(lambda goal=goal: len(self.faults) >= goal, True):
                self.rest()
            print(f"  {len(self.faults)} faults", flush=True)
        seconds = time.monotonic() - began
        if not self.hung() and not self.stop:
            self.finish()
        if self.hung():
            self.show_hang()
        return seconds

    def finish(self):
        """All come to rest and together, then all leave at once."""
        if not self.together(SETTLE_S):
            self.errors.append("hang: not all are together again after the last fault: " +
                               ", ".join(m.name for m in self.members if not m.joined()))
            return
        last = self.step_ahead()
        for member in self.members:
            member.leave(last, 1)
        deadline = time.monotonic() + LEAVE_S
        while any(m.process.alive() for m in self.members) and time.monotonic() < deadline:
            time.sleep(0.01)
        for member in self.members:
            if member.process.alive():
                self.errors.append(f"hang: {member.name} does not come to its end after leaving")
            elif member.process.child.returncode != 0:
                self.errors.append(f"crash: {member.name} ended with {member.process.child.returncode}")

    def show_hang(self):
        for member in self.members:
            member.process.signal(signal.SIGUSR2)
        time.sleep(0.5)
        # A debugger makes each member silent for longer than `timeout`: nobody shall decide anything of that, and blur what was.
        self.coordinator.bury()
        for member in self.members:
            member.process.signal(signal.SIGSTOP)
        if shutil.which("gdb"):
            for member in self.members:
                with open(member.path("stacks"), "w", encoding="ascii") as file:
                    subprocess.run(["gdb", "-p", str(member.process.pid), "-batch", "-ex", "thread apply all bt 14"], stdout=file,
                                   stderr=subprocess.DEVNULL, check=False, timeout=60)

    def end(self):
        for member in self.members:
            member.process.bury()
        for one in self.relays + [self.coordinator]:
            one.bury()


def inside(options):
    folder = os.path.join(options.folder, "run")
    os.mkdir(folder)
    # A busy disk must not stop a member that writes its record.
    arena.run("mount", "-t", "tmpfs", "-o", "size=8g", "chaos", folder)
    run = Run(options, folder)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: setattr(run, "stop", True))
    seconds = run.run()
    run.end()
    with open(folder + "/samples", "w", encoding="ascii") as file:
        json.dump({"samples": run.samples, "rests": run.rests, "spared": run.spared}, file)
    result = check.check(folder)
    result["errors"] = run.errors + result["errors"] + (["stopped by a signal"] if run.stop else [])
    result["seconds"], result["options"] = seconds, vars(options)
    text = check.tell(result)
    print(text, flush=True)
    if options.report:
        with open(options.report, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)
    if result["errors"] or options.keep:
        arena.run("cp", "-r", folder, options.folder + "/kept")
    return 0 if not result["errors"] else 1


def parse():
    parser = argparse.ArgumentParser(description="Chaos on real processes")
    parser.add_argument("tools")
    parser.add_argument("--faults", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--transport", choices=("tcp", "shm", "mixed"), default="mixed")
    parser.add_argument("--steps", type=int, choices=(0, 1), default=1)
    parser.add_argument("--steady", type=int, choices=(0, 1), default=0, help="spare the coordinator, so that the job is one to the end")
    parser.add_argument("--hosted", type=int, choices=(0, 1), default=0, help="members coordinate; there is no coordinator process")
    parser.add_argument("--relays", type=int, choices=(0, 1), default=0, help="a relay on each host, and one that stands by")
    parser.add_argument("--timeout", type=int, default=300, help="of the members, in ms")
    parser.add_argument("--log", default="info")
    parser.add_argument("--only", type=lambda text: text.split(";"), default=[], help="kinds of fault, by semicolons")
    parser.add_argument("--report", help="a JSON file to write")
    parser.add_argument("--keep", action="store_true", help="keep the records of a good run, too")
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    return parser.parse_args()


def outside(options):
    """Makes the namespaces and runs this program in them."""
    own = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    missing = [tool for tool in ("unshare", "ip", "nft", "tc", "mount") if shutil.which(tool) is None]
    probe = subprocess.run(own + ["true"], capture_output=True, text=True, check=False) if not missing else None
    if missing or probe.returncode != 0:
        print(f"SKIP: chaos needs {', '.join(missing)}" if missing else f"SKIP: no namespaces for us: {probe.stderr.strip()}")
        return SKIP
    folder = tempfile.mkdtemp(prefix="ftar-chaos-")
    command = own + [sys.executable, os.path.abspath(__file__)] + sys.argv[1:] + ["--folder", folder]
    with subprocess.Popen(command) as child:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda n, _: subprocess.run(["pkill", f"-{n}", "-P", str(child.pid)], check=False))
        code = child.wait()
    if code == 0 and not options.keep:
        shutil.rmtree(folder)
    else:
        print(f"records: {folder}/kept")
    return code


def main():
    options = parse()
    options.tools = os.path.abspath(options.tools)
    sys.exit(inside(options) if options.folder else outside(options))


main()
