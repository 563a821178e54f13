"""The coordinator's tables from outside: copies, digests, backups, which sequences were trained, and by whom."""
import json
import shutil
import sqlite3
import subprocess

from rig import PATIENCE_S, Trouble

FILES = ("state.db", "state.db-wal", "state.db-shm")


def copy_of(cluster):
    """A copy of the tables of a coordinator that has ended: reading them would write to the original."""
    folder = cluster.folder / "copy"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name in FILES[:2]:
        if (cluster.data_of_coordinator() / name).exists():
            shutil.copy2(cluster.data_of_coordinator() / name, folder / name)
    return folder


def read(folder, statement, *values):
    connection = sqlite3.connect(folder / "state.db")
    try:
        return connection.execute(statement, values).fetchall()
    finally:
        connection.close()


def complaints(folder, told):
    """What is not sound, and what somebody was told that is not there."""
    found = [f"integrity_check: {line}" for line, in read(folder, "PRAGMA integrity_check") if line != "ok"]
    (committed,), = read(folder, "SELECT max(committed_round) FROM jobs")
    (event,), = read(folder, "SELECT max(seq) FROM events")
    jobs = {f"job_{number}" for number, in read(folder, "SELECT id FROM jobs")}
    if committed < told["round"]:
        found.append(f"round {told['round']} was told, the tables have {committed}")
    if event < told["event"]:
        found.append(f"event {told['event']} was told, the tables have {event}")
    if missing := told["jobs"] - jobs:
        found.append(f"jobs {sorted(missing)} were taken and are not there")
    return found


def digest_of(cluster, folder):
    done = subprocess.run([str(cluster.bin / "shoal-coordinator"), "--check-store", "--data-dir", str(folder)],
                          capture_output=True, text=True, timeout=PATIENCE_S)
    if done.returncode != 0:
        raise Trouble("shoal-coordinator --check-store: " + done.stderr)
    return json.loads(done.stdout)["digest"]


def admin(cluster, *arguments):
    done = subprocess.run([str(cluster.bin / "shoal"), "admin", *arguments], capture_output=True, text=True,
                          timeout=PATIENCE_S)
    if done.returncode != 0:
        raise Trouble(f"shoal admin {arguments[0]}: {done.stderr}")


def back_up(cluster):
    """With the command of docs/backup.md, and proved with the other one."""
    backup = cluster.folder / "backup"
    shutil.rmtree(backup, ignore_errors=True)
    admin(cluster, "backup", "--data-dir", str(cluster.data_of_coordinator()), "--to", str(backup))
    admin(cluster, "restore-check", str(backup))
    return backup


def runs(text):
    """[first, end) of each lease of a JSON list."""
    return [(one["first"], one["first"] + one["count"]) if isinstance(one, dict) else (one[0], one[0] + one[1])
            for one in json.loads(text)]


def sequences(rows):
    return {sequence for text, in rows for first, end in runs(text) for sequence in range(first, end)}


def trained(folder, after=0):
    """Sequences that committed rounds after `after` trained: leased to their contributions, and not given back."""
    leased = sequences(read(folder, "SELECT c.leases FROM contributions c JOIN rounds r USING (job, epoch, round) "
                            "WHERE r.state = 'committed' AND c.state = 'committed' AND round > ?", after))
    return leased - sequences(read(folder, "SELECT returned FROM jobs"))


def put_back(cluster, backup, keep_checkpoints):
    """As docs/backup.md says; or onto a disk of which the checkpoints are lost, too.

    Returns the newest round of the tables that go, and what they trained."""
    old = copy_of(cluster)
    (newest,), = read(old, "SELECT max(committed_round) FROM jobs")
    done = trained(old)
    folder = cluster.data_of_coordinator()
    for name in FILES:
        (folder / name).unlink(missing_ok=True)
    if not keep_checkpoints:
        shutil.rmtree(folder / "checkpoints", ignore_errors=True)
    shutil.copytree(backup, folder, dirs_exist_ok=True)
    return newest, done


def trained_twice(cluster, before, newest):
    connection = sqlite3.connect(f"file:{cluster.data_of_coordinator()}/state.db?mode=ro", uri=True)
    try:
        rows = connection.execute("SELECT leases FROM contributions WHERE round > ? AND state = 'committed'",
                                  (newest,)).fetchall()
    finally:
        connection.close()
    twice = sorted(before & sequences(rows))
    return [f"{len(twice)} sequences were trained twice, {twice[0]} the first of them"] if twice else []


def newest_on_disk(cluster):
    """The round of the newest checkpoint that is whole on the coordinator's disk, recorded or not."""
    manifests = (cluster.data_of_coordinator() / "checkpoints").glob("*/manifest.json")
    return max((json.loads(one.read_text())["round"] for one in manifests), default=0)


def contributions_of(cluster, first, last):
    """To the rounds from `first` to `last`, by the name of the agent."""
    names = {agent["id"]: agent["name"] for agent in cluster.get("/agents")["items"]}
    work = {}
    for number in range(first, last + 1):
        for part in cluster.get(f"/jobs/{cluster.name}/rounds/{number}")["contributions"]:
            work.setdefault(names[part["agent"]], []).append(part)
    return work
