"""Five faults by which one program, one value or one variable once harmed a whole cluster.

run(folder) starts a coordinator and two agents in an environment whose proxies do not answer, and gives sentences about
whatever the cluster did not withstand. Programs need a python3 with PyTorch.

    proxy       http_proxy and the like: commands and agents reach the coordinator nevertheless
    memory      a program raises torch.cuda.OutOfMemoryError: another job starts on its device within 10 s
    text        the last line of a program is not UTF-8: its agent stays connected, and its job fails with the line
    numbers     one item is not finite: the job completes, no agent is quarantined, its checkpoint can be continued
    scope       a token that may not submit: `shoal job submit` ends with exit code 4

What is remembered is looked at again after a restart of the coordinator.
"""
import contextlib
import json
import subprocess
import time

from rig import PATIENCE_S, Cluster, Trouble, job_text

DEAD = "http://127.0.0.1:1"
PROXIES = {name: DEAD for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")}
PYTHON = "/usr/bin/python3"
START_S = 10  # within which a job has a replica on a free device

MODEL = """import torch, shoal
class Items(torch.utils.data.Dataset):
    def __len__(self): return 4000
    def __getitem__(self, i):
        x = torch.randn(8, generator=torch.Generator().manual_seed(i))
        return (x * float("nan") if i % 400 == BAD else x), x.sum().view(1)
with shoal.join() as replica:
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    run = replica.diloco(model, optimizer)
    for x, y in run.batches(Items()):
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward(); optimizer.step(); optimizer.zero_grad()
        run.step(loss)
"""
PROGRAMS = {
    "memory": "import torch, shoal\nwith shoal.join() as replica:\n"
                 "    error = getattr(torch.cuda, 'OutOfMemoryError', MemoryError)\n"
                 "    model = torch.nn.Linear(8, 1)\n"
                 "    run = replica.diloco(model, torch.optim.AdamW(model.parameters()))\n"
                 "    def raised(*_): raise error('CUDA out of memory. Tried to allocate 80.00 GiB')\n"
                 "    run._perform = raised\n"
                 "    next(iter(run.batches([(torch.zeros(8), torch.zeros(1))] * 64)))\n",
    "text": "import os, sys\nsys.stderr.buffer.write(b'caf\\xe9: no such file\\n')\nsys.stderr.flush()\nos._exit(1)\n",
    "numbers": "BAD = 77\n" + MODEL,
}


def program(name, **train):
    return job_text(name, model={"context": 16}, train={"steps": 200, "batch": 4, "seed": 1} | train,
                    sync={"every": 20}, swarm={"min_replicas": 1}, checkpoint={"every_rounds": 2},
                    trainer={"kind": "python", "entry": f"{name}_fault.py"})


def ordinary(name):
    return job_text(name, model={"layers": 1, "hidden": 16, "heads": 1, "context": 32},
                    train={"steps": 10_000_000, "batch": 2}, sync={"every": 10}, swarm={"min_replicas": 1})


class Faults:
    def __init__(self, folder):
        flags = ["--trainer-root", folder / "programs", "--python", PYTHON]
        self.cluster = Cluster(folder, 2, ordinary("first"), agent_flags=flags)
        self.cluster.environment = dict(PROXIES)
        self.folder, self.said = folder, []

    def say(self, fault, text):
        self.said.append(f"{fault}: {text}")

    # ---- jobs

    def shoal(self, *words, **options):
        return subprocess.run([*map(str, self.cluster.command_line()), *words], cwd=self.folder, capture_output=True,
                              text=True, env={**self.cluster.environment, "PATH": "/usr/bin:/bin"},
                              timeout=PATIENCE_S, **options)

    def submit(self, name, text):
        (self.folder / f"{name}.toml").write_text(text)
        done = self.shoal("job", "submit", f"{name}.toml")
        if done.returncode != 0:
            raise Trouble(f"{name} is not taken: {done.stderr}")

    def job(self, name):
        return self.cluster.get(f"/jobs/{name}")["status"]

    def until(self, holds, limit=PATIENCE_S):
        with contextlib.suppress(Trouble):
            self.cluster.until(holds, "not in time", limit)
            return True
        return False

    def cancel(self, name):
        self.shoal("job", "cancel", name)
        self.until(lambda: all(one["state"] == "idle" for one in self.cluster.get("/agents")["items"]))

    def starts(self, fault, name):
        """Whether an ordinary job finds a device at once; it is ended again."""
        begin = time.monotonic()
        self.submit(name, ordinary(name))
        if not self.until(lambda: self.cluster.get(f"/jobs/{name}/replicas")["items"], START_S):
            self.say(fault, f"the job {name} has no replica after {START_S} s: {self.job(name)['detail']}")
        print(f"{fault:8} another job had a device after {time.monotonic() - begin:.1f} s")
        self.cancel(name)

    def events(self, seq, kind):
        return [one["message"] for one in self.cluster.events_after(seq) if one["kind"] == kind]

    def restart(self):
        self.cluster.kill(self.cluster.coordinator)
        self.cluster.listen, address = self.cluster.listen, self.cluster.grpc
        self.cluster.start_coordinator()
        if self.cluster.grpc != address:
            raise Trouble("the coordinator listens elsewhere after its restart")
        self.until(lambda: sum(one["state"] == "idle" for one in self.cluster.get("/agents")["items"]) == 2)

    # ---- the faults

    def proxy(self):
        self.cluster.begin()  # it would not get past the first command
        self.cancel("first")

    def memory(self):
        seq = self.cluster.newest_event()
        self.submit("memory", program("memory"))
        self.until(lambda: len(self.events(seq, "replica_failed")) >= 2)
        failed = self.events(seq, "replica_failed")
        if not failed or not all("out_of_memory" in one for one in failed):
            self.say("memory", f"the program did not fail for memory: {failed}")
        self.starts("memory", "after-memory")
        self.restart()
        self.starts("memory", "after-restart")
        if len(self.events(seq, "replica_failed")) > 2:
            self.say("memory", "the program was started again on a device that cannot hold it")
        self.cancel("memory")

    def text(self):
        seq = self.cluster.newest_event()
        self.submit("text", program("text"))
        # 21 failures, between which the agent waits ever longer.
        if not self.until(lambda: self.job("text")["phase"] == "failed", 3 * PATIENCE_S):
            self.say("text", f"the job is {self.job('text')} instead of failed")
        if not any("caf\ufffd: no such file" in one for one in self.events(seq, "replica_failed")):
            self.say("text", "no event has the last line of the program")
        for kind in ("agent_disconnected", "agent_gone"):
            for message in self.events(seq, kind):
                self.say("text", message)
        self.starts("text", "after-text")

    def numbers(self):
        seq = self.cluster.newest_event()
        self.submit("numbers", program("numbers"))
        self.completes("numbers")
        rejected, blamed = self.events(seq, "contribution_rejected"), self.events(seq, "agent_quarantined")
        print(f"numbers  rejected {len(rejected)} times: {rejected[:1]}")
        if not rejected:
            self.say("numbers", "no event names the replica that met the bad item")
        for message in blamed:
            self.say("numbers", message)
        done = self.shoal("job", "restart", "numbers", "--name", "again", "--set", "train.steps=300")
        if done.returncode != 0:
            return self.say("numbers", f"the job cannot be continued: {done.stderr}")
        self.completes("again")

    def completes(self, name):
        over = ("completed", "failed", "cancelled")
        self.until(lambda: self.job(name)["phase"] in over)
        if self.job(name)["phase"] != "completed":
            self.say("numbers", f"{name} is {self.job(name)['phase']}: {self.job(name)['detail']}")

    def scope(self):
        made = self.shoal("token", "create", "--name", "reader", "--scope", "viewer", "--json")
        token = self.folder / "reader.token"
        token.write_text(json.loads(made.stdout)["token"] if made.returncode == 0 else "")
        token.chmod(0o600)
        (self.folder / "scope.toml").write_text(ordinary("scope"))
        shoal, *where = map(str, self.cluster.command_line())
        for words in (("job", "submit"), ("job", "validate"), ("job", "plan")):
            done = subprocess.run(["timeout", "10", shoal, *where[:2], "--token-file", token, *words, "scope.toml"],
                                  cwd=self.folder, capture_output=True, text=True)
            if done.returncode != 4:
                self.say("scope", f"shoal {' '.join(words)} ends with {done.returncode} instead of 4: {done.stderr}")
            print(f"scope    shoal {' '.join(words)}: exit code {done.returncode}, {done.stderr.strip()!r}")


def why_not():
    there = subprocess.run([PYTHON, "-c", "import torch"], capture_output=True)
    return "" if there.returncode == 0 else f"{PYTHON} has no PyTorch (python3-torch of Debian has it)"


def run(folder):
    """What the cluster did not withstand."""
    folder.mkdir(parents=True)
    (folder / "programs").mkdir()
    for name, text in PROGRAMS.items():  # a numbers.py would take the place of Python's own
        (folder / "programs" / f"{name}_fault.py").write_text(text)
    faults = Faults(folder)
    try:
        for fault in (faults.proxy, faults.memory, faults.text, faults.numbers, faults.scope):
            fault()
    finally:
        faults.cluster.stop()
    return faults.said
