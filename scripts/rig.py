"""Real processes for scripts that disturb them: a cluster on this host, lines between namespaces, signals.

Every process belongs to a Cluster, which ends them all, trainers that outlived their agent too. Nothing but python3
and a finished build is needed; Lines need root and iproute2, and leave the network of the host alone.
"""
import contextlib
import ctypes
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

# SHOAL_BIN: the programs of another build.
BIN = pathlib.Path(os.environ.get("SHOAL_BIN") or pathlib.Path(__file__).resolve().parent.parent / "build" / "bin")
PATIENCE_S = 120  # for anything that is not measured
WITHOUT_PROXY = urllib.request.build_opener(urllib.request.ProxyHandler({}))
POLL_S = 0.05
ENDING_S = 20  # what a process gets to end in order


class Trouble(Exception):
    """The rig itself cannot continue: a sentence for people."""


def run(*words):
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


def end_by_signal():
    """SIGTERM ends a script as Ctrl-C does: through its `finally`."""
    def interrupt(*_):
        raise KeyboardInterrupt
    signal.signal(signal.SIGTERM, interrupt)


def job_text(name, **tables):
    """A job file that trains on text.txt until somebody ends it, without checkpoints and evaluations: what `tables` say
    of [model], [train] and the others comes in addition, or instead."""
    whole = {"model": {"family": "llama"}, "data": {"train": "text.txt"}, "train": {"steps": 10_000_000},
             "checkpoint": {"every_rounds": 0}, "eval": {"every_rounds": 0}}
    lines = [f"name = {json.dumps(name)}"]
    for table in [*whole, *(one for one in tables if one not in whole)]:
        fields = whole.get(table, {}) | tables.get(table, {})
        lines += [f"[{table}]", *(f"{key} = {json.dumps(value)}" for key, value in fields.items())]
    return "\n".join(lines) + "\n"


class Lines:
    """A switch in the namespace `hub`, and namespaces with a line to it: number 0 for the coordinator, 1… for agents."""

    def __init__(self, label=""):
        self.prefix = f"shoal-{os.getpid()}{label}"
        self.hub, self.hosts = f"{self.prefix}-hub", []

    @staticmethod
    def problem():
        if os.geteuid() != 0:
            return "namespaces need root"
        return "" if subprocess.run(["ip", "-V"], capture_output=True).returncode == 0 else "iproute2 is missing"

    def set_up(self, agents, mbit=0):
        """`mbit` 0: as fast as the host."""
        self.add("hub")
        run("ip", "-n", self.hub, "link", "add", "bridge", "type", "bridge")
        run("ip", "-n", self.hub, "link", "set", "bridge", "up")
        self.hosts = [self.join(number, mbit) for number in range(agents + 1)]
        # Known for good: a line that is cut is silent, nobody hears that a neighbor does not answer.
        for number, namespace in enumerate(self.hosts):
            for other in range(agents + 1):
                if other != number:
                    run("ip", "-n", namespace, "neighbour", "replace", self.address(other), "lladdr",
                        self.hardware(other), "dev", "line", "nud", "permanent")

    def add(self, name):
        namespace = f"{self.prefix}-{name}"
        run("ip", "netns", "add", namespace)
        run("ip", "-n", namespace, "link", "set", "lo", "up")
        return namespace

    def join(self, number, mbit):
        namespace = self.add(str(number))
        port = f"port{number}"
        run("ip", "link", "add", "line", "netns", namespace, "address", self.hardware(number), "type", "veth", "peer",
            "name", port, "netns", self.hub)
        run("ip", "-n", self.hub, "link", "set", port, "master", "bridge", "up")
        run("ip", "-n", namespace, "address", "add", f"{self.address(number)}/24", "dev", "line")
        run("ip", "-n", namespace, "link", "set", "line", "up")
        for where, device in ((namespace, "line"), (self.hub, port)) if mbit else ():
            run("ip", "netns", "exec", where, "tc", "qdisc", "add", "dev", device, "root", "tbf",
                "rate", f"{mbit}mbit", "burst", "128kb", "latency", "50ms")
        return namespace

    @staticmethod
    def address(number):
        return f"10.79.0.{number + 1}"

    @staticmethod
    def hardware(number):
        return f"02:00:0a:4f:00:{number + 1:02x}"

    def cut(self, number):
        """Both directions, in silence: the switch forgets the port, both ends keep believing in it."""
        run("ip", "-n", self.hub, "link", "set", f"port{number}", "nomaster")

    def mend(self, number):
        run("ip", "-n", self.hub, "link", "set", f"port{number}", "master", "bridge")

    def enter(self):
        """From here on this thread is on the coordinator's host."""
        descriptor = os.open(f"/run/netns/{self.hosts[0]}", os.O_RDONLY)
        try:
            if ctypes.CDLL(None, use_errno=True).setns(descriptor, 0) != 0:
                raise Trouble("cannot enter a network namespace: " + os.strerror(ctypes.get_errno()))
        finally:
            os.close(descriptor)

    def take_down(self):
        listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout
        for line in listed.splitlines():
            if line.startswith(self.prefix + "-"):
                subprocess.run(["ip", "netns", "delete", line.split()[0]], check=False)


class FarLines(Lines):
    """The same hosts, joined by shoal-line (bench/line): each direction of each line has a rate, delay, jitter, loss
    and reordering of its own. Delays and losses add up over the sender's uplink and the receiver's downlink."""

    def __init__(self, label="", programs=BIN):
        super().__init__(label)
        self.program, self.forwarder, self.counts = programs / "shoal-line", None, None

    def set_up(self, agents, mbit=0, up=None, down=None, seed=1):
        """`up` and `down` as bench/line/control.h has them; without: `mbit` alone. They hold for every host."""
        self.hosts = [self.add(str(number)) for number in range(agents + 1)]
        base = {"mbit": mbit}
        lines = {"seed": seed, "hosts": [
            {"name": str(number), "namespace": namespace, "address": f"{self.address(number)}/24",
             "up": base | (up or {}), "down": base | (down or {})} for number, namespace in enumerate(self.hosts)]}
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(lines, file)
            file.flush()
            # A session of its own, as the processes of a Cluster: it ends with its input, which is closed last.
            self.forwarder = subprocess.Popen([str(self.program), file.name], stdin=subprocess.PIPE,
                                              stdout=subprocess.PIPE, text=True, start_new_session=True)
            if "ready" not in self.answer():
                raise Trouble("shoal-line does not start")

    def answer(self):
        line = self.forwarder.stdout.readline()
        return json.loads(line) if line else {}

    def order(self, order):
        self.forwarder.stdin.write(json.dumps(order) + "\n")
        self.forwarder.stdin.flush()
        answer = self.answer()
        if "error" in answer or not answer:
            raise Trouble("shoal-line: " + answer.get("error", "it has ended"))
        return answer

    def set_line(self, number, up=None, down=None):
        """What is not named stays."""
        self.order({"host": str(number), "up": up or {}, "down": down or {}})

    def cut(self, number, ways=("up", "down")):
        self.order({"host": str(number), **{way: {"cut": True} for way in ways}})

    def mend(self, number):
        self.set_line(number, {"cut": False}, {"cut": False})

    def take_down(self):
        """Afterwards `counts` has what each line has passed, lost and dropped."""
        if self.forwarder is not None:
            self.forwarder.stdin.close()
            self.counts = self.answer()
            self.forwarder.wait(ENDING_S)
            self.forwarder = None
        super().take_down()


def send(pid, number):
    """A process that has ended needs no signal."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def environment_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:  # it has ended
        return []


def processes_with(entry):
    """Who has `NAME=value` in its environment."""
    wanted = entry.encode()
    return [int(one.name) for one in pathlib.Path("/proc").iterdir()
            if one.name.isdigit() and wanted in environment_of(one.name)]


class Cluster:
    """A coordinator and agents with one job. Without lines all of them are on loopback."""

    def __init__(self, folder, agents, job, lines=None, coordinator_flags=(), agent_flags=(),
                 programs=BIN):
        self.folder, self.count, self.job, self.lines = pathlib.Path(folder), agents, job, lines
        self.coordinator_flags, self.agent_flags = list(coordinator_flags), list(agent_flags)
        self.mark = f"SHOAL_RIG={os.getpid()}-{self.folder.name}"
        self.bin = programs
        # Behind lines, agents join at the address of its host, and the script is on its loopback.
        self.listen = "0.0.0.0:7070" if lines else "127.0.0.1:0"
        self.http = self.join_at = ""
        self.grpc = f"{Lines.address(0)}:7071" if lines else "127.0.0.1:0"
        self.coordinator, self.agents, self.token = None, [None] * agents, ""
        self.admin_token_file = self.data_of_coordinator() / "admin.token"  # with which people ask
        self.name = ""  # of the job
        self.environment = {}  # of its processes, besides that of this one

    # ---- processes

    def begin(self):
        self.begin_hosts()
        self.name = self.submit(self.job)

    def begin_hosts(self):
        """All processes; no job."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.start_coordinator()
        for number in range(self.count):
            self.start_agent(number)
        (self.folder / "text.txt").write_text(" ".join(f"{n * n} is {n} times {n}" for n in range(20_000)))

    def around(self, program):
        """Words before a program; a cluster whose hosts are further apart says so here."""
        return []

    def start(self, namespace, program, log, *arguments):
        words = ["ip", "netns", "exec", namespace] if namespace else []
        words += [*self.around(program), self.bin / program, *arguments]
        name, value = self.mark.split("=")
        with open(self.folder / log, "a", encoding="utf-8") as output:
            # A session of its own: Ctrl-C is for the script alone, which then ends everything in order.
            return subprocess.Popen([str(word) for word in words], stdout=output, stderr=output, cwd=self.folder,
                                    env={**os.environ, **self.environment, name: value}, start_new_session=True)

    def data_of_coordinator(self):
        return self.folder / "coordinator"

    def launch_coordinator(self):
        """Does not wait for it. Returns the file that tells where it listens, once it does."""
        at = self.folder / "at.json"
        at.unlink(missing_ok=True)
        host = self.lines.hosts[0] if self.lines else None
        self.coordinator = self.start(host, "shoal-coordinator", "coordinator.log", "--data-dir",
                                      self.data_of_coordinator(), "--http", self.listen, "--grpc", self.grpc,
                                      "--address-file", at, *self.coordinator_flags)
        return at

    def start_coordinator(self):
        at = self.launch_coordinator()
        self.until(at.exists, "the coordinator does not start")
        told = json.loads(at.read_text())
        self.listen, self.grpc, self.token = told["http"].removeprefix("http://"), told["grpc"], told["token_file"]
        self.http = self.listen.replace("0.0.0.0", "127.0.0.1")
        self.join_at = self.listen.replace("0.0.0.0", Lines.address(0))
        self.admin_token_file = told["admin_token_file"]
        return told

    def data_of(self, number):
        return self.folder / f"agent{number}"

    def flags_of(self, number):
        """Of this agent; a cluster of unequal ones says so here."""
        return self.agent_flags

    def name_of(self, number):
        return f"agent-{number}"

    def address_of(self, number):
        """Behind lines: where peers dial this agent's trainers."""
        return Lines.address(number + 1)

    def devices_of(self, number):
        """The flags that say with what it trains."""
        return ["--devices", "cpu:1", "--threads", "1"]

    def present(self):
        """How many agents should be there."""
        return self.count

    def start_agent(self, number):
        where, ports = None, ["--host", "127.0.0.1", "--peer-ports", "0"]
        if self.lines:
            where, ports = self.lines.hosts[number + 1], ["--host", self.address_of(number)]
        self.agents[number] = self.start(where, "shoal-agent", f"agent{number}.log", "--coordinator", self.grpc,
                                         "--join-token", self.token, "--enrol", self.join_at, "--data-dir",
                                         self.data_of(number), "--name", self.name_of(number),
                                         *self.devices_of(number), "--data-root", self.folder, *ports,
                                         *self.flags_of(number))

    def trainers(self, number):
        """Process ids, also of one whose agent has ended."""
        socket = f"SHOAL_TRAINER_SOCKET={self.data_of(number)}/trainer.sock"
        return sorted(processes_with(socket))

    def kill(self, process):
        process.send_signal(signal.SIGCONT)
        process.kill()
        process.wait(ENDING_S)

    def stop(self):
        started = [one for one in [self.coordinator, *self.agents] if one is not None]
        for process in started:
            send(process.pid, signal.SIGCONT)
            process.terminate()
        end = time.monotonic() + ENDING_S
        for process in started:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.1, end - time.monotonic()))
            process.kill()
        for pid in processes_with(self.mark):
            send(pid, signal.SIGKILL)

    # ---- the REST side

    def login(self):
        """The header that says who asks."""
        return {"Authorization": "Bearer " + pathlib.Path(self.admin_token_file).read_text().strip()}

    def get(self, path, timeout_s=5):
        request = urllib.request.Request(f"http://{self.http}/api/v1{path}", headers=self.login())
        with WITHOUT_PROXY.open(request, timeout=timeout_s) as answer:
            return json.load(answer)

    def post(self, path, body, timeout_s=5):
        request = urllib.request.Request(f"http://{self.http}/api/v1{path}", json.dumps(body).encode(),
                                         {"Content-Type": "application/json", **self.login()})
        with WITHOUT_PROXY.open(request, timeout=timeout_s) as answer:
            return json.load(answer)

    def command_line(self):
        """`shoal`, with the flags that lead to this cluster as its admin."""
        return [self.bin / "shoal", "--addr", f"http://{self.http}", "--token-file", self.admin_token_file]

    def shoal(self, *words):
        return subprocess.run([str(self.bin / "shoal"), *words], cwd=self.folder, capture_output=True, text=True,
                              env={**os.environ, "SHOAL_ADDR": f"http://{self.http}",
                                   "SHOAL_TOKEN_FILE": str(self.admin_token_file)}, timeout=PATIENCE_S)

    def submit(self, job):
        """Waits for idle agents, then hands a job file in. Returns the name of the job."""
        (self.folder / "job.toml").write_text(job)
        self.until(lambda: sum(one["state"] == "idle" for one in self.get("/agents")["items"]) >= self.present(),
                   "not all agents come")
        done = self.shoal("job", "submit", "job.toml")
        if done.returncode != 0:
            raise Trouble("the job is not taken: " + done.stderr)
        return job.split('name = "', 1)[1].split('"', 1)[0]

    def status(self, timeout_s=5):
        return self.get(f"/jobs/{self.name}", timeout_s)["status"]

    def committed(self):
        return self.status()["progress"]["rounds_committed"]

    def members(self, number):
        contributions = self.get(f"/jobs/{self.name}/rounds/{number}")["contributions"]
        return sum(one["state"] == "committed" for one in contributions)

    def newest_event(self):
        newest = self.get("/events?order=desc&limit=1")["items"]
        return newest[0]["seq"] if newest else 0

    def pages(self, path, limit=500):
        """The items of a list, the newest first, page by page as they are asked for."""
        cursor = ""
        while True:
            page = self.get(f"{path}?order=desc&limit={limit}{cursor}", 20)
            yield from page["items"]
            if not page["next_cursor"]:
                return
            cursor = "&cursor=" + urllib.parse.quote(page["next_cursor"])

    def events_after(self, seq):
        """Oldest first."""
        found = []
        for event in self.pages("/events"):
            if event["seq"] <= seq:
                break
            found.append(event)
        return found[::-1]

    # ---- waiting

    def until(self, holds, complaint, limit=PATIENCE_S):
        begin = time.monotonic()
        while time.monotonic() - begin < limit:
            with contextlib.suppress(OSError):
                if holds():
                    return
            if self.coordinator is not None and self.coordinator.poll() is not None:
                raise Trouble(f"{complaint}: the coordinator ended with {self.coordinator.returncode}; {self.folder}")
            time.sleep(POLL_S)
        raise Trouble(f"{complaint} within {limit:g} s; logs: {self.folder}")

    def next_commit(self):
        """Waits for it. Returns its time and the number of its round."""
        before = self.committed()
        self.until(lambda: self.committed() > before, "no round is committed")
        return time.monotonic(), self.committed() - 1

    def all_take_part(self, limit=PATIENCE_S):
        """Until a round was committed with a contribution of every agent."""
        def holds():
            number = self.committed()
            return number > 0 and self.members(number) >= self.present()
        self.until(holds, "not all members are in the rounds", limit)


@contextlib.contextmanager
def cluster_on_lines(prefix, agents, mbit, make, lines=None):
    """What make(folder, lines) gives, not begun yet, in a network of its own with a line of `mbit` to each agent.

    Ends the program with one line when that cannot be or trouble comes; the folder of the logs is kept then."""
    if problem := Lines.problem():
        sys.exit("error: " + problem)
    end_by_signal()
    folder = pathlib.Path(tempfile.mkdtemp(prefix=prefix))
    lines = lines or Lines()
    cluster = make(folder, lines)
    try:
        lines.set_up(agents, mbit)
        lines.enter()
        yield cluster
    except Trouble as trouble:
        sys.exit(f"error: {trouble}; the logs are in {folder}")
    finally:
        cluster.stop()
        lines.take_down()
    shutil.rmtree(folder)
