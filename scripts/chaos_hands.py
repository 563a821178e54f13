"""The hands of a storm: they do to a StormCluster what a plan says, and undo it.

Every kind of chaos_plan.KINDS is a method of Hands. It returns what undoes it, or None when there is nothing to undo,
and raises Spared where the victim is not there to be struck.
"""
import contextlib
import random
import shutil
import signal
import subprocess
import time

import chaos_store
from chaos_hosts import Process
from chaos_lab import flip
from rig import PATIENCE_S, send

FULL_AFTERWARDS_S = 15  # so long a coordinator may still end over a disk that was full


class Spared(Exception):
    """Nothing was done, and why."""


class Hands:
    def __init__(self, cluster, oracle):
        self.cluster, self.oracle, self.backup = cluster, oracle, None
        self.flips_on_line = 0

    def strike(self, fault):
        return getattr(self, fault.kind.replace("-", "_"))(fault)

    # ---- processes

    def agent(self, number):
        agent = self.cluster.agents[number]
        if number in self.cluster.away or agent is None or agent.poll() is not None:
            raise Spared(f"agent-{number} is not there")
        return agent

    def trainers(self, number):
        found = self.cluster.trainer_pids()[number]
        if not found:
            raise Spared(f"agent-{number} has no trainer")
        return found

    def kill(self, pids):
        with self.cluster.lock:
            self.cluster.killed.update(pids)
            for pid in pids:
                send(pid, signal.SIGKILL)

    def coordinator(self):
        if self.cluster.coordinator.poll() is not None:
            raise Spared("the coordinator is not there")
        return self.cluster.coordinator.pid

    def of_host(self, number):
        return {self.agent(number).pid} | self.cluster.trainer_pids()[number]

    def everything(self):
        pids = {process.pid for _, process in self.cluster.units() if process is not None and process.poll() is None}
        return pids.union(*self.cluster.trainer_pids().values())

    def kill_trainer(self, fault):
        self.agent(fault.victim)
        self.kill(self.trainers(fault.victim))

    def kill_agent(self, fault):
        self.kill({self.agent(fault.victim).pid})

    def kill_coordinator(self, _):
        self.kill({self.coordinator()})

    def kill_all(self, _):
        """Agents first: they would start trainers again."""
        with self.cluster.lock:
            self.kill({process.pid for _, process in self.cluster.units() if process is not None})
            self.kill(set().union(*self.cluster.trainer_pids().values()))

    def end_host(self, number):
        """Agent and trainers at once. It is not started again."""
        with self.cluster.lock:
            agent = self.cluster.agents[number]
            self.cluster.away.add(number)
            if agent is not None:
                self.kill({agent.pid})
                agent.wait(PATIENCE_S)
            self.kill(self.cluster.trainer_pids()[number])

    def kill_host(self, fault):
        """It comes back with the disk that it had."""
        self.agent(fault.victim)
        self.end_host(fault.victim)
        return lambda: self.cluster.away.discard(fault.victim)

    @staticmethod
    def freeze(pids):
        processes = [Process(pid) for pid in pids]
        for process in processes:
            process.send(signal.SIGSTOP)

        def thaw():
            for process in processes:
                process.send(signal.SIGCONT)
                process.close()
        return thaw

    def freeze_trainer(self, fault):
        self.agent(fault.victim)
        return self.freeze(self.trainers(fault.victim))

    def freeze_agent(self, fault):
        return self.freeze({self.agent(fault.victim).pid})

    def freeze_host(self, fault):
        return self.freeze(self.of_host(fault.victim))

    def freeze_coordinator(self, _):
        return self.freeze({self.coordinator()})

    def freeze_all(self, _):
        with self.cluster.lock:
            return self.freeze(self.everything())

    # ---- lines: number 0 is the coordinator's

    def cut(self, fault):
        lines, number = self.cluster.lines, fault.victim + 1
        lines.cut(number)
        return lambda: lines.mend(number)

    cut_coordinator = cut

    def cut_one_way(self, fault, way):
        self.cluster.lines.cut_one_way(fault.victim + 1, way)
        return lambda: self.cluster.lines.clear(fault.victim + 1)

    def cut_outward(self, fault):
        return self.cut_one_way(fault, "outward")

    def cut_inward(self, fault):
        return self.cut_one_way(fault, "inward")

    def slow_line(self, fault):
        self.cluster.lines.slow(fault.victim + 1, int(fault.detail.split()[0]))
        return lambda: self.cluster.lines.clear(fault.victim + 1)

    # ---- disks

    def fill(self, folder):
        stack = contextlib.ExitStack()
        stack.enter_context(self.cluster.full(folder))
        return stack.close

    def full_tables(self, fault):
        self.cluster.full_until["coordinator"] = time.monotonic() + fault.seconds + FULL_AFTERWARDS_S
        return self.fill(self.cluster.data_of_coordinator())

    def full_checkpoints(self, _):
        return self.fill(self.cluster.data_of_coordinator() / "checkpoints")

    def full_agent(self, fault):
        self.agent(fault.victim)
        return self.fill(self.cluster.data_of(fault.victim))

    # ---- bytes

    def flip_checkpoint(self, fault):
        """One bit of the newest that is stored, when another one is whole."""
        whole = self.oracle.checkpoints.whole()
        if len(whole) < 2:
            raise Spared("less than two checkpoints are whole")
        paths = self.oracle.checkpoints.files_of(whole[-1])
        path = random.Random(fault.number).choice([one for one in paths if one.name.endswith(".safetensors")])
        with self.cluster.lock:
            if not path.exists():
                raise Spared("it was deleted a moment ago")
            flip(path)
            self.oracle.checkpoints.spoiled(path)

    def flip_on_line(self, fault):
        """Of the next large piece of checkpoint files, up or down; none may come."""
        flipper = self.cluster.flipper
        flipper.direction, flipper.left, before = fault.detail, 1, flipper.flipped

        def undo():
            flipper.left = 0
            self.flips_on_line += flipper.flipped - before
        return undo

    # ---- backups

    def take_backup(self):
        """In a calm. Says what `shoal admin restore-check` has against it."""
        folder = self.cluster.folder / "backup"
        shutil.rmtree(folder, ignore_errors=True)
        self.backup = None
        with self.cluster.lock:  # none of its files is spoiled meanwhile
            chaos_store.admin(self.cluster, "backup", "--data-dir", str(self.cluster.data_of_coordinator()), "--to",
                              str(folder))
        if not self.oracle.checkpoints.any_spoiled():
            done = subprocess.run([str(self.cluster.bin / "shoal"), "admin", "restore-check", str(folder)],
                                  capture_output=True, text=True, timeout=PATIENCE_S)
            if done.returncode != 0:
                self.oracle.say(f"shoal admin restore-check: {done.stderr.strip()}")
        self.backup = folder

    def restore(self, _):
        """As docs/backup.md says; the agents live, or do not."""
        if self.backup is None:
            raise Spared("no backup was taken")
        with self.cluster.lock:
            pid = self.cluster.coordinator.pid
            self.kill({pid})
            self.cluster.coordinator.wait(PATIENCE_S)
            self.oracle.restore_begins()
            chaos_store.put_back(self.cluster, self.backup, True)

    # ---- nodes of a trace

    def move(self, move):
        with self.cluster.lock:
            if move.joins:
                self.cluster.away.discard(move.node)
                self.cluster.start_agent(move.node)
                return
            self.end_host(move.node)
            self.cluster.agents[move.node] = None
            self.cluster.new_disk(move.node)
