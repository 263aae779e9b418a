"""Network namespaces joined by a bridge, and the processes in them. Everything here lives in namespaces that chaos.py made
for the run (network, mounts, processes), so all of it is gone when the run is, however it ends."""
import array
import ctypes
import os
import resource
import signal
import socket
import stat
import struct
import subprocess
import time

LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNET = 0x40000000
SYS_PIDFD_GETFD = 438
SO_ATTACH_FILTER = 26
SUBNET = "10.77.0"


def run(*command, given=None, inside=None):
    """A short command, inside a namespace if one is named; raises if it fails."""
    enter = (lambda: LIBC.setns(inside, CLONE_NEWNET)) if inside is not None else None
    done = subprocess.run(command, input=given, text=True, capture_output=True, preexec_fn=enter, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


class Host:
    """One namespace with one address."""

    def __init__(self, name, number):
        self.name, self.address, self.link = name, f"{SUBNET}.{number}", f"v{name}"
        with subprocess.Popen(["unshare", "--net", "sleep", "1000000"]) as holder:
            path, own = f"/proc/{holder.pid}/ns/net", os.stat("/proc/self/ns/net").st_ino
            deadline = time.monotonic() + 10
            while os.stat(path).st_ino == own:
                if time.monotonic() > deadline:
                    holder.kill()
                    raise RuntimeError("no network namespace within 10 s")
                time.sleep(0.002)
            self.space = os.open(path, os.O_RDONLY)  # keeps the namespace when the holder is gone
            run("ip", "link", "add", self.link, "type", "veth", "peer", "name", "eth0", "netns", str(holder.pid))
            holder.kill()
        run("ip", "link", "set", self.link, "master", "br0", "up")
        self.ip("addr", "add", f"{self.address}/24", "dev", "eth0")
        self.ip("link", "set", "lo", "up")
        self.ip("link", "set", "eth0", "up")
        self.nft("table inet chaos {\n chain in { type filter hook input priority 0; }\n"
                 " chain out { type filter hook output priority 0; }\n}\n")

    def ip(self, *arguments):
        run("ip", *arguments, inside=self.space)

    def nft(self, text):
        run("nft", "-f", "-", given=text, inside=self.space)

    def rule(self, chain, text):
        self.nft(f"add rule inet chaos {chain} {text}\n")

    def heal(self):
        self.nft("flush chain inet chaos in\nflush chain inet chaos out\n")

    def interface(self, up):
        self.ip("link", "set", "eth0", "up" if up else "down")

    def slow(self, rate):
        """A rate such as 2mbit, or None for none: in both directions, with a queue of at most 200 ms."""
        for tool in (lambda *a: run(*a, inside=self.space), run):
            device = "eth0" if tool is not run else self.link
            if rate:
                tool("tc", "qdisc", "replace", "dev", device, "root", "tbf", "rate", rate, "burst", "16kb", "latency", "200ms")
            else:
                tool("tc", "qdisc", "del", "dev", device, "root")


def build(hosts):
    """The bridge and that many hosts, the coordinator's as the last."""
    run("ip", "link", "set", "lo", "up")
    run("ip", "link", "add", "br0", "type", "bridge")
    run("ip", "link", "set", "br0", "up")
    return [Host(f"h{i}", i + 1) for i in range(hosts)] + [Host("c", 100)]


class Process:
    """A child in a host's namespace, its output in a file."""

    def __init__(self, host, command, variables, output):
        self.started = time.monotonic()
        environment = {k: v for k, v in os.environ.items() if not k.startswith("FTAR_")} | variables
        with open(output, "ab") as file:
            self.child = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=file, stderr=file,
                                          preexec_fn=lambda: LIBC.setns(host.space, CLONE_NEWNET))
        self.pid = self.child.pid
        self.limits = {}

    def alive(self):
        return self.child.poll() is None

    def signal(self, number):
        if self.alive():
            os.kill(self.pid, number)

    def bury(self):
        self.signal(signal.SIGKILL)
        self.child.wait()

    def footprint(self):
        """Open descriptors, KiB of its own: pages of links' windows are taken as the links age, up to a bound, and are no leak."""
        own = 0
        with open(f"/proc/{self.pid}/status", encoding="ascii") as file:
            for line in file:
                if line.startswith(("RssAnon:", "RssFile:")):
                    own += int(line.split()[1])
        return len(os.listdir(f"/proc/{self.pid}/fd")), own

    def starve_descriptors(self):
        highest = max(int(fd) for fd in os.listdir(f"/proc/{self.pid}/fd"))
        self._limit(resource.RLIMIT_NOFILE, highest + 1)

    def starve_memory(self, spare):
        with open(f"/proc/{self.pid}/statm", encoding="ascii") as file:
            size = int(file.read().split()[0]) * resource.getpagesize()
        self._limit(resource.RLIMIT_AS, size + spare)

    def _limit(self, what, soft):
        old = resource.prlimit(self.pid, what)
        self.limits.setdefault(what, old)
        resource.prlimit(self.pid, what, (soft, old[1]))

    def feed(self):
        if self.alive():
            for what, old in self.limits.items():
                resource.prlimit(self.pid, what, old)
        self.limits = {}

    def strike_connections(self, treat, share, dice):
        """Does something to some of its TCP connections, as seen from inside; how many were struck."""
        process = os.pidfd_open(self.pid)
        struck = 0
        for name in os.listdir(f"/proc/{self.pid}/fd"):
            fd = LIBC.syscall(SYS_PIDFD_GETFD, process, int(name), 0)
            if fd < 0:
                continue
            if not stat.S_ISSOCK(os.fstat(fd).st_mode):
                os.close(fd)
                continue
            try:
                with socket.socket(fileno=fd) as end:
                    if end.family == socket.AF_INET and end.type == socket.SOCK_STREAM and dice.random() < share:
                        struck += treat(end)
            except OSError:
                pass
        os.close(process)
        return struck


def cut(end):
    """As a middlebox that forgets a connection, in the middle of whatever is on the way."""
    end.getpeername()  # one that listens is no connection
    end.shutdown(socket.SHUT_RDWR)
    return 1


def deafen(end, spared):
    """As a route that has gone: nothing more comes in, and no news of that."""
    if end.getpeername()[0] == spared:
        return 0
    nothing = array.array("B", struct.pack("HBBI", 0x06, 0, 0, 0))  # BPF_RET | BPF_K, 0
    address, _ = nothing.buffer_info()
    end.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("HxxxxxxP", 1, address))
    return 1
