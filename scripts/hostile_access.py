#!/usr/bin/env python3
"""Shows that a job gets no object of another person.

    ./dev hostile access

ada trains a job that stores a checkpoint, uploads a dataset and code. bob then names each of them in a job of his own:
model.init, train.continue_from, data.dataset by name and by hash, data.mixture, trainer.code; submitted, validated, and
after a restart of the coordinator again. Exit code 1 unless each try gets the answer that an object gets which does not
exist, is counted as `forbidden`, and is in the audit trail. Needs a finished build.
"""
import argparse
import hashlib
import json
import pathlib
import shutil
import sys
import tempfile
import urllib.error
import urllib.request

from rig import WITHOUT_PROXY, Cluster, Trouble, end_by_signal

JOB = """name = "hers"
[model]
family = "llama"
layers = 1
hidden = 32
heads = 2
context = 32
[data]
train = "text.txt"
[train]
steps = 20
warmup = 1
batch = 2
[sync]
every = 10
[checkpoint]
every_rounds = 1
[eval]
every_rounds = 0
"""
PIECE = 1 << 20


class Person:
    """Speaks to the REST side with a token of its own."""

    def __init__(self, cluster, name, scope="submitter"):
        made = cluster.post("/tokens", {"name": name, "scope": scope, "ttl_s": 3600})
        self.cluster, self.name, self.token = cluster, name, made["token"]

    def ask(self, method, path, body=b"", media="application/json"):
        """Status and answer, without what differs in every answer."""
        request = urllib.request.Request(f"http://{self.cluster.http}/api/v1{path}", body or None, method=method,
                                         headers={"Content-Type": media, "Authorization": "Bearer " + self.token})
        try:
            with WITHOUT_PROXY.open(request, timeout=20) as answer:
                status, text = answer.status, answer.read()
        except urllib.error.HTTPError as refused:
            status, text = refused.code, refused.read()
        said = json.loads(text)
        said.pop("request_id", None)
        return status, said

    def post(self, path, body):
        return self.ask("POST", path, json.dumps(body).encode())

    def upload(self, content):
        name = hashlib.sha256(content).hexdigest()
        status, said = self.post("/files", {"sha256": name, "size": len(content)})
        if status >= 300:
            raise Trouble(f"{self.name} cannot announce a file: {said}")
        at = said["received"]
        while not said["complete"]:
            status, said = self.ask("PUT", f"/files/{name}?from={at}", content[at:at + PIECE], "application/octet-stream")
            if status >= 300:
                raise Trouble(f"{self.name} cannot send a file: {said}")
            at = said["received"]
        return name


def add_dataset(person, name):
    text = b"the text of ada, and of nobody else. " * 4000
    shard = person.upload(text)
    chunk = 4096
    hashes = b"".join(hashlib.sha256(text[at:at + chunk]).digest() for at in range(0, len(text), chunk))
    manifest = {"format": 1, "tokens": "bytes", "chunk_bytes": chunk,
                "shards": [{"name": "a.txt", "bytes": len(text), "sha256": shard, "chunks": person.upload(hashes),
                            "max_token": max(text), "max_at": text.index(max(text))}]}
    made = person.upload(json.dumps(manifest).encode())
    status, said = person.post("/datasets", {"name": name, "manifest": made})
    if status != 201:
        raise Trouble(f"the dataset is not taken: {said}")
    return made


def job_with(model=None, data=None, train=None, trainer=None):
    spec = {"name": "his", "model": {"family": "llama", "layers": 1, "hidden": 32, "heads": 2, "context": 32} | (model or {}),
            "data": data or {"train": "text.txt"}, "train": {"steps": 40, "warmup": 1, "batch": 2} | (train or {}),
            "sync": {"every": 10}}
    return spec | ({"trainer": trainer} if trainer else {})


def tries(checkpoint, dataset, manifest, code):
    """What is named, and the job that names it."""
    return {"model.init": (checkpoint, job_with(model={"init": checkpoint})),
            "train.continue_from": (checkpoint, job_with(train={"continue_from": checkpoint})),
            "data.dataset": (dataset, job_with(data={"dataset": dataset})),
            "data.dataset by hash": (manifest, job_with(data={"dataset": f"{dataset}@{manifest}"})),
            "data.mixture": (dataset, job_with(data={"mixture": {dataset: 1}})),
            "trainer.code": (code, job_with(trainer={"kind": "python", "entry": "a.py", "code": "sha256:" + code}))}


def refused_total(cluster):
    request = urllib.request.Request(f"http://{cluster.http}/metrics", headers=cluster.login())
    with WITHOUT_PROXY.open(request, timeout=5) as answer:
        for line in answer.read().decode().splitlines():
            if line.startswith('shoal_refused_total{port="http",reason="forbidden"}'):
                return float(line.split()[-1])
    return 0.0


def compare(cluster, bob, here, nowhere):
    problems = []
    for what, (named, job) in here.items():
        unknown, other = nowhere[what]
        for query in ("", "?dry_run=true"):
            if what == "trainer.code" and query:
                continue  # the code of a dry run is not sent yet, so it names no object
            before = refused_total(cluster)
            status, said = bob.post("/jobs" + query, job)
            counted = refused_total(cluster) - before
            other_status, other_said = bob.post("/jobs" + query, other)
            if status < 400:
                problems.append(f"{what}{query}: taken")
            elif (status, json.dumps(said).replace(named, "X")) != (other_status, json.dumps(other_said).replace(unknown, "X")):
                problems.append(f"{what}{query}: answered {status} {said}, a nonexistent one {other_status} {other_said}")
            elif counted != 1:
                problems.append(f"{what}{query}: counted {counted:g} times")
            print(f"{what + query:32} {status}  {said.get('errors', [{}])[0].get('detail', said.get('detail', ''))[:80]}")
    rows = [row for row in cluster.get("/audit?order=desc&limit=100")["items"] if row["action"] == "refused_object"]
    if not any(row["principal"] == "bob" for row in rows):
        problems.append("the audit trail has no refused_object of bob")
    return problems


def attack(cluster):
    ada, bob = Person(cluster, "ada"), Person(cluster, "bob")
    status, said = ada.ask("POST", "/jobs?folder=" + str(cluster.folder), JOB.encode(), "application/toml")
    if status != 201:
        raise Trouble(f"ada's job is not taken: {said}")

    def stored():
        return [one for one in cluster.get("/jobs/hers/checkpoints")["items"] if one["state"] == "stored"]
    cluster.until(stored, "ada's job stores no checkpoint")
    checkpoint = stored()[-1]["id"]
    manifest, code = add_dataset(ada, "books"), ada.upload(b"print('of ada')")
    here = tries(checkpoint, "books", manifest, code)
    none = hashlib.sha256(b"nothing").hexdigest()
    nowhere = tries("ckpt_999999", "novel", none, none)
    nowhere["data.dataset by hash"] = (none, job_with(data={"dataset": f"books@{none}"}))
    problems = compare(cluster, bob, here, nowhere)
    cluster.kill(cluster.coordinator)
    cluster.start_coordinator()
    return problems + ["after a restart: " + one for one in compare(cluster, bob, here, nowhere)]


def main():
    parser = argparse.ArgumentParser(prog="./dev hostile access", description=__doc__.split("\n\n", 1)[0])
    parser.parse_args()
    end_by_signal()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="shoal-hostile-access-"))
    cluster = Cluster(folder, 1, "")
    try:
        cluster.start_coordinator()
        cluster.start_agent(0)
        (folder / "text.txt").write_text(" ".join(f"{n * n} is {n} times {n}" for n in range(20_000)))
        cluster.until(lambda: cluster.get("/agents")["items"], "the agent does not come")
        problems = attack(cluster)
    except Trouble as trouble:
        sys.exit(f"error: {trouble}; the logs are in {folder}")
    finally:
        cluster.stop()
    for problem in problems:
        print("FAILED: " + problem, file=sys.stderr)
    if problems:
        sys.exit(1)
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
