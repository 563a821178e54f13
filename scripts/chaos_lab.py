"""What the cases of bad-input are made of: a cluster whose hosts have disks, clocks and data files of their own, damage
to files, and the checks that are the same for all. Disks and data files need root, clocks Debian's libfaketime."""
import contextlib
import glob
import hashlib
import json
import os
import shutil
import socket
import subprocess
import threading
import time

from rig import PATIENCE_S, POLL_S, Cluster, Trouble, send, signal

DISK_MIB = {"coordinator": 48, "checkpoints": 32, "agent": 32}
ENDS_WITHIN_S = 20  # a program that refuses to start
FAKETIME = next(iter(glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1")), "")
IS_ROOT = os.geteuid() == 0


class HostsCluster(Cluster):
    """As root each agent has a disk and a view of text.txt of its own, the coordinator one disk for its tables and one
    for its checkpoints."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.mounts, self.faked, self.via = [], set(), {}  # via: the address of the coordinator, by agent

    def begin(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        self.write_data(self.folder / "text.txt")
        if IS_ROOT:
            self.mount_disk(self.data_of_coordinator(), "coordinator")
            self.mount_disk(self.data_of_coordinator() / "checkpoints", "checkpoints")
        for number in range(self.count):
            self.write_data(self.text_of(number))
            if IS_ROOT:
                self.mount_disk(self.data_of(number), "agent")
        super().begin()

    @staticmethod
    def write_data(path):
        path.write_text(" ".join(f"{n * n} is {n} times {n}" for n in range(20_000)))

    def text_of(self, number):
        """What this agent reads where the job says text.txt."""
        return self.folder / f"text-{number}.txt"

    def mount_disk(self, folder, kind):
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB[kind]}m,mode=700", "none", folder], check=True)
        self.mounts.append(folder)

    @contextlib.contextmanager
    def read_only(self, path):
        subprocess.run(["mount", "--bind", path, path], check=True)
        self.mounts.append(path)
        subprocess.run(["mount", "-o", "remount,ro,bind", path], check=True)
        try:
            yield
        finally:
            subprocess.run(["umount", "-l", path], check=True)
            self.mounts.remove(path)

    @contextlib.contextmanager
    def full(self, folder):
        ballast = folder / "ballast"
        with contextlib.suppress(OSError), open(ballast, "wb", buffering=0) as out:
            while out.write(bytes(4096)):
                pass
        try:
            yield
        finally:
            ballast.unlink(missing_ok=True)

    def start(self, namespace, program, log, *arguments):
        who = log.removesuffix(".log")
        words = [program]
        if who.startswith("agent") and IS_ROOT:
            own, shown = self.text_of(int(who[5:])), self.folder / "text.txt"
            view = 'mount --bind "$0" "$1" && shift && exec "$@"'
            words = [shutil.which("unshare"), "-m", "sh", "-c", view, own, shown, self.bin / program]
        if who in self.via:
            arguments = [self.via[who] if one == self.grpc else one for one in arguments]
        clock = {"LD_PRELOAD": FAKETIME, "FAKETIME_TIMESTAMP_FILE": str(self.clock_of(who)), "FAKETIME_NO_CACHE": "1",
                 "FAKETIME_DONT_FAKE_MONOTONIC": "1", "DONT_FAKE_MONOTONIC": "1"} if who in self.faked else {}
        before = {name: os.environ.get(name) for name in clock}
        os.environ.update(clock)
        try:
            return super().start(namespace, words[0], log, *words[1:], *arguments)
        finally:
            for name in before:
                del os.environ[name]

    def clock_of(self, who):
        return self.folder / f"clock-{who}"

    def stop(self):
        super().stop()
        self.unmount()

    def unmount(self):
        while self.mounts:
            subprocess.run(["umount", "-l", self.mounts.pop()], check=False)


class BitFlipper(threading.Thread):
    """A line to the coordinator. Once armed, it flips one bit of the next large piece in its direction."""

    def __init__(self, target, direction, door=("127.0.0.1", 0)):
        super().__init__(daemon=True)
        self.target, self.direction, self.left = target, direction, 0
        self.flipped = 0
        self.door = socket.create_server(door)
        self.address = "{}:{}".format(*self.door.getsockname())
        self.start()

    def run(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self.door.accept()
                threading.Thread(target=self.join, args=(near,), daemon=True).start()

    def join(self, near):
        """Nobody there: the caller hears so."""
        try:
            far = socket.create_connection(self.target)
        except OSError:
            return near.close()
        threading.Thread(target=self.carry, args=(near, far, "up"), daemon=True).start()
        return self.carry(far, near, "down")

    def carry(self, source, sink, way):
        with contextlib.suppress(OSError):
            while piece := source.recv(65536):
                if way == self.direction and self.left > 0 and len(piece) > 30_000:
                    self.left -= 1
                    self.flipped += 1
                    piece = bytearray(piece)
                    piece[len(piece) // 2] ^= 4
                sink.sendall(piece)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


def flip(path, at=None):
    """One bit; without a place, in the middle."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2 if at is None else at] ^= 1
    path.write_bytes(bytes(content))


def hashes(folder):
    return {str(one.relative_to(folder)): hashlib.sha256(one.read_bytes()).hexdigest()
            for one in sorted(folder.rglob("*")) if one.is_file()}


class Lab:
    """One case on a cluster that trains. What is not as promised is in `broken`."""

    def __init__(self, cluster):
        self.cluster, self.broken, self.message = cluster, [], ""
        self.seq = cluster.newest_event()

    def expect(self, holds, complaint):
        if not holds and complaint not in self.broken:
            self.broken.append(complaint)
        return holds

    def says(self, text, *names):
        """The one message of the case: it names all of these."""
        self.message = self.message or text.strip()
        for name in names:
            self.expect(name in text, f"no '{name}' in: {text.strip() or 'nothing'}")

    # ---- programs that refuse to start

    def refused(self, words, code, *names):
        """Ends by itself, with this code, and one line that names all of these."""
        try:
            done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=ENDS_WITHIN_S,
                                  cwd=self.cluster.folder)
        except subprocess.TimeoutExpired:
            return self.expect(False, f"{words[0]} runs on")
        lines = [one for one in done.stderr.splitlines() if " info " not in one]
        self.expect(done.returncode == code, f"exit code {done.returncode}, not {code}")
        problems = [one for one in lines if not one.startswith("hint: ")]
        self.expect(len(problems) == 1, f"{len(problems)} lines instead of one: {' | '.join(problems)}")
        self.says(" ".join(lines), *names)

    def coordinator_on(self, folder, *flags):
        return [self.cluster.bin / "shoal-coordinator", "--data-dir", folder, "--http", "127.0.0.1:0", "--grpc",
                "127.0.0.1:0", *flags]

    def backup(self):
        """A folder as a coordinator leaves it when it ends, to be damaged."""
        folder = self.cluster.folder / "spare"
        shutil.rmtree(folder, ignore_errors=True)
        data = self.cluster.data_of_coordinator()
        done = subprocess.run([str(self.cluster.bin / "shoal"), "admin", "backup", "--data-dir", str(data), "--to",
                               str(folder)], capture_output=True, text=True, timeout=PATIENCE_S)
        if done.returncode != 0:
            raise Trouble("shoal admin backup: " + done.stderr)
        (folder / "telemetry.db").write_bytes(b"")
        return folder

    # ---- what the cluster does

    def events(self, kind):
        return [one["message"] for one in self.cluster.events_after(self.seq) if one["kind"] == kind]

    def told(self, kind, *names, limit=PATIENCE_S):
        """An event of this kind comes; the first that names all of these is the message."""
        begin = time.monotonic()
        fitting = []
        while not fitting and time.monotonic() - begin < limit:
            time.sleep(POLL_S)
            with contextlib.suppress(OSError):
                fitting = [one for one in self.events(kind) if all(name in one for name in names)]
        self.expect(fitting, f"no event {kind} that names {', '.join(names)}, only {self.events(kind)}")
        self.says(fitting[0] if fitting else "", *names)

    def trains(self, rounds=2, limit=PATIENCE_S):
        """It commits so many rounds more, and every agent takes part in the end."""
        begin, first = time.monotonic(), None
        while time.monotonic() - begin < limit:
            with contextlib.suppress(OSError):
                status = self.cluster.status()
                done = status["progress"]["rounds_committed"]
                first = done if first is None else min(first, done)
                if status["phase"] == "training" and done >= first + rounds:
                    return True
            time.sleep(POLL_S)
        return self.expect(False, f"no {rounds} rounds within {limit} s")

    def never_rolled_back(self):
        for message in self.events("job_rolled_back"):
            self.expect(False, message)

    def reason(self):
        return self.cluster.status()["reason"]

    def until_stored(self, count=1):
        """Checkpoints, counted from now on. Returns the folder of the newest."""
        seq = self.cluster.newest_event()
        self.cluster.until(lambda: sum(one["kind"] == "checkpoint_stored" for one in self.cluster.events_after(seq))
                           >= count, "no checkpoint is stored")
        return self.newest_checkpoint()

    def checkpoints(self):
        return self.cluster.get(f"/jobs/{self.cluster.name}/checkpoints?limit=500")["items"]

    def newest_checkpoint(self):
        stored = [one for one in self.checkpoints() if one["state"] == "stored"]
        newest = max(stored, key=lambda one: (one["round"], one["created_at"]))
        return self.cluster.data_of_coordinator() / "checkpoints" / newest["id"]

    def end_agents(self):
        """With their trainers: what they held is gone."""
        for number in range(self.cluster.count):
            trainers = self.cluster.trainers(number)
            self.cluster.kill(self.cluster.agents[number])
            for pid in trainers:
                send(pid, signal.SIGKILL)

    def start_agents(self):
        for number in range(self.cluster.count):
            self.cluster.start_agent(number)

    def everybody_back(self):
        self.cluster.all_take_part()

    def rewrite(self, path, change):
        """A JSON file, by a function that changes what it holds."""
        content = json.loads(path.read_text())
        change(content)
        path.write_text(json.dumps(content))
