#!/usr/bin/env python3
"""Runs uploaded code that attacks the host of its agent, and shows that the host and the other jobs do not mind.

    ./dev hostile programs [--only ATTACK] [--trainer PROGRAM] [--keep]

A coordinator and one agent with two devices: a job of Shoal's own trainer has one of them, a job with
hostile_program.py the other. For each attack the code is submitted with its orders, and this script watches from
outside: what the code got (its lines HELD and BROKE), that its process was ended for what it did and its replica says
why, what the metrics count, and that the agent and the other job are still there. The claims of another replica are
repeated after a restart of the agent in place (SIGUSR2). Exit code 1 when anything was reached. --trainer: the program
in place of shoal-trainer. Needs a finished build, and a kernel with Landlock.
"""
import argparse
import json
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

from rig import WITHOUT_PROXY, Cluster, Trouble, end_by_signal

HERE = pathlib.Path(__file__).resolve().parent
VICTIM = """name = "victim"
[model]
family = "llama"
layers = 1
hidden = 32
heads = 2
context = 16
[data]
train = "text.txt"
tokenizer = "bytes"
[train]
steps = 1000000
batch = 1
[sync]
every = 1000
[swarm]
max_replicas = 1
[checkpoint]
every_rounds = 0
[eval]
every_rounds = 0
"""
ATTACKER = """name = "{name}"
[trainer]
kind = "python"
entry = "hostile_program.py"
[model]
context = 16
[data]
train = "text.txt"
[train]
steps = 1000
batch = 1
[swarm]
max_replicas = 1
[checkpoint]
every_rounds = 0
"""
# What a program may take here, so that an attack needs little.
BOUNDS = ("--program-memory-gib", "0.5", "--program-processes", "200", "--program-disk-gib", "0.25")
FOREIGN = ("written/rep_1000000/ckpt_1/model.safetensors", "fetched/job_1000000/ckpt_1/model.safetensors", "machine.key",
           "trainers")
STOP_LIMIT_S = 20
ENDED = {"fork": "--program-processes", "memory": "--program-memory-gib", "disk": "--program-disk-gib"}


class Rig(Cluster):
    def __init__(self, folder, trainer):
        flags = ["--allow-code-from", "*", *BOUNDS]
        super().__init__(folder, 1, VICTIM, agent_flags=flags + (["--trainer", trainer] if trainer else []))
        self.csr = self.make_csr()
        self.problems = []

    def make_csr(self):
        key = self.folder / "program.key"
        self.folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", key], check=True)
        return subprocess.run(["openssl", "req", "-new", "-key", key, "-subj", "/CN=program"], check=True,
                              capture_output=True, text=True).stdout

    def devices_of(self, number):
        return ["--devices", "cpu:2", "--threads", "1"]

    def check(self, holds, text):
        print(("  ok      " if holds else "  FAILED  ") + text, flush=True)
        if not holds:
            self.problems.append(text)

    def journal(self):
        with open(self.data_of(0) / "logs" / "agent.log", encoding="utf-8", errors="replace") as file:
            return file.read()

    def replica_of(self, job):
        """A live one."""
        return next((one for one in self.get(f"/jobs/{job}/replicas")["items"]
                     if one["state"] not in ("released", "failed")), None)

    def refused(self):
        asked = urllib.request.Request(f"http://{self.http}/metrics", headers=self.login())
        with WITHOUT_PROXY.open(asked, timeout=5) as answer:
            lines = answer.read().decode().splitlines()
        wanted = 'shoal_refused_total{port="peers",reason="other_member"}'
        return next((float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(wanted)), 0)

    def attack(self, name, **plan):
        """Submits the code. Returns where the journal was."""
        victim = self.replica_of("victim")
        bundle = self.folder / f"code-{name}"
        shutil.rmtree(bundle, ignore_errors=True)
        bundle.mkdir()
        shutil.copy(HERE / "hostile_program.py", bundle)
        orders = {"csr": self.csr, "protocol": 5, "victim": int(victim["id"].removeprefix("rep_")),
                  "victim_job": int(self.get("/jobs/victim")["id"].removeprefix("job_")),
                  "foreign": FOREIGN, **plan}
        (bundle / "plan.json").write_text(json.dumps(orders))
        (self.folder / f"{name}.toml").write_text(ATTACKER.format(name=name))
        at = len(self.journal())
        done = self.shoal("job", "submit", f"{name}.toml", "--code", str(bundle))
        if done.returncode != 0:
            raise Trouble(f"the job {name} is not taken: {done.stderr}")
        return at

    def said(self, at, word):
        return [line for line in self.journal()[at:].splitlines() if word in line]

    def finish(self, name, at):
        """What the code said, and that nothing else was hurt."""
        self.shoal("job", "cancel", name)
        broken = self.said(at, "BROKE ")
        self.check(not broken, f"{name}: nothing was reached" + "".join("\n    " + line for line in broken))
        self.check(self.agents[0].poll() is None, f"{name}: the agent runs")
        self.until(lambda: self.replica_of("victim") is not None, f"{name}: the other job has no replica")
        self.until(lambda: self.get(f"/jobs/{name}")["status"]["phase"] == "cancelled", f"{name} is not cancelled", 60)

    def restart_agent(self):
        """In place."""
        begun = time.monotonic()
        self.agents[0].send_signal(signal.SIGUSR2)
        self.agents[0].wait(30)
        self.check(time.monotonic() - begun < STOP_LIMIT_S, f"the agent hands over in {time.monotonic() - begun:.1f} s")
        self.start_agent(0)


def plant(rig):
    """Files of other jobs, as transfers leave them."""
    for name in FOREIGN[:2]:
        path = rig.data_of(0) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("of another job")


def files(rig):
    plant(rig)
    at = rig.attack("files", attack="files")
    rig.until(lambda: rig.said(at, "NOTE READY"), "the code does not run")
    held = rig.said(at, "HELD ")
    rig.check(len(held) == 6 * len(FOREIGN) + 9, f"files: {len(held)} tries were refused")
    for name in FOREIGN[:2]:
        rig.check((rig.data_of(0) / name).read_text() == "of another job", f"files: {name} is as it was")
    rig.finish("files", at)


def claim(rig, name, after_restart):
    before = rig.refused()
    at = rig.attack(name, attack="claim", after_restart=after_restart)
    rig.until(lambda: rig.said(at, "NOTE READY"), "the code is not given its replica")
    if after_restart:
        rig.restart_agent()
    rig.until(lambda: rig.said(at, "is killed: it says that it is rep_"), "the code is not ended for its claim")
    print("   ", rig.said(at, "is killed: it says that it is rep_")[0].strip())
    # The program may be killed before it can tell so itself.
    rig.check(bool(rig.said(at, "which it is not: refused")), f"{name}: no certificate of the other replica")
    rig.until(lambda: rig.refused() > before, "the claim is not counted", 30)
    rig.check(True, f"{name}: shoal_refused_total of other_member rose by {rig.refused() - before:g}")
    rig.finish(name, at)


def exceed(rig, name):
    at = rig.attack(name, attack=name)
    # The program before may hold the device for a minute after it was told to stop.
    rig.until(lambda: [line for line in rig.said(at, "is killed: ") if ENDED[name] in line], f"{name} is not ended", 120)
    print("   ", rig.said(at, "is killed: ")[0].strip())

    def failed():
        replicas = rig.get(f"/jobs/{name}/replicas")["items"]
        return any(ENDED[name] in json.dumps(one) for one in replicas) or any(
            ENDED[name] in one["message"] for one in rig.events_after(0))
    rig.until(failed, f"{name}: its replica does not say why", 30)
    rig.check(True, f"{name}: the coordinator tells why")
    rig.finish(name, at)


def stop(rig):
    begun = time.monotonic()
    rig.agents[0].terminate()
    rig.agents[0].wait(60)
    rig.check(time.monotonic() - begun < STOP_LIMIT_S, f"the agent stops in {time.monotonic() - begun:.1f} s")
    rig.check(not rig.trainers(0), "and nothing of it runs any more")


ATTACKS = {"files": files, "claim": lambda rig: claim(rig, "claim", False),
           "claim-after-restart": lambda rig: claim(rig, "claim-after-restart", True),
           "fork": lambda rig: exceed(rig, "fork"), "memory": lambda rig: exceed(rig, "memory"),
           "disk": lambda rig: exceed(rig, "disk")}


def main():
    parser = argparse.ArgumentParser(prog="./dev hostile programs", description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("--only", choices=sorted(ATTACKS), action="append", help="repeatable")
    parser.add_argument("--trainer", help="program in place of shoal-trainer")
    parser.add_argument("--keep", action="store_true", help="keep the folder")
    options = parser.parse_args()
    end_by_signal()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="shoal-hostile-"))
    rig = Rig(folder, options.trainer)
    try:
        rig.begin()
        rig.until(lambda: rig.replica_of("victim") is not None, "the victim has no replica")
        limits = rig.get(f"/agents/{rig.name_of(0)}")["program_limits"]
        rig.check(limits in ("watched", "cgroup"), f"programs are bounded: {limits}")
        for name in options.only or ATTACKS:
            print(name, flush=True)
            ATTACKS[name](rig)
        stop(rig)
    except Trouble as trouble:
        sys.exit(f"error: {trouble}; the logs are in {folder}")
    finally:
        rig.stop()
    if rig.problems:
        sys.exit(f"{len(rig.problems)} of it failed; the logs are in {folder}")
    if not options.keep:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
