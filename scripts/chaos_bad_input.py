"""The scenario bad-input of chaos.py: what is put wrong, case by case, and what must come of it. The promises are those
of docs/bad_input.md; chaos_lab.py has what cases are made of."""
import contextlib
import os
import random
import re
import shutil
import sqlite3
import time

import chaos_store
from chaos_lab import FAKETIME, IS_ROOT, BitFlipper, HostsCluster, Lab, flip, hashes
from rig import PATIENCE_S, Trouble

CASES = {}  # name: (function, what it needs)
RESTORE = "backup"  # the remedy of a damaged database


def case(name, needs=""):
    def register(function):
        CASES[name] = (function, needs)
        return function
    return register


def unusable(needs):
    """Why not here; empty: it can be tried."""
    if needs == "root" and not IS_ROOT:
        return "needs root"
    return "needs libfaketime" if needs == "faketime" and not FAKETIME else ""


# ---- checkpoints


def damaged_checkpoint(lab, damage, *names):
    """The newest is damaged when all that lives is gone: the one before it serves, nothing is deleted."""
    newest = lab.until_stored(2)
    lab.end_agents()
    newest = lab.newest_checkpoint()
    damage(newest)
    kept = hashes(newest)
    lab.start_agents()
    lab.told("checkpoint_failed", newest.name, "set aside", *names)
    lab.trains()
    lab.expect(hashes(newest) == kept, f"files of {newest.name} were changed")
    lab.expect({one["id"]: one["state"] for one in lab.checkpoints()}[newest.name] == "failed", "it still counts")
    lab.expect(all("initial parameters" not in one for one in lab.events("job_rolled_back")), "it started over")


@case("checkpoint-bit")
def _(lab):
    damaged_checkpoint(lab, lambda folder: flip(folder / "model.safetensors"), "model.safetensors", "SHA-256")


@case("checkpoint-short")
def _(lab):
    damaged_checkpoint(lab, lambda folder: os.truncate(folder / "outer.safetensors", 1000),
                       "outer.safetensors", "shorter")


@case("checkpoint-missing")
def _(lab):
    damaged_checkpoint(lab, lambda folder: (folder / "model.safetensors").unlink(), "model.safetensors", "missing")


def download_refused(lab, change, *names):
    newest = lab.until_stored()
    spoiled = newest / "model.safetensors"
    whole = spoiled.read_bytes()
    change(spoiled)
    try:
        lab.refused([*lab.cluster.command_line(), "checkpoint", "download",
                     newest.name, "-o", lab.cluster.folder / f"download-{newest.name}"], 1, "model.safetensors", *names)
    finally:
        spoiled.write_bytes(whole)


@case("download-bit")
def _(lab):
    download_refused(lab, flip, "SHA-256", "another checkpoint")


@case("download-short")
def _(lab):
    download_refused(lab, lambda path: os.truncate(path, 1000), "1000 bytes", "another checkpoint")


def unknown_checkpoint(lab, damage, *names):
    """The database is put back to where it does not know the newest checkpoint, whose manifest is damaged."""
    lab.until_stored()
    backup = chaos_store.back_up(lab.cluster)
    lab.until_stored(2)
    lab.end_agents()
    newest = lab.newest_checkpoint()
    lab.cluster.kill(lab.cluster.coordinator)
    damage(newest)
    kept = hashes(newest)
    for name in chaos_store.FILES:
        (lab.cluster.data_of_coordinator() / name).unlink(missing_ok=True)
    shutil.copytree(backup, lab.cluster.data_of_coordinator(), dirs_exist_ok=True)
    lab.cluster.start_coordinator()
    lab.seq = 0
    lab.start_agents()
    lab.told("checkpoint_failed", newest.name, "not used", *names)
    lab.trains()
    lab.expect(hashes(newest) == kept, f"files of {newest.name} were changed")
    lab.expect(any("continuing from ckpt_" in one for one in lab.events("job_restored")), "no older one was taken")


@case("manifest-bit")
def _(lab):
    def damage(folder):
        manifest = folder / "manifest.json"
        flip(manifest, re.search(rb'"round": \d*(\d)', manifest.read_bytes()).start(1))
    unknown_checkpoint(lab, damage, "digest")


@case("manifest-missing")
def _(lab):
    unknown_checkpoint(lab, lambda folder: (folder / "manifest.json").unlink(), "manifest.json", "No such file")


@case("manifest-future")
def _(lab):
    unknown_checkpoint(lab, lambda folder: lab.rewrite(folder / "manifest.json", lambda one: one.update(version=99)),
                       "manifest.json", "newer")


@case("manifest-absurd")
def _(lab):
    def change(manifest):
        manifest.pop("digest", None)
        manifest.update(version=1, round=2**62, step=-4)
    unknown_checkpoint(lab, lambda folder: lab.rewrite(folder / "manifest.json", change), "numbers")


@case("manifest-of-another")
def _(lab):
    def damage(folder):
        others = [one for one in folder.parent.iterdir() if one != folder and (one / "manifest.json").exists()]
        shutil.copy2(others[0] / "manifest.json", folder / "manifest.json")
    unknown_checkpoint(lab, damage, "another checkpoint")


def flipped_on_the_line(lab, direction):
    host, port = lab.cluster.grpc.rsplit(":", 1)
    line = BitFlipper((host, int(port)), direction)
    numbers = range(lab.cluster.count)
    lab.cluster.via = {f"agent{number}": line.address for number in numbers}
    if direction == "down":
        lab.until_stored()
    lab.end_agents()
    line.left = 1 if direction == "down" else 0
    lab.start_agents()
    if direction == "up":
        lab.everybody_back()
        line.left = 1
    kind = "checkpoint_failed" if direction == "up" else "replica_failed"
    lab.told(kind, "safetensors", "SHA-256")
    lab.until_stored()
    lab.trains()
    lab.cluster.via = {}
    lab.end_agents()
    lab.start_agents()
    line.door.close()


@case("line-bit-up")
def _(lab):
    flipped_on_the_line(lab, "up")


@case("line-bit-down")
def _(lab):
    flipped_on_the_line(lab, "down")


# ---- the database: each on a copy, beside the cluster


def database(name, *names, changes=True):
    def register(damage):
        def attempt(lab):
            folder = lab.backup()
            damage(folder)
            kept = hashes(folder)
            lab.refused(lab.coordinator_on(folder), 1, str(folder / "state.db"), *names)
            now = hashes(folder)
            lab.expect({one: now.get(one) for one in kept if one != "telemetry.db"} ==
                       {one: kept[one] for one in kept if one != "telemetry.db"}, "files were changed")
        CASES["database-" + name] = (attempt, "")
        return damage
    return register


@database("header", RESTORE)
def _(folder):
    flip(folder / "state.db", 3)


@database("page", "damaged", RESTORE)
def _(folder):
    path = folder / "state.db"
    content = bytearray(path.read_bytes())
    page = len(content) // 8192 * 4096
    content[page:page + 4096] = random.Random(1).randbytes(4096)
    path.write_bytes(bytes(content))


@database("short", RESTORE)
def _(folder):
    os.truncate(folder / "state.db", (folder / "state.db").stat().st_size // 2)


@database("emptied", "empty", RESTORE)
def _(folder):
    (folder / "telemetry.db").write_bytes(b"")
    os.truncate(folder / "state.db", 0)


@database("text", "not a database", RESTORE)
def _(folder):
    (folder / "state.db").write_text("no database\n" * 1000)


@database("folder", "folder", RESTORE)
def _(folder):
    (folder / "state.db").unlink()
    (folder / "state.db").mkdir()


def execute(folder, statement):
    connection = sqlite3.connect(folder / "state.db")
    connection.execute(statement)
    connection.commit()
    connection.close()


@database("of-others", "not one of Shoal", "--data-dir")
def _(folder):
    (folder / "state.db").unlink()
    execute(folder, "CREATE TABLE theirs (a)")


@database("future", "schema version 9999", "newer shoal-coordinator")
def _(folder):
    execute(folder, "PRAGMA user_version = 9999")


@case("database-value")
def _(lab):
    folder = lab.backup()
    execute(folder, "UPDATE jobs SET phase = 'uraining'")
    lab.refused(lab.coordinator_on(folder), 1, "jobs.phase", "uraining", RESTORE)


@case("database-locked")
def _(lab):
    """By a program that writes: the coordinator ends, and continues when it is started again."""
    other = sqlite3.connect(lab.cluster.data_of_coordinator() / "state.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    ended(lab, "locked", "other programs")
    other.execute("ROLLBACK")
    other.close()
    goes_on(lab)


def ended(lab, *names):
    """The coordinator, by itself, with 1 and one sentence."""
    coordinator = lab.cluster.coordinator
    lab.expect(coordinator.wait(PATIENCE_S) == 1, f"exit code {coordinator.returncode}, not 1")
    lines = (lab.cluster.folder / "coordinator.log").read_text().splitlines()
    lab.says(lines[-1], *names)


def goes_on(lab):
    lab.cluster.start_coordinator()
    lab.trains()
    lab.never_rolled_back()


def log_of(lab, action, restores):
    """The write-ahead log after a kill, with live agents: what it held comes back from them."""
    lab.trains(1)
    newest = lab.cluster.committed()
    lab.cluster.kill(lab.cluster.coordinator)
    action(lab.cluster.data_of_coordinator() / "state.db-wal")
    lab.cluster.start_coordinator()
    lab.seq = 0
    if restores:
        lab.told("job_restored", "database is older")
    with contextlib.suppress(Trouble):
        lab.cluster.until(lambda: lab.cluster.committed() > newest, "no newer round")
    lab.expect(lab.cluster.committed() > newest, f"round {newest} was committed, now it is {lab.cluster.committed()}")
    lab.never_rolled_back()


@case("log-bit")
def _(lab):
    log_of(lab, lambda path: flip(path, path.stat().st_size // 3), False)


@case("log-lost")
def _(lab):
    log_of(lab, lambda path: path.unlink(), True)


@case("telemetry-damaged")
def _(lab):
    """Charts are disposable: they start over, the file is set aside."""
    lab.cluster.coordinator.terminate()  # in order: nothing is left in its write-ahead log
    lab.cluster.coordinator.wait(PATIENCE_S)
    (lab.cluster.data_of_coordinator() / "telemetry.db").write_text("no database\n" * 1000)
    goes_on(lab)
    aside = lab.cluster.data_of_coordinator() / "telemetry.db.damaged"
    lab.expect(aside.exists() and aside.read_text().startswith("no database"), "it was not set aside")
    warned = [one for one in (lab.cluster.folder / "coordinator.log").read_text().splitlines() if "charts" in one]
    lab.says(warned[-1] if warned else "", "telemetry.db", "damaged")


# ---- disks


@case("full-at-start", "root")
def _(lab):
    folder = lab.cluster.data_of_coordinator() / "spare"
    shutil.copytree(lab.backup(), folder)
    with lab.cluster.full(lab.cluster.data_of(0)):
        lab.refused(lab.coordinator_on(lab.cluster.data_of(0) / "new"), 1, "No space left", "free space")
    shutil.rmtree(folder)


@case("full-tables", "root")
def _(lab):
    with lab.cluster.full(lab.cluster.data_of_coordinator()):
        ended(lab, "full", "free space")
    goes_on(lab)


@case("full-checkpoints", "root")
def _(lab):
    with lab.cluster.full(lab.cluster.data_of_coordinator() / "checkpoints"):
        lab.told("checkpoint_failed", "was not stored", "free space")
        lab.expect(lab.reason() == "checkpoint_failing", f"the reason is {lab.reason()}")
        lab.trains()
    lab.until_stored()
    lab.never_rolled_back()


@case("full-agents", "root")
def _(lab):
    with contextlib.ExitStack() as stack:
        for number in range(lab.cluster.count):
            stack.enter_context(lab.cluster.full(lab.cluster.data_of(number)))
        lab.told("checkpoint_failed", "No space left", "free some")
        lab.cluster.kill(lab.cluster.agents[0])
        lab.cluster.start_agent(0)
        lab.trains()
    lab.until_stored()
    lab.never_rolled_back()


@case("full-download", "root")
def _(lab):
    newest = lab.until_stored()
    with lab.cluster.full(lab.cluster.data_of(0)):
        lab.refused([*lab.cluster.command_line(), "checkpoint", "download",
                     newest.name, "-o", lab.cluster.data_of(0) / "download"], 1, "cannot be written", "make room")


@case("read-only-at-start", "root")
def _(lab):
    folder = lab.backup()
    with lab.cluster.read_only(folder):
        lab.refused(lab.coordinator_on(folder), 1, str(folder), "Read-only file system", "--data-dir")
        lab.refused([lab.cluster.bin / "shoal-agent", "--coordinator", lab.cluster.grpc, "--join-token",
                     lab.cluster.token, "--enrol", lab.cluster.http, "--data-dir", folder / "agent", "--devices", "cpu:1"], 1, "Read-only",
                    "--data-dir")


@case("read-only-database", "root")
def _(lab):
    folder = lab.backup()
    with lab.cluster.read_only(folder / "state.db"):
        lab.refused(lab.coordinator_on(folder), 1, str(folder / "state.db"), "cannot be written", "read-only")


@case("read-only-checkpoints", "root")
def _(lab):
    with lab.cluster.read_only(lab.cluster.data_of_coordinator() / "checkpoints"):
        lab.told("checkpoint_failed", "Read-only", "make it writable", limit=20)
        lab.trains()
    lab.until_stored()
    lab.never_rolled_back()


@case("read-only-agent", "root")
def _(lab):
    """Its agent cannot start; its trainer waits, and is found when the disk is mended."""
    trainers = lab.cluster.trainers(0)
    lab.cluster.kill(lab.cluster.agents[0])
    with lab.cluster.read_only(lab.cluster.data_of(0)):
        lab.cluster.start_agent(0)
        lab.expect(lab.cluster.agents[0].wait(PATIENCE_S) == 1, f"exit code {lab.cluster.agents[0].returncode}, not 1")
    lab.says((lab.cluster.folder / "agent0.log").read_text().splitlines()[-1], "Read-only", "--data-dir")
    lab.cluster.start_agent(0)
    lab.everybody_back()
    lab.expect(lab.cluster.trainers(0) == trainers, "the trainer was lost")
    lab.never_rolled_back()


# ---- clocks


def jumping(lab, who, restart):
    """An hour on, an hour back, and right again, in a process that is started with such a clock."""
    lab.cluster.clock_of(who).write_text("+0\n")
    lab.cluster.faked.add(who)
    restart()
    lab.trains(1)
    for jump in ("+3600", "-3600", "+0"):
        lab.cluster.clock_of(who).write_text(jump + "\n")
        lab.trains(3, limit=60)
    lab.cluster.faked.discard(who)
    restart()
    lab.trains()
    lab.never_rolled_back()
    for kind in ("agent_gone", "replica_failed", "round_aborted"):
        for message in lab.events(kind):
            lab.expect(False, message)
    text = (lab.cluster.folder / f"{who}.log").read_text().splitlines()
    lab.message = f"none; {len(lab.events('round_committed'))} rounds committed"
    return text


@case("clock-coordinator", "faketime")
def _(lab):
    def restart():
        lab.cluster.kill(lab.cluster.coordinator)
        lab.cluster.start_coordinator()
    hours = {line[:13] for line in jumping(lab, "coordinator", restart) if line[:2] == "20"}
    lab.expect(len(hours) >= 3, f"the clock did not jump: {sorted(hours)}")
    times = [one["at"] for one in lab.cluster.events_after(lab.seq)]
    lab.expect(times == sorted(times), "the times of events are not in order")


@case("clock-agent", "faketime")
def _(lab):
    def restart():
        lab.cluster.kill(lab.cluster.agents[0])
        lab.cluster.start_agent(0)
    jumping(lab, "agent0", restart)


# ---- data files


def other_data(lab, victims, change, kind, *names):
    """Agents whose file is another one load it again: each is refused by name, the others train on."""
    texts = {number: lab.cluster.text_of(number).read_bytes() for number in victims}
    for number in victims:
        for pid in lab.cluster.trainers(number):
            os.kill(pid, 9)
        lab.cluster.kill(lab.cluster.agents[number])
        change(lab.cluster.text_of(number), number)
        lab.cluster.start_agent(number)
    try:
        for number in victims:
            lab.told("replica_failed", f"agent-{number} ", kind, *names)
        lab.trains()
    finally:
        for number, text in texts.items():
            lab.cluster.text_of(number).write_bytes(text)
    lab.never_rolled_back()
    for number in victims:
        lab.cluster.kill(lab.cluster.agents[number])
        lab.cluster.start_agent(number)


@case("data-bit", "root")
def _(lab):
    other_data(lab, [0], lambda path, _: flip(path), "data_invalid", "another file", "put the same file there")


@case("data-shorter", "root")
def _(lab):
    other_data(lab, [0], lambda path, _: os.truncate(path, path.stat().st_size - 1000), "data_invalid", "another file")


@case("data-longer", "root")
def _(lab):
    other_data(lab, [0], lambda path, _: path.write_bytes(path.read_bytes() + b"more"), "data_invalid", "another file")


@case("data-empty", "root")
def _(lab):
    other_data(lab, [0], lambda path, _: os.truncate(path, 0), "data_missing", "is empty")


@case("data-two-hosts", "root")
def _(lab):
    other_data(lab, [0, 1], lambda path, number: flip(path, 1000 + number), "data_invalid", "another file")


@case("data-cut", "root")
def _(lab):
    """While it is trained on."""
    path = lab.cluster.text_of(0)
    text = path.read_bytes()
    os.truncate(path, 1000)
    lab.told("replica_failed", "agent-0 ", "data_missing", "was cut to 1000")
    lab.trains()
    path.write_bytes(text)
    lab.cluster.kill(lab.cluster.agents[0])
    lab.cluster.start_agent(0)
    lab.never_rolled_back()


@case("data-nowhere", "root")
def _(lab):
    """When all that lives is gone, nobody has the file: the job waits, and continues when it is back."""
    lab.until_stored()
    lab.end_agents()
    texts = [lab.cluster.text_of(number) for number in range(lab.cluster.count)]
    text = texts[0].read_bytes()
    for path in texts:
        os.truncate(path, 0)
    lab.start_agents()
    lab.cluster.until(lambda: lab.reason() == "data_missing", "no reason is given")
    status = lab.cluster.status()
    lab.expect(status["phase"] == "stalled", f"the job is {status['phase']}")
    lab.says(status["detail"], "is empty", "asked again")
    for path in texts:
        path.write_bytes(text)
    lab.trains()
    lab.expect(lab.cluster.committed() > 2, "it started over")


class BadInputLab(Lab):
    def run(self, name):
        begin = time.monotonic()
        CASES[name][0](self)
        return {"case": name, "seconds": round(time.monotonic() - begin, 1), "says": self.message[:400],
                "broken": self.broken}


def make_cluster(folder, agents, job, flags, programs):
    return HostsCluster(folder, agents, job, None, flags, ["--speed", "0.1"], programs)
