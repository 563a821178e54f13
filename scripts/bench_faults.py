#!/usr/bin/env python3
"""How long a round is delayed by a member that is killed, frozen or cut off.

    scripts/bench_faults.py [--repeats N] [--agents N] [--limit SECONDS] [--mbit N] [--only FAULT] [--json]

A coordinator and agents, each in a network namespace of its own with a line to a bridge, train one job without
end. Again and again one agent's trainer is killed (SIGKILL) or frozen (SIGSTOP), or it is frozen with its agent, or
the agent's line is taken down; once the others have committed a round without it, all that is undone, and when it
takes part again the next fault follows. The delay of a fault: the time between the two commits around it, less the
median of the undisturbed ones. Exit code 1 when one is above the limit or a round that was committed is
lost. The network of this host is not touched. Needs root, iproute2 and a finished build.
"""
import argparse
import contextlib
import ctypes
import json
import os
import pathlib
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

BIN = pathlib.Path(__file__).resolve().parent.parent / "build" / "bin"
FAULTS = ("kill", "freeze", "freeze_both", "cut")
PATIENCE_S = 120  # for anything that is not measured
JOB = """name = "faults"
[model]
family = "llama"
layers = 2
hidden = 64
heads = 4
context = 64
[data]
train = "text.txt"
[train]
steps = 1000000
batch = 4
lr = 1e-3
[sync]
every = {every}
[swarm]
min_replicas = 2
[checkpoint]
every_rounds = 0
[eval]
every_rounds = 0
"""


def run(*words):
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


class Lines:
    """A bridge in the namespace `hub`, and a namespace with a line to it for each host."""

    def __init__(self):
        self.prefix = f"shoal-fault-{os.getpid()}"
        self.hub, self.hosts = f"{self.prefix}-hub", []

    def set_up(self, count, mbit):
        self.add("hub")
        run("ip", "-n", self.hub, "link", "add", "bridge", "type", "bridge")
        run("ip", "-n", self.hub, "address", "add", "10.79.0.1/24", "dev", "bridge")
        run("ip", "-n", self.hub, "link", "set", "bridge", "up")
        self.hosts = [self.join(number, mbit) for number in range(count)]

    def add(self, name):
        namespace = f"{self.prefix}-{name}"
        run("ip", "netns", "add", namespace)
        run("ip", "-n", namespace, "link", "set", "lo", "up")
        return namespace

    def join(self, number, mbit):
        namespace = self.add(str(number))
        port = f"port{number}"
        run("ip", "link", "add", "line", "netns", namespace, "type", "veth", "peer", "name", port, "netns", self.hub)
        run("ip", "-n", self.hub, "link", "set", port, "master", "bridge", "up")
        run("ip", "-n", namespace, "address", "add", f"{self.address(number)}/24", "dev", "line")
        run("ip", "-n", namespace, "link", "set", "line", "up")
        for where, device in ((namespace, "line"), (self.hub, port)):
            run("ip", "netns", "exec", where, "tc", "qdisc", "add", "dev", device, "root", "tbf",
                "rate", f"{mbit}mbit", "burst", "128kb", "latency", "50ms")
        return namespace

    @staticmethod
    def address(number):
        return f"10.79.0.{number + 10}"

    def set_line(self, number, state):
        run("ip", "-n", self.hub, "link", "set", f"port{number}", state)

    def take_down(self):
        listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout
        for line in listed.splitlines():
            if line.startswith(self.prefix):
                subprocess.run(["ip", "netns", "delete", line.split()[0]], check=False)


class Cluster:
    def __init__(self, lines, folder, every):
        self.lines, self.folder = lines, folder
        self.processes, self.agents = [], []
        self.every = every

    def begin(self):
        lines, folder = self.lines, self.folder
        self.start(lines.hub, "coordinator", "--data-dir", folder / "coordinator", "--http",
                   "127.0.0.1:7070", "--grpc", "10.79.0.1:7071", "--address-file", folder / "at.json")
        self.until(lambda: (folder / "at.json").exists(), "the coordinator does not start")
        token = json.loads((folder / "at.json").read_text())["token_file"]
        self.agents = [
            self.start(lines.hosts[n], "agent", "--coordinator", "10.79.0.1:7071", "--token-file", token, "--data-dir",
                       folder / f"agent{n}", "--name", f"agent-{n}", "--devices", "cpu:1", "--threads", "1",
                       "--host", lines.address(n)) for n in range(len(lines.hosts))
        ]
        (folder / "text.txt").write_text(" ".join(f"{n * n} is {n} times {n}" for n in range(20_000)))
        (folder / "job.toml").write_text(JOB.format(every=self.every))
        self.until(self.submitted, "the job is not taken")

    def start(self, namespace, what, *arguments):
        log = open(self.folder / f"{what}{len(self.processes)}.log", "w", encoding="utf-8")
        words = ["ip", "netns", "exec", namespace, BIN / f"shoal-{what}", *arguments]
        self.processes.append(subprocess.Popen([str(word) for word in words], stdout=log, stderr=log))
        return self.processes[-1]

    def submitted(self):
        if sum(agent["state"] == "idle" for agent in self.get("/agents")["items"]) < len(self.agents):
            return False
        done = subprocess.run([str(BIN / "shoal"), "job", "submit", "job.toml"], cwd=self.folder, capture_output=True,
                              text=True, env={**os.environ, "SHOAL_ADDR": "http://127.0.0.1:7070"})
        if done.returncode != 0:
            sys.exit(done.stderr)
        return True

    def get(self, path):
        with urllib.request.urlopen("http://127.0.0.1:7070/api/v1" + path, timeout=5) as answer:
            return json.load(answer)

    def committed(self):
        return self.get("/jobs/faults")["status"]["progress"]["rounds_committed"]

    def members(self, number):
        contributions = self.get(f"/jobs/faults/rounds/{number}")["contributions"]
        return sum(one["state"] == "committed" for one in contributions)

    def until(self, holds, complaint, limit=PATIENCE_S):
        begin = time.monotonic()
        while time.monotonic() - begin < limit:
            with contextlib.suppress(OSError):
                if holds():
                    return
            time.sleep(0.02)
        sys.exit(f"{complaint}; logs: {self.folder}")

    def next_commit(self):
        """Waits for it. Returns its time and the number of its round."""
        before = self.committed()
        self.until(lambda: self.committed() > before, "no round is committed")
        return time.monotonic(), self.committed() - 1

    def trainer(self, number):
        listed = subprocess.run(["pgrep", "-P", str(self.agents[number].pid)], capture_output=True, text=True).stdout
        return int(listed.split()[0])

    def stop(self):
        for process in self.processes:
            process.send_signal(signal.SIGCONT)
            process.terminate()
        for process in self.processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)
            process.kill()


def strike(cluster, fault, number):
    """Returns what undoes it."""
    if fault == "cut":
        cluster.lines.set_line(number, "down")
        return lambda: cluster.lines.set_line(number, "up")
    trainer = cluster.trainer(number)
    if fault == "kill":
        os.kill(trainer, signal.SIGKILL)
        return lambda: None
    frozen = [trainer] + ([cluster.agents[number].pid] if fault == "freeze_both" else [])
    for process in frozen:
        os.kill(process, signal.SIGSTOP)

    def thaw():
        for process in frozen:
            with contextlib.suppress(ProcessLookupError):  # its agent has ended it
                os.kill(process, signal.SIGCONT)
    return thaw


def measure(cluster, fault, chance):
    """One fault: {"delay_s", "usual_s", "victim", "members"} of the round that it hit."""
    everybody = len(cluster.agents)
    cluster.until(lambda: cluster.members(cluster.next_commit()[1]) == everybody, "not all members come back")
    times = [cluster.next_commit()[0] for _ in range(5)]
    usual = statistics.median(b - a for a, b in zip(times, times[1:]))
    victim = chance.randrange(everybody)
    time.sleep(chance.random() * usual)
    before = cluster.committed()
    undo = strike(cluster, fault, victim)
    # A round that was all but done may still be committed with the victim: the next one is not.
    commits = [times[-1]]
    while True:
        at, number = cluster.next_commit()
        commits.append(at)
        members = cluster.members(number)
        if members < everybody or len(commits) > 4:
            break
    undo()
    if cluster.committed() < before:
        sys.exit("a committed round was lost")
    delay = max(b - a for a, b in zip(commits, commits[1:])) - usual
    return {"delay_s": round(delay, 2), "usual_s": round(usual, 2), "victim": victim, "members": members}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--agents", type=int, default=4)
    parser.add_argument("--every", type=int, default=100, help="inner steps of a round")
    parser.add_argument("--mbit", type=int, default=200, help="of every line")
    parser.add_argument("--limit", type=float, default=10, help="the longest delay that is good, seconds")
    parser.add_argument("--only", choices=FAULTS, help="this fault alone")
    parser.add_argument("--seed", type=int, default=1, help="of victims and moments")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if os.geteuid() != 0 or not shutil.which("tc"):
        sys.exit("error: namespaces need root and iproute2")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="shoal-faults-"))
    lines = Lines()
    cluster = Cluster(lines, folder, options.every)
    results = {}
    try:
        lines.set_up(options.agents, options.mbit)
        hub = os.open(f"/run/netns/{lines.hub}", os.O_RDONLY)
        if ctypes.CDLL(None, use_errno=True).setns(hub, 0) != 0:
            sys.exit("error: cannot enter a network namespace")
        cluster.begin()
        chance = random.Random(options.seed)
        for fault in [options.only] if options.only else FAULTS:
            for _ in range(options.repeats):
                one = measure(cluster, fault, chance)
                results.setdefault(fault, []).append(one)
                if not options.json:
                    print(f"{fault:12} delay {one['delay_s']:6.2f} s   a round takes {one['usual_s']:.2f} s, "
                          f"{one['members']} of {options.agents} in it", flush=True)
    finally:
        cluster.stop()
        lines.take_down()
    worst = max(one["delay_s"] for series in results.values() for one in series)
    if options.json:
        print(json.dumps(results))
    else:
        print(f"worst {worst:.2f} s, limit {options.limit:g} s")
    shutil.rmtree(folder)
    return 0 if worst <= options.limit else 1


if __name__ == "__main__":
    sys.exit(main())
