#!/usr/bin/env python3
"""Damages each file of a checkpoint, at each place on its way, and shows that the job resumes from a good one.

    ./dev hostile checkpoints [--only KIND] [--keep]

KIND is a cluster of its own: `builtin` (a whole model), `pipeline` (two stages), `python` (a program), `bucket` (a
whole model whose checkpoints are in an object store; needs Debian's python3-swift and s3cmd). Each file of a part is
deleted, truncated, changed by one bit or replaced by a FIFO, in three phases:

    written    in the agent's folder, before the agent compares it with what the trainer reported: the agent is frozen
    sending    in the agent's folder, after the comparison: the coordinator is frozen
    stored     where it is stored, while the job is paused

Of a file that is damaged on its way the part fails, the event names the file, no older checkpoint is deleted, and a
later one is stored. A file that had been sent already is stored as it was, which `shoal checkpoint verify` shows. With
a damaged stored checkpoint the job resumes from the one before, the damaged one is set aside, and the event names the
file. In the end every stored checkpoint is verified. Exit code 1 when anything else happened.
"""
import argparse
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from chaos_data import ObjectStore
from chaos_lab import flip
from hostile_faults import MODEL, PYTHON, why_not
from rig import PATIENCE_S, Cluster, Trouble, end_by_signal, job_text, send

POLL_S = 0.0005  # a trainer writes its files within some 20 ms
WIDE = MODEL.replace("(8, 16)", "(8, 50_000)").replace("(16, 1)", "(50_000, 1)")
SIZES = {"layers": 2, "hidden": 128, "heads": 2, "context": 32}


def deleted(path):
    path.unlink()


def truncated(path):
    os.truncate(path, path.stat().st_size // 2)


def replaced_by_fifo(path):
    path.unlink()
    os.mkfifo(path)


DAMAGES = {"deleted": deleted, "truncated": truncated, "flipped": flip, "fifo": replaced_by_fifo}


def job_of(kind):
    more = {"trainer": {"kind": "python", "entry": "wide.py"}} if kind == "python" else {}
    if kind == "pipeline":
        more = {"swarm": {"stages": 2, "min_replicas": 1}}
    return job_text(kind, model=SIZES, train={"batch": 2, "seed": 1}, sync={"every": 4},
                    checkpoint={"every_rounds": 1, "keep": 3}, **more)


class Damage:
    def __init__(self, folder, kind):
        self.kind, self.problems, self.counts = kind, [], {}
        flags, self.store = [], None
        if kind == "bucket":
            self.store = ObjectStore(folder / "store")
            self.store.start()
            flags = ["--store-credentials", self.store.key, "--checkpoint-store", self.store.url("kept"),
                     "--insecure-http"]
        agent_flags = ["--trainer-root", folder / "programs", "--python", PYTHON]
        agents = 2 if kind == "pipeline" else 1
        self.cluster = Cluster(folder, agents, job_of(kind), coordinator_flags=flags, agent_flags=agent_flags)

    # ---- what the cluster says

    def say(self, turn, text):
        self.problems.append(f"{self.kind}: {turn}: {text}")

    def events(self, seq, kind):
        return [one["message"] for one in self.cluster.events_after(seq) if one["kind"] == kind]

    def stored(self):
        listed = self.cluster.get(f"/jobs/{self.cluster.name}/checkpoints?limit=100&order=desc")["items"]
        return sorted((one["round"], one["id"]) for one in listed if one["state"] == "stored")

    def next_stored(self, count=1):
        """Waits for a checkpoint of a round that no stored one has now."""
        last = max(self.stored(), default=(0, ""))[0]
        self.cluster.until(lambda: sum(one[0] > last for one in self.stored()) >= count, "no checkpoint is stored")

    def newest_files(self):
        """The files of the newest stored checkpoint."""
        newest = self.stored()[-1][1]
        return sorted(one["path"] for one in self.cluster.get(f"/checkpoints/{newest}")["files"])

    # ---- on its way

    def written_now(self):
        """The folders that trainers have begun to write; agents delete them after the upload."""
        return {one: number for number in range(self.cluster.count)
                for one in self.cluster.data_of(number).glob("written/rep_*/ckpt_*")}

    def freeze_while_written(self, phase, name):
        """Waits until a trainer writes a part that has the file. Returns the process that is frozen, and the path."""
        end = time.monotonic() + PATIENCE_S
        known = self.written_now()
        while time.monotonic() < end:
            for folder, number in self.written_now().items():
                if folder in known:
                    continue
                frozen = self.cluster.agents[number] if phase == "written" else self.cluster.coordinator
                send(frozen.pid, signal.SIGSTOP)
                if self.is_written(folder, name):
                    return frozen, folder / name
                send(frozen.pid, signal.SIGCONT)  # the part of another stage, or it is gone already
                known[folder] = number
            known = {one: number for one, number in known.items() if one.exists()}
            time.sleep(POLL_S)
        raise Trouble(f"no trainer writes {name}")

    @staticmethod
    def is_written(folder, name):
        """The part file comes last."""
        end = time.monotonic() + 5
        while time.monotonic() < end and folder.exists():
            if any(folder.glob("part-*.json")):
                time.sleep(0.3)  # the agent has compared it, unless it is frozen
                return (folder / name).exists()
            time.sleep(0.01)
        return False

    def on_its_way(self, phase, name, how):
        turn, seq = f"{phase} {name} {how}", self.cluster.newest_event()
        frozen, path = self.freeze_while_written(phase, name)
        before = {one for _, one in self.seen_stored}
        try:
            DAMAGES[how](path)
        except FileNotFoundError:  # it was sent and deleted
            pass
        send(frozen.pid, signal.SIGCONT)
        checkpoint = path.parent.name.split(".")[0]  # ckpt_7.1 is the part of stage 1
        self.cluster.until(lambda: any(checkpoint in one for kind in ("checkpoint_failed", "checkpoint_stored")
                                       for one in self.events(seq, kind)), f"{turn}: {checkpoint} does not end")
        failed = [one for one in self.events(seq, "checkpoint_failed") if checkpoint in one]
        self.count(phase, bool(failed))
        if failed and name not in failed[0]:
            self.say(turn, f"the event does not name the file: {failed[0]}")
        if not failed:  # the damage came after the file was sent
            self.verify(turn, checkpoint)
        self.nothing_older_is_lost(turn, before)

    def nothing_older_is_lost(self, turn, before):
        """Older ones go only when newer ones are stored: the `keep` of the job is always there."""
        now = self.stored()
        lost = before - {one for _, one in now}
        newer = sum(one not in before for _, one in now)
        if len(lost) > newer:
            self.say(turn, f"{sorted(lost)} are gone, and only {newer} newer ones are stored")
        self.next_stored()
        self.seen_stored = self.stored()

    def count(self, phase, failed):
        done, found = self.counts.get(phase, (0, 0))
        self.counts[phase] = done + 1, found + failed

    def verify(self, turn, checkpoint):
        done = self.cluster.shoal("checkpoint", "verify", checkpoint)
        if done.returncode != 0 and checkpoint in {one for _, one in self.stored()}:
            self.say(turn, f"{checkpoint} is stored with a damaged file: {done.stdout}{done.stderr}")

    # ---- where it is stored

    def pause(self):
        self.shoal("job", "pause", self.cluster.name)
        self.cluster.until(lambda: self.cluster.status()["phase"] == "paused", "the job does not pause")

    def shoal(self, *words):
        done = self.cluster.shoal(*words)
        if done.returncode != 0:
            raise Trouble(f"shoal {' '.join(words)}: {done.stderr}")
        return done.stdout

    def damage_stored(self, checkpoint, name, how):
        if self.store is None:
            return DAMAGES[how](self.cluster.data_of_coordinator() / "checkpoints" / checkpoint / name)
        place = f"s3://shoal/kept/{checkpoint}/{name}"
        local = self.cluster.folder / "object"
        self.s3("get", "--force", place, local)
        if how == "deleted":
            return self.s3("del", place)
        DAMAGES[how](local)
        return self.s3("put", local, place)

    def s3(self, *words):
        if not (self.store.folder / "s3cmd").exists():
            self.store.put("other", [self.store.ready])  # it writes the file of settings
        done = subprocess.run(["s3cmd", "-c", self.store.folder / "s3cmd", *map(str, words)], capture_output=True,
                              text=True, timeout=PATIENCE_S)
        if done.returncode != 0:
            raise Trouble(f"s3cmd {words[0]}: {done.stderr}")

    def where_it_is_stored(self, name, how):
        turn = f"stored {name} {how}"
        self.pause()
        *older, (_, newest) = self.stored()
        seq = self.cluster.newest_event()
        self.damage_stored(newest, name, how)
        self.shoal("job", "resume", self.cluster.name)
        self.next_round(turn)
        failed = [one for one in self.events(seq, "checkpoint_failed") if newest in one]
        self.count("stored", bool(failed))
        if not failed or name not in failed[0]:
            self.say(turn, f"no event checkpoint_failed names {newest} and the file: {failed}")
        if not older:
            self.say(turn, "there was no older checkpoint")
        for message in self.events(seq, "job_rolled_back"):
            if "initial parameters" in message:
                self.say(turn, message)
        self.next_stored(2)

    def next_round(self, turn):
        first = self.cluster.committed()
        try:
            self.cluster.until(lambda: self.cluster.status()["phase"] == "training" and
                               self.cluster.committed() != first, "it does not train")
        except Trouble as trouble:
            self.say(turn, str(trouble))
            raise

    # ---- all of it

    def run(self, phases):
        self.cluster.begin()
        self.next_stored(3)
        self.seen_stored = self.stored()
        names = self.newest_files()
        print(f"{self.kind}: {', '.join(names)}", flush=True)
        for phase in phases:
            begin = time.monotonic()
            for name in names:
                for how in DAMAGES:
                    if phase != "stored":
                        self.on_its_way(phase, name, how)
                    elif not (self.store and how == "fifo"):
                        self.where_it_is_stored(name, how)
            done, found = self.counts[phase]
            if found < done / 2:
                self.say(phase, f"only {found} of {done} damages came in time")
            print(f"{self.kind}: {phase}: {done} damages, {found} parts or checkpoints failed, "
                  f"{time.monotonic() - begin:.0f} s", flush=True)
        self.pause()
        for _, checkpoint in self.stored():
            self.shoal("checkpoint", "verify", checkpoint)
        print(f"{self.kind}: {len(self.stored())} stored checkpoints verified", flush=True)

    def stop(self):
        self.cluster.stop()
        if self.store is not None:
            self.store.kill()


def attack(folder, kind, phases):
    (folder / "programs").mkdir(parents=True)
    (folder / "programs" / "wide.py").write_text("BAD = -1\n" + WIDE)
    damage = Damage(folder, kind)
    try:
        damage.run(phases)
    finally:
        damage.stop()
    return damage.problems


def main():
    parser = argparse.ArgumentParser(prog="./dev hostile checkpoints", description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("--only", choices=("builtin", "pipeline", "python", "bucket"), help="one kind of cluster")
    parser.add_argument("--phase", choices=("written", "sending", "stored"), help="one phase")
    parser.add_argument("--keep", action="store_true", help="keep the folder of data and logs")
    options = parser.parse_args()
    end_by_signal()
    kinds = [options.only] if options.only else ["builtin", "pipeline", "python", "bucket"]
    if "python" in kinds and (why := why_not()):
        print("skipped python: " + why)
        kinds.remove("python")
    folder, problems = pathlib.Path(tempfile.mkdtemp(prefix="shoal-hostile-checkpoints-")), []
    phases = [options.phase] if options.phase else ["written", "sending", "stored"]
    for kind in kinds:
        try:
            problems += attack(folder / kind, kind, phases)
        except Trouble as trouble:
            problems.append(f"{kind}: {trouble}")
    for problem in problems:
        print("FAILED: " + problem, file=sys.stderr)
    if problems or options.keep:
        print(f"the logs are in {folder}", file=sys.stderr)
    else:
        shutil.rmtree(folder)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
