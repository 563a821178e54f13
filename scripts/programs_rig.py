"""A cluster of `shoal up` that trains programs of a folder, for what tests and measures them. Nothing but
python3."""
import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import urllib.request

LIMIT_S = 900


class Cluster:
    """`shoal up` by the Shoal in the folder `programs`. Beneath `root` lie its files, the data, and the
    programs of jobs, which `python` runs."""

    def __init__(self, programs, root, python, agents=4):
        self.programs, self.root, self.python = pathlib.Path(programs), pathlib.Path(root), python
        self.folder = self.root / "cluster"
        self.shoal("down", "--data-dir", self.folder, check=False)
        shutil.rmtree(self.folder, ignore_errors=True)
        self.shoal("up", "--agents", agents, "--threads", 1, "--detach", "--http", "127.0.0.1:0",
                   "--grpc", "127.0.0.1:0", "--data-dir", self.folder, "--data-root", self.root,
                   "--trainer-root", self.root / "programs", "--python", python)
        self.state = json.loads((self.folder / "up.json").read_text())
        self.joined = []

    def shoal(self, *words, check=True):
        environment = dict(os.environ)
        if hasattr(self, "state"):
            environment["SHOAL_ADDR"] = self.find("http")
        done = subprocess.run([str(self.programs / "shoal"), *map(str, words)], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, env=environment)
        if check and done.returncode:
            sys.exit(f"shoal {' '.join(map(str, words))}: {done.stderr}")
        return done.stdout

    def find(self, name, within=None):
        """A field of up.json, wherever it is."""
        within = self.state if within is None else within
        for key, value in within.items() if isinstance(within, dict) else enumerate(within):
            if key == name and isinstance(value, str):
                return value
            found = self.find(name, value) if isinstance(value, (dict, list)) else None
            if found is not None:
                return found
        return None

    def kill_agent(self, number):
        def pid(within):
            if isinstance(within, dict) and within.get("name") == f"agent-{number}":
                return within["pid"]
            parts = within.values() if isinstance(within, dict) else within
            return next((p for p in (pid(x) for x in parts if isinstance(x, (dict, list))) if p), None)
        os.kill(pid(self.state), signal.SIGKILL)

    def join_agent(self, number, devices="cpu:1", link=None):
        """An agent beyond those of `shoal up`; `link`: as --emulate-link takes it."""
        command = [self.programs / "shoal-agent", "--coordinator", self.find("grpc"), "--join-token",
                   self.find("token_file"), "--enrol", self.find("http").split("//")[1], "--data-dir",
                   self.folder / f"agents/{number}", "--name", f"agent-{number}", "--threads", "1", "--devices",
                   devices, "--host", "127.0.0.1", "--data-root", self.root, "--peer-ports", "0", "--trainer-root",
                   self.root / "programs", "--python", self.python]
        if link:
            command += ["--emulate-link", link]
        self.joined.append(subprocess.Popen(command, stdout=subprocess.DEVNULL,
                                            stderr=(self.folder / f"logs/agent-{number}.log").open("w")))

    def submit(self, name, text):
        file = self.root / f"{name}.toml"
        file.write_text(text)
        self.shoal("job", "submit", file)

    def get(self, path):
        """An answer of the REST API."""
        token = pathlib.Path(self.find("admin_token_file")).read_text().strip()
        request = urllib.request.Request(f"{self.find('http')}/api/v1{path}", headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def job(self, name):
        return self.get(f"/jobs/{name}")

    def rounds(self, name):
        return self.get(f"/jobs/{name}/rounds?limit=200&order=asc")["items"]

    def wait(self, name, until, what):
        end = time.monotonic() + LIMIT_S
        while not until():
            if time.monotonic() > end:
                sys.exit(f"{name}: {what} within {LIMIT_S} s: {self.shoal('logs', name, check=False)[-3000:]}")
            time.sleep(1)

    def finish(self, name):
        over = ("completed", "failed", "cancelled")
        self.wait(name, lambda: self.job(name)["status"]["phase"] in over, "did not end")
        job = self.job(name)
        if job["status"]["phase"] != "completed":
            sys.exit(f"{name}: {json.dumps(job['status'], indent=1)}\n"
                     + self.shoal("logs", name, check=False)[-5000:])
        return job

    def stop(self):
        for agent in self.joined:
            agent.terminate()
            agent.wait(60)
        self.shoal("down", "--data-dir", self.folder, check=False)


@contextlib.contextmanager
def cluster(programs, root, python, agents=4):
    one = Cluster(programs, root, python, agents)
    try:
        yield one
    finally:
        one.stop()


def job_file(name, text, entry=None, steps=60, every=20, batch=8, model="context = 32"):
    """A job over a text of bytes; without a program the C++ trainer's."""
    lines = [f'name = "{name}"', f'[data]\ntrain = "{text}"\nval_fraction = 0.05',
             f"[train]\nsteps = {steps}\nbatch = {batch}\nwarmup = 5\nlr = 1e-3",
             f"[sync]\nevery = {every}", "[eval]\nbatches = 20", "[model]\n" + model]
    if entry:
        lines.append(f'[trainer]\nkind = "python"\nentry = "{entry}"')
    return "\n".join(lines) + "\n"
