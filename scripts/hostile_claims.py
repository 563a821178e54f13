#!/usr/bin/env python3
"""What an admitted host may claim of the past: nothing that the coordinator did not sign.

    ./dev hostile claims [--hold SECONDS]

A coordinator and two honest agents train a job. A third host joins with the join token (tests/hostile/member.cc) and
returns with states that were never committed: a newer round of the job, a forged signature, a job of its own, ids and
ledgers that no coordinator gives out. After each the job must train on with its replicas, its rounds and its epoch, the
host must get no certificate and no replica, ids of later jobs must be small, and the refusal must be in the events. Then
the coordinator is killed and all is tried again. Exit code 1 when one of these is not so. Needs a finished build.
"""
import argparse
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

from rig import BIN, Cluster, Trouble, end_by_signal, job_text

JOB = job_text("honest", model={"layers": 2, "hidden": 64, "heads": 2, "context": 64},
               data={"tokenizer": "bytes"}, train={"batch": 4, "lr": 1e-3}, sync={"every": 10},
               swarm={"min_replicas": 2})
# What is said, and how it must be answered: "event" by the rules of the coordinator, "wire" before any of them sees it.
CASES = {"newer": "event", "forged": "event", "new-job": "event", "last-id": "event", "beyond-ids": "wire",
         "ledger": "wire", "epoch": "wire", "steps": "wire"}
INVALID_ARGUMENT = 3  # of gRPC
LOST = ("replica_failed", "job_restored", "job_rolled_back", "round_aborted", "agent_gone", "agent_disconnected")


class Claims:
    def __init__(self, cluster, hold):
        self.cluster, self.hold, self.said, self.problems = cluster, hold, 0, []

    def expect(self, good, what):
        if not good:
            self.problems.append(what)

    def member(self, case):
        """What the host heard."""
        replica = self.cluster.get(f"/jobs/{self.cluster.name}/replicas")["items"][0]
        job = self.cluster.get(f"/jobs/{self.cluster.name}")
        spec = self.cluster.folder / "spec.json"
        spec.write_text(json.dumps(job["spec"]))
        self.said += 1
        words = [BIN / "shoal-hostile-member", "claim", "--grpc", self.cluster.grpc, "--enrol", self.cluster.join_at,
                 "--token-file", self.cluster.token, "--folder", self.cluster.folder / f"evil{self.said}", "--name",
                 f"evil-{self.said}", "--job", str(number(job["id"])), "--replica", str(number(replica["id"])),
                 "--round", str(job["status"]["progress"]["rounds_committed"] + 2000), "--spec", spec, "--hold",
                 str(self.hold), case]
        ran = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=60)
        if ran.returncode != 0:
            raise Trouble(f"shoal-hostile-member: {ran.stderr.strip()}")
        return json.loads(ran.stdout.strip().splitlines()[-1])

    def try_case(self, case, how):
        before, seq = self.cluster.get(f"/jobs/{self.cluster.name}"), self.cluster.newest_event()
        heard = self.member(case)
        self.cluster.next_commit()
        after = self.cluster.get(f"/jobs/{self.cluster.name}")
        events = self.cluster.events_after(seq)
        refused = [one for one in events if one["kind"] == "claim_refused"]
        self.expect(heard["keep"] == [], f"{case}: it was told to keep {heard['keep']}")
        self.expect(not heard["certificate"]["certified"], f"{case}: it got a certificate")
        if how == "event":
            self.expect(len(refused) == 1, f"{case}: {len(refused)} events of a refusal")
        else:
            self.expect(heard["status"] == INVALID_ARGUMENT, f"{case}: answered by {heard['status']}")
        lost = [one for one in events if one["kind"] in LOST and "evil" not in one["message"]]
        self.expect(not lost, f"{case}: {[one['message'] for one in lost]}")
        grown = after["status"]["progress"]["rounds_committed"] - before["status"]["progress"]["rounds_committed"]
        self.expect(0 < grown < 1000, f"{case}: the job went on by {grown} rounds")
        names = {job["spec"]["name"] for job in self.cluster.get("/jobs")["items"]}
        self.expect(names <= {"honest", "later"}, f"{case}: there are the jobs {names}")
        print(f"{case:12} {refused[0]['message'] if refused else heard['message']}")

    def next_id(self):
        """Ids are given out as before: nobody has raised them."""
        (self.cluster.folder / "later.toml").write_text(JOB.replace('"honest"', '"later"'))
        for words in (("job", "submit", "later.toml"), ("job", "cancel", "later")):
            done = self.cluster.shoal(*words)
            self.expect(done.returncode == 0, f"{' '.join(words)}: {done.stderr}")
        ids = [number(job["id"]) for job in self.cluster.get("/jobs")["items"]]
        self.expect(max(ids) < 100, f"jobs have the ids {ids}")


def number(text):
    return int(text.rsplit("_", 1)[1])


def main():
    parser = argparse.ArgumentParser(prog="./dev hostile claims", description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("--hold", type=float, default=6, help="seconds for which a false host stays")
    options = parser.parse_args()
    end_by_signal()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="shoal-claims-"))
    cluster = Cluster(folder, 2, JOB)
    claims = Claims(cluster, options.hold)
    try:
        cluster.begin()
        cluster.all_take_part()
        for life in ("", "after a restart of the coordinator"):
            if life:
                print(f"\n{life}")
                cluster.kill(cluster.coordinator)
                cluster.start_coordinator()
                cluster.all_take_part()
            for case, how in CASES.items():
                claims.try_case(case, how)
        claims.next_id()
    except Trouble as trouble:
        sys.exit(f"error: {trouble}; the logs are in {folder}")
    finally:
        cluster.stop()
    for problem in claims.problems:
        print("FAILED: " + problem, file=sys.stderr)
    if claims.problems:
        sys.exit(f"the logs are in {folder}")
    print(f"\n{claims.said} false claims, none believed")
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
