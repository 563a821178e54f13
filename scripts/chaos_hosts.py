"""What a storm strikes: a cluster whose hosts have disks and lines of their own, and a supervisor that starts again
what ended, as systemd would. Needs root and iproute2."""
import contextlib
import os
import shutil
import signal
import subprocess
import threading
import time

from chaos_lab import BitFlipper, HostsCluster
from rig import Lines, environment_of, run

LINE_MBIT = 1000  # of a line that nothing slows
FLIPPER_PORT = 7072
LOOK_S = 0.1
BECOMES_S = 5  # after its fork a process executes its program within this time


class RoughLines(Lines):
    """Lines that can also be cut one way, or slowed, while they are in use."""

    def ends(self, number):
        """Where a shaper stands for what leaves the host, and for what comes in."""
        return {"outward": (self.hosts[number], "line"), "inward": (self.hub, f"port{number}")}

    def shape(self, number, ways, *discipline):
        for way in ways:
            namespace, device = self.ends(number)[way]
            run("tc", "-n", namespace, "qdisc", "replace", "dev", device, "root", *discipline)

    def slow(self, number, mbit):
        self.shape(number, ("outward", "inward"), "tbf", "rate", f"{mbit}mbit", "burst", "32kb", "latency", "100ms")

    def cut_one_way(self, number, way):
        """In silence: what goes this way is dropped, what comes the other way arrives."""
        self.shape(number, (way,), "pfifo", "limit", "0")

    def clear(self, number):
        for namespace, device in self.ends(number).values():
            subprocess.run(["tc", "-n", namespace, "qdisc", "delete", "dev", device, "root"], check=False,
                           stderr=subprocess.DEVNULL)


class Process:
    """A process that lives now. Its number may be another one's later: signals go to itself or to nobody."""

    def __init__(self, pid):
        self.pid, self.handle = pid, None
        with contextlib.suppress(OSError):
            self.handle = os.pidfd_open(pid)

    def send(self, number):
        if self.handle is not None:
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(self.handle, number)

    def close(self):
        if self.handle is not None:
            os.close(self.handle)
            self.handle = None


class StormCluster(HostsCluster):
    """Its processes may be struck from one thread while another one starts them again: both hold `lock`."""
    flips_on_line = True  # agents dial the coordinator through a relay that can flip bits

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.lock = threading.RLock()
        self.away = set()  # numbers of agents whose hosts are down, or not there at all
        self.disks = [0] * self.count  # how many each host has had: a node that comes back has an empty one
        self.killed = set()  # process ids: they did not end by themselves
        self.full_until = {}  # by unit: it may say that its disk is full, and end
        self.flipper = None
        self.supervisor = None
        self.seen_processes = {}  # by process id: the number of its agent, and until when it may become a trainer

    def name_of(self, number):
        return f"agent-{number}" + (f".{self.disks[number]}" if self.disks[number] else "")

    def present(self):
        return self.count - len(self.away)

    def begin(self):
        super().begin()
        self.supervisor.start()

    def start_coordinator(self):
        told = super().start_coordinator()
        if self.flips_on_line and self.flipper is None:
            here = Lines.address(0)
            self.flipper = BitFlipper((here, int(self.grpc.rsplit(":", 1)[1])), "up", (here, FLIPPER_PORT))
            self.via = {f"agent{number}": self.flipper.address for number in range(self.count)}
        return told

    def start_agent(self, number):
        if number not in self.away:
            super().start_agent(number)

    def units(self):
        yield "coordinator", self.coordinator
        for number, agent in enumerate(self.agents):
            yield f"agent{number}", agent

    def launch(self, unit):
        if unit == "coordinator":
            self.launch_coordinator()
        else:
            self.start_agent(int(unit[5:]))

    def trainer_pids(self):
        """The trainers of all agents, by agent, from one look at the processes of this machine. A process that is no
        trainer in its first seconds never becomes one, and is not looked at again: a storm looks often."""
        now, before, known = time.monotonic(), self.seen_processes, {}
        found = {number: set() for number in range(self.count)}
        for pid in [int(name) for name in os.listdir("/proc") if name.isdigit()]:
            owner, until = before.get(pid, (None, now + BECOMES_S))
            if owner is None and now <= until:
                owner = self.owner_of(pid)
            known[pid] = (owner, until)
            if owner is not None:
                found[owner].add(pid)
        self.seen_processes = known
        return found

    def owner_of(self, pid):
        """The number of the agent whose trainer it is."""
        sockets = {f"SHOAL_TRAINER_SOCKET={self.data_of(number)}/trainer.sock".encode(): number
                   for number in range(self.count)}
        return next((sockets[entry] for entry in environment_of(pid) if entry in sockets), None)

    def new_disk(self, number):
        """All that a node that left had is lost, except its logs."""
        folder = self.data_of(number)
        kept = self.folder / "left" / f"{self.name_of(number)}-{time.time_ns()}"
        if (folder / "logs").exists():
            shutil.copytree(folder / "logs", kept)
        for one in folder.iterdir():
            shutil.rmtree(one) if one.is_dir() else one.unlink()
        self.disks[number] += 1

    def stop(self):
        if self.supervisor is not None and self.supervisor.is_alive():
            self.supervisor.over.set()
            self.supervisor.join(30)
        super().stop()

    def unmount(self):
        """The disks go; what was on them stays, beside the logs."""
        for folder in self.mounts:
            kept = self.folder / "disks" / folder.relative_to(self.folder)
            with contextlib.suppress(OSError, shutil.Error):
                shutil.copytree(folder, kept, dirs_exist_ok=True, ignore=shutil.ignore_patterns("ballast", "*.sock"))
        super().unmount()


class Supervisor(threading.Thread):
    """Starts again what ended, when its unit of deploy/ would; says what ended though nobody had killed it."""
    RESTART_S = {"coordinator": 5, "agent": 3}  # RestartSec
    ENDS_FULL = 1  # exit code of a coordinator whose disk is full

    def __init__(self, cluster):
        super().__init__(daemon=True)
        self.cluster, self.over, self.early = cluster, threading.Event(), []
        self.say = self.early.append
        self.ended_at, self.starts, self.ended_full = {}, 0, 0

    def tell(self, say):
        """From now on; and what there was to say so far."""
        self.say = say
        for complaint in self.early:
            say(complaint)

    def run(self):
        while not self.over.wait(LOOK_S):
            with self.cluster.lock:
                for unit, process in list(self.cluster.units()):
                    if process is not None and process.poll() is not None:
                        self.look_after(unit, process)

    def look_after(self, unit, process):
        now = time.monotonic()
        if unit not in self.ended_at:
            self.ended_at[unit] = now
            self.judge(unit, process)
        rests = self.RESTART_S["coordinator" if unit == "coordinator" else "agent"]
        host_is_up = unit == "coordinator" or int(unit[5:]) not in self.cluster.away
        if host_is_up and now >= self.ended_at[unit] + rests:
            del self.ended_at[unit]
            self.starts += 1
            self.cluster.launch(unit)

    def judge(self, unit, process):
        if process.pid in self.cluster.killed:
            return
        if process.returncode == self.ENDS_FULL and time.monotonic() < self.cluster.full_until.get(unit, 0):
            self.ended_full += 1
            return
        log = (self.cluster.folder / f"{unit}.log").read_text(errors="replace").splitlines()
        self.say(f"{unit} ended by itself with {process.returncode}: {' | '.join(log[-3:])}")
