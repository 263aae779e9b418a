#!/usr/bin/env python3
"""Data-parallel training that survives the loss of replicas, with PyTorch on a GPU or the host, through libftar's C ABI.

    train.py --replicas 3 --kill 1@30              starts a coordinator and 3 replicas, kills the second at step 30 and starts it again
    train.py --replicas 3 --device cpu             tensors of the host
    train.py --replicas 3 --model plain            without PyTorch
    FTAR_REPLICA=0 FTAR_REPLICAS=2 FTAR_COORDINATOR=host:7000 train.py     one replica of many, started by somebody else

LIBFTAR names libftar.so, --coordinator ftar-coordinator, if they are neither installed nor in build/release. A replica that comes back
gets the parameters at the first step that begins after it has joined. Exit code: 0 all went as it should.
"""
import argparse
import collections
import json
import os
import secrets
import selectors
import shutil
import signal
import subprocess
import sys
import time

import ftar

EVICTED_EXIT = 3


# ---- a replica

def say(**fields):
    os.write(1, (json.dumps(fields) + "\n").encode())


def finish(ops):
    """Whose gradients are in the averages; an error where there are none for this replica."""
    for op in ops:
        op.finish()
    who = ops[-1].participants()
    for op in ops:
        op.release()
    return who


def train(options, asked):
    job = ftar.Job(knobs=dict(options.set))
    group = job.group()
    replica = int(os.environ.get("FTAR_REPLICA", "0"))
    model = model_class(options.model)(job, options.device, options.cuda_runtime)
    done = False
    while not done:
        step = job.begin_step()
        group.share_state(model.state_address(), model.state_count, step, stream=model.stream)
        ops = []
        model.backward(step.step, replica, bool(asked) or step.step + 1 >= options.steps,
                       lambda address, count: ops.append(group.allreduce(address, count, stream=model.stream)))
        # A stream waits for the averages by itself; without one the host does.
        who = finish(ops) if model.stream is None else []
        loss, done = model.update()
        who = who or finish(ops)
        say(event="step", replica=replica, step=step.step, loss=loss, who=who, digest=model.digest())
        time.sleep(options.pause)
    job.leave()
    say(event="finished", replica=replica, gpu_plans=job.counter("gpu_plans"))
    group.close()
    job.destroy()


def model_class(name):
    if name == "plain":
        import plain
        return plain.Model
    try:
        import network
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise SystemExit("train.py: this Python has no PyTorch: install it, or train without it by --model plain") from None
    return network.Model


def run_replica(options):
    asked = []
    signal.signal(signal.SIGINT, lambda *_: asked.append(1))
    try:
        train(options, asked)
    except ftar.Error as error:
        say(event="out", text=str(error))
        return EVICTED_EXIT if error.code == ftar.ERR_EVICTED else 1
    return 0


# ---- all of them on this machine

class Team:
    def __init__(self, options):
        self.options, self.processes, self.logs = options, {}, collections.defaultdict(list)
        self.selector, self.partial = selectors.DefaultSelector(), {}
        self.environment = {**os.environ, "FTAR_TOKEN": secrets.token_hex(16), "FTAR_REPLICAS": str(options.replicas),
                            "FTAR_COORDINATOR": "127.0.0.1:0"}
        try:
            self.coordinator = subprocess.Popen([options.coordinator], env=self.environment, stdout=subprocess.PIPE, text=True)
        except OSError as error:
            raise SystemExit(f"train.py: cannot start ftar-coordinator: {error}: install or build it, or name it by --coordinator") from None
        self.environment["FTAR_COORDINATOR"] = self.coordinator.stdout.readline().split()[-1]
        for replica in range(options.replicas):
            self.start(replica)

    def start(self, replica):
        process = subprocess.Popen([sys.executable, os.path.abspath(__file__)] + sys.argv[1:], stdout=subprocess.PIPE,
                                   env={**self.environment, "FTAR_REPLICA": str(replica)})
        self.processes[replica] = process
        self.selector.register(process.stdout, selectors.EVENT_READ, replica)
        self.partial[replica] = b""

    def read(self, seconds):
        """What replicas have said within that time: (replica, line), a line of None at its end."""
        for key, _ in self.selector.select(seconds):
            replica, data = key.data, os.read(key.fd, 65536)
            if not data:
                self.selector.unregister(key.fileobj)
                self.processes[replica].wait()
                yield replica, None
                continue
            *lines, self.partial[replica] = (self.partial[replica] + data).split(b"\n")
            for line in lines:
                yield replica, json.loads(line)

    def signal(self, number):
        for process in self.processes.values():
            if process.poll() is None:
                process.send_signal(number)

    def end(self):
        for process in [*self.processes.values(), self.coordinator]:
            process.kill()
            process.wait()


def run_team(options):
    """Problems that were found, none if all is well."""
    victim, at = options.kill or (None, None)
    killed, started_again, back, deadline = False, False, 0, time.monotonic() + options.limit
    team, digests, problems = Team(options), {}, []
    try:
        while any(p.poll() is None for p in team.processes.values()):
            if time.monotonic() > deadline:
                return problems + [f"not done within {options.limit} s"]
            for replica, line in team.read(0.2):
                if line is None:
                    code = team.processes[replica].returncode
                    if replica == victim and killed and code == -signal.SIGKILL:
                        print(f"-- replica {replica} is started again", flush=True)
                        started_again = True
                        team.start(replica)
                    elif code != 0:
                        problems.append(f"replica {replica} ended with {code}")
                        team.signal(signal.SIGINT)
                    continue
                if line["event"] != "step":
                    print(f"replica {replica}: {line}", flush=True)
                    continue
                known = digests.setdefault(line["step"], line["digest"])
                if known != line["digest"]:
                    problems.append(f"replicas differ after step {line['step']}")
                if replica == 0 and line["step"] % options.show == 0:
                    print(f"step {line['step']}: loss {line['loss']:.4f}, averaged over replicas {line['who']}", flush=True)
                if replica == victim and not killed and line["step"] >= at:
                    print(f"-- replica {replica} is killed after step {line['step']}", flush=True)
                    team.processes[replica].kill()
                    killed = True
                elif replica == victim and started_again:  # not what it said before it died
                    back += 1
                    if back == options.more:  # that is enough of them
                        team.signal(signal.SIGINT)
        if victim is not None and back < options.more:
            problems.append(f"replica {victim} has come back for {back} steps")
        print(f"{len(digests)} steps, the same parameters on all replicas" if not problems else problems, flush=True)
        return problems
    finally:
        team.end()


def replica_at_step(text):
    replica, step = text.split("@")
    return int(replica), int(step)


def knob_and_value(text):
    name, value = text.split("=", 1)
    return name, value


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replicas", type=int, default=0, help="start so many here")
    parser.add_argument("--model", choices=["torch", "plain"], default="torch")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--kill", metavar="REPLICA@STEP", type=replica_at_step)
    parser.add_argument("--more", type=int, default=20, help="steps of the killed one after its return; then all finish (20)")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds between steps")
    parser.add_argument("--show", type=int, default=10, help="print every so many steps (10)")
    parser.add_argument("--limit", type=float, default=300, help="seconds after which it has failed (300)")
    parser.add_argument("--set", action="append", default=[], type=knob_and_value, metavar="KNOB=VALUE")
    parser.add_argument("--coordinator", default=shutil.which("ftar-coordinator") or ftar.built("bin/ftar-coordinator") or "ftar-coordinator")
    parser.add_argument("--cuda-runtime", default="", help="of --model plain: libcudart.so")
    options = parser.parse_args()
    if options.kill and options.replicas and not 0 <= options.kill[0] < options.replicas:
        parser.error(f"--kill {options.kill[0]}: replicas are 0 to {options.replicas - 1}")
    return options


def main():
    options = parse()
    if options.replicas == 0 or "FTAR_REPLICA" in os.environ:
        return run_replica(options)
    return 1 if run_team(options) else 0


if __name__ == "__main__":
    sys.exit(main())
