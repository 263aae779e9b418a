"""The kinds of fault: each is a function of the run that strikes at once and says what it struck and how it ends."""
import dataclasses
import signal
from typing import Callable, Optional

import arena


@dataclasses.dataclass
class Strike:
    replicas: list  # who may lose its place by it
    seconds: float = 0.0  # until undo
    undo: Optional[Callable] = None
    detail: str = ""
    evicts: bool = False  # those replicas must lose their place
    coordinator: bool = False


def _members(run, replica):
    """One of its processes or all."""
    members = run.replica(replica)
    return members if run.dice.random() < 0.5 else [run.dice.choice(members)]


def kill(run):
    replica = run.victim()
    if replica is None:
        return None
    struck = _members(run, replica)
    for member in struck:
        member.process.signal(signal.SIGKILL)
    return Strike([replica], run.dice.choice([0.0, 0.1, 0.3, 0.6, 2.0]), lambda: [m.restart() for m in struck],
                  f"{len(struck)} of its processes", True)


def kill_two(run):
    first = kill(run)
    second = kill(run) if first else None
    if second is None:
        return first
    return Strike(first.replicas + second.replicas, max(first.seconds, second.seconds),
                  lambda: (first.undo(), second.undo()), "two replicas", True)


def _stop(run, low, high, evicts):
    replica = run.victim()
    if replica is None:
        return None
    struck = _members(run, replica)
    for member in struck:
        member.stop()
    return Strike([replica], run.dice.uniform(low, high), lambda: [m.go_on() for m in struck], f"{len(struck)} processes", evicts)


def stop_short(run):
    return _stop(run, 0.01, 0.8 * run.timeout, False)


def stop_long(run):
    return _stop(run, 1.5 * run.timeout, 4 * run.timeout, True)


def _isolate(run, rules):
    host = run.victim_host()
    if host is None:
        return None
    for chain in rules:
        host.rule(chain, "drop")
    seconds = run.dice.uniform(0.02, 4 * run.timeout)
    return run.troubled_host(host, seconds, host.heal, seconds > 2 * run.timeout)


def partition(run):
    return _isolate(run, ("in", "out"))


def partition_in(run):
    return _isolate(run, ("in",))


def partition_out(run):
    return _isolate(run, ("out",))


def partition_pair(run):
    """Two hosts lose each other, both still see the coordinator."""
    host = run.victim_host()
    # One of the two sides goes, and that is the spared one's where its loss alone would explain what was heard first.
    others = [h for h in run.hosts if h is not host and not (run.options.steady and run.spared in run.on(h))]
    if host is None or not others:
        return None
    other = run.dice.choice(others)
    both = run.dice.random() < 0.5
    host.rule("in", f"ip saddr {other.address} drop")
    if both:
        host.rule("out", f"ip daddr {other.address} drop")
    strike = run.troubled_host(host, run.dice.uniform(0.02, 4 * run.timeout), host.heal, False)
    strike.detail += f" and {other.name}, {'both ways' if both else 'one way'}"
    run.bystanders(other, strike)
    return strike


def interface_down(run):
    host = run.victim_host()
    if host is None:
        return None
    host.interface(False)
    seconds = run.dice.uniform(0.02, 4 * run.timeout)
    return run.troubled_host(host, seconds, lambda: host.interface(True), seconds > 2 * run.timeout)


def slow(run):
    host = run.victim_host()
    if host is None:
        return None
    rate = run.dice.choice(["500kbit", "2mbit", "10mbit", "40mbit"])
    host.slow(rate)
    strike = run.troubled_host(host, run.dice.uniform(0.1, 1.5), lambda: host.slow(None), False)
    strike.detail += " " + rate
    return strike


def corrupt(run):
    """Bytes change on the way in; the checksum of the packet does not help on this kind of link."""
    host = run.victim_host()
    if host is None:
        return None
    offset = 8 * run.dice.randrange(32, 500)
    host.rule("in", f"meta l4proto tcp meta length > 600 numgen random mod {run.dice.choice([3, 20, 100])} 0 "
                    f"@th,{offset},8 set {run.dice.randrange(256)}")
    return run.troubled_host(host, run.dice.uniform(0.05, 0.5), host.heal, False)


def reset(run):
    """A packet is answered by a reset, so that connections end in the middle of a frame."""
    host = run.victim_host()
    if host is None:
        return None
    host.rule("in", f"meta l4proto tcp numgen random mod {run.dice.choice([1, 5, 50])} 0 reject with tcp reset")
    return run.troubled_host(host, run.dice.uniform(0.005, 0.1), host.heal, False)


def cut(run):
    replica = run.victim()
    if replica is None:
        return None
    share = run.dice.choice([0.1, 0.5, 1.0])
    struck = sum(m.process.strike_connections(arena.cut, share, run.dice) for m in _members(run, replica))
    return Strike([replica], 0.02, None, f"{struck} connections")


def deaf(run):
    replica = run.victim()
    if replica is None:
        return None
    share = run.dice.choice([0.1, 0.5, 1.0])
    spared = run.coordinator.address()
    struck = sum(m.process.strike_connections(lambda end: arena.deafen(end, spared), share, run.dice)
                 for m in _members(run, replica))
    return Strike([replica], 2 * run.timeout, None, f"{struck} connections")


def no_descriptors(run):
    replica = run.victim()
    if replica is None:
        return None
    struck = _members(run, replica)
    for member in struck:
        member.process.starve_descriptors()
    if run.dice.random() < 0.7:  # make it want new ones
        struck[0].process.strike_connections(arena.cut, 0.5, run.dice)
    return Strike([replica], run.dice.uniform(0.05, 1.5), lambda: [m.process.feed() for m in struck])


def no_memory(run):
    replica = run.victim()
    if replica is None:
        return None
    struck = _members(run, replica)
    for member in struck:
        member.process.starve_memory(run.dice.choice([0, 1 << 16, 1 << 20, 1 << 23]))
        member.may_die = True
    if run.dice.random() < 0.5:
        struck[0].process.strike_connections(arena.cut, 0.5, run.dice)
    return Strike([replica], run.dice.uniform(0.05, 1.0), lambda: [m.process.feed() for m in struck])


def no_space(run):
    """A newcomer finds no space for its shared memory, at the first, second ... attempt to get some."""
    replica = run.victim() if run.weather else None
    if replica is None:
        return None
    members = run.replica(replica)
    struck = run.dice.choice(members)
    struck.process.bury()
    struck.restart({"LD_PRELOAD": run.weather, "WEATHER_NO_SPACE": str(run.dice.randrange(6))})
    return Strike([replica], run.dice.uniform(0.3, 1.0), lambda: (struck.process.bury(), struck.restart()), "", True)


def full_disk(run):
    """Nobody can write a log line or a dump."""
    if run.disk.full():
        return None
    run.disk.fill()
    for member in run.members:
        if run.dice.random() < 0.3:
            member.process.signal(signal.SIGUSR2)
    return Strike([], run.dice.uniform(0.1, 1.0), run.disk.clear)


def coordinator_kill(run):
    if run.coordinator.troubled:
        return None
    run.coordinator.process.bury()
    return Strike([], run.dice.choice([0.0, 0.05, 0.2, 0.5, 1.5]), run.coordinator.restart, "", False, True)


def coordinator_stop(run):
    if run.coordinator.troubled:
        return None
    run.coordinator.process.signal(signal.SIGSTOP)
    return Strike([], run.dice.uniform(0.05, 3 * run.timeout), lambda: run.coordinator.process.signal(signal.SIGCONT), "", False,
                  True)


def coordinator_cut(run):
    if run.coordinator.troubled:
        return None
    host = run.coordinator.host
    for chain in run.dice.choice([("in",), ("out",), ("in", "out")]):
        host.rule(chain, "drop")
    return Strike([], run.dice.uniform(0.05, 4 * run.timeout), host.heal, "", False, True)


def _then_coordinator(run, strike, low, high):
    """The coordinator dies while it is at work on this."""
    if strike is None or run.coordinator.troubled:
        return strike
    run.coordinator.troubled = True

    def die():
        run.coordinator.process.bury()
        run.after(run.dice.choice([0.0, 0.05, 0.2, 0.5]), back)

    def back():
        run.coordinator.restart()
        run.coordinator.troubled = False

    delay = run.dice.uniform(low, high)
    run.after(delay, die)
    strike.detail += f", coordinator after {delay * 1e3:.0f} ms"
    return strike


def kill_then_coordinator(run):
    return _then_coordinator(run, kill(run), 0, 0.02)


def stop_then_coordinator(run):
    return _then_coordinator(run, stop_long(run), 0.8 * run.timeout, 1.4 * run.timeout)


def _strike_relay(run, strike, undo, seconds):
    """Of a host, whose members have another one; they may lose their places if something else befalls them or that one."""
    relays = {relay.host: relay for relay in run.relays if not relay.troubled}
    host = run.victim_host()
    if host not in relays:
        return None
    relay = relays[host]
    relay.troubled = True
    strike(relay)

    def back():
        undo(relay)
        relay.troubled = False

    return run.troubled_host(host, seconds, back, False)


def relay_kill(run):
    return _strike_relay(run, lambda relay: relay.bury(), lambda relay: relay.restart(), run.dice.choice([0.0, 0.05, 0.2, 0.5, 1.5]))


def relay_stop(run):
    return _strike_relay(run, lambda relay: relay.process.signal(signal.SIGSTOP), lambda relay: relay.process.signal(signal.SIGCONT),
                         run.dice.uniform(0.05, 3 * run.timeout))


def relay_stands_by(run):
    """The one that stands by for all is lost while it serves, or before it is to."""
    relay = run.relays[-1]
    if relay.troubled:
        return None
    relay.troubled = True
    relay.bury()

    def back():
        relay.restart()
        relay.troubled = False

    return Strike([], run.dice.choice([0.0, 0.05, 0.2, 0.5]), back)


def kill_then_relay(run):
    """A member dies, and its relay while that is decided."""
    strike = kill(run)
    host = run.replica(strike.replicas[0])[0].host if strike else None
    for relay in run.relays:
        if relay.host is host and not relay.troubled and run.spared not in run.on(host):
            relay.troubled = True
            run.after(run.dice.uniform(0, 0.02), relay.bury)
            run.after(0.5, lambda: (relay.restart(), setattr(relay, "troubled", False)))
            run.bystanders(host, strike)
            break
    return strike


def leave(run):
    """As planned, so no fault; but those who leave come back as others."""
    replica = run.victim()
    if replica is None:
        return None
    step = run.step_ahead()
    for member in run.replica(replica):
        member.leave(step, 0)
    return Strike([replica], 1.0)


# name -> (share, function). Those of HOSTS need more than one host.
KINDS = {
    "kill": (14, kill), "kill two": (3, kill_two), "stop, short": (6, stop_short), "stop, long": (8, stop_long),
    "partition, both ways": (5, partition), "partition, in": (4, partition_in), "partition, out": (4, partition_out),
    "partition of two hosts": (5, partition_pair), "interface down": (4, interface_down), "slow network": (5, slow),
    "corrupt bytes": (5, corrupt), "resets": (5, reset), "connections cut": (8, cut), "connections deaf": (5, deaf),
    "no descriptors": (4, no_descriptors), "no memory": (2, no_memory), "no shared memory": (2, no_space),
    "full disk": (2, full_disk), "coordinator killed": (5, coordinator_kill), "coordinator stopped": (3, coordinator_stop),
    "coordinator cut off": (3, coordinator_cut), "kill, then coordinator": (6, kill_then_coordinator),
    "stop, then coordinator": (4, stop_then_coordinator), "planned leave": (5, leave), "relay killed": (10, relay_kill),
    "relay stopped": (8, relay_stop), "relay that stands by killed": (4, relay_stands_by), "kill, then relay": (6, kill_then_relay),
}
HOSTS = {"partition, both ways", "partition, in", "partition, out", "partition of two hosts", "interface down", "slow network",
         "corrupt bytes", "resets"}
