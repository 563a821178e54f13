"""The scenario `data` of chaos.py: everything lies in an object store, and no two agents share a file system.

A dataset of 50 shards (32-bit tokens, 128,256 words) and all checkpoints lie on an S3 server of this host. Each agent
has a mount namespace with a file system of its own in place of the cluster's folder. While one epoch is trained, the
server is killed in the middle of an upload and stays away, files in an agent's cache are cut and flipped, and an agent
is replaced by a new one with an empty disk."""
import collections
import json
import os
import pathlib
import random
import signal
import struct
import subprocess
import time
import urllib.parse

from chaos_oracle import Ledger
from chaos_scenarios import Scenario
from chaos_sight import Tables
from rig import PATIENCE_S, Cluster, Trouble, job_text, send

SERVER = pathlib.Path(__file__).resolve().parent / "s3_server.py"
SHARDS, VOCAB = 50, 128_256
CONTEXT, BATCH = 32, 2
HELD_OUT = 0.1
FETCHED_MAX = 1.1  # times the dataset, by all agents together, in an epoch
DONE_S = 5400
KEY = "[default]\naws_access_key_id = test:tester\naws_secret_access_key = testing\n"


class ObjectStore:
    """The S3 server in a folder; killed, it comes back with its data on its port."""

    def __init__(self, folder):
        self.folder, self.process, self.port = folder, None, "0"
        folder.mkdir(parents=True)
        self.key, self.log, self.ready = folder / "key", folder / "log", folder / "ready"
        self.key.write_text(KEY)
        self.key.chmod(0o600)
        self.log.touch()

    def start(self):
        self.ready.unlink(missing_ok=True)
        with open(self.folder / "server.log", "a", encoding="utf-8") as output:
            self.process = subprocess.Popen(["/usr/bin/python3", SERVER, self.folder / "data", "--port", self.port,
                                             "--ready", self.ready, "--log", self.log], stdout=output, stderr=output,
                                            start_new_session=True)
        end = time.monotonic() + PATIENCE_S
        while not self.ready.exists():
            if self.process.poll() is not None:
                raise Trouble("the S3 server does not start (./dev deps installs python3-swift): "
                              f"{self.folder}/server.log")
            if time.monotonic() > end:
                raise Trouble("the S3 server does not become ready")
            time.sleep(0.1)
        self.port = self.endpoint.rsplit(":", 1)[1]

    @property
    def endpoint(self):
        return self.ready.read_text().strip()

    def kill(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def url(self, path, more=""):
        return f"s3://shoal/{path}?endpoint={self.endpoint}{more}"

    def put(self, path, file):
        host = self.endpoint.removeprefix("http://")
        config = self.folder / "s3cmd"
        config.write_text(f"[default]\naccess_key = test:tester\nsecret_key = testing\nhost_base = {host}\n"
                          f"host_bucket = {host}\nuse_https = False\n")
        done = subprocess.run(["s3cmd", "-c", config, "put", *file, f"s3://shoal/{path}/"], capture_output=True,
                              text=True, timeout=PATIENCE_S)
        if done.returncode != 0:
            raise Trouble("s3cmd: " + done.stderr)

    def requests(self):
        """All that were answered, in that order."""
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def uploads(self):
        """(upload, part) of each part that was taken, (upload, None) of each upload that was completed, in order."""
        taken = []
        for one in self.requests():
            query = dict(urllib.parse.parse_qsl(one["query"]))
            if one["method"] in ("PUT", "POST") and "uploadId" in query and one["status"] == 200:
                taken.append((query["uploadId"], int(query["partNumber"]) if one["method"] == "PUT" else None))
        return taken


class Apart(Cluster):
    """Each agent sees an empty file system of its own where the cluster's folder is; what it is told comes over
    the network or its command line."""

    def __init__(self, store, shard_tokens, *arguments):
        super().__init__(*arguments)
        self.store, self.shard_tokens = store, shard_tokens
        self.coordinator_flags += ["--store-credentials", str(store.key), "--checkpoint-limit-s", "600"]

    def begin(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        self.store.start()
        self.coordinator_flags += ["--checkpoint-store", self.store.url("runs", "&part_mib=5"),
                                   "--data-store", self.store.url("data")]
        self.start_coordinator()
        self.token = pathlib.Path(self.token).read_text().strip()
        for number in range(self.count):
            self.start_agent(number)
        self.add_dataset()
        self.name = self.submit(self.job)

    def add_dataset(self):
        chance, shards = random.Random(7), self.folder / "shards"
        shards.mkdir()
        for number in range(SHARDS):
            tokens = [chance.randrange(VOCAB) for _ in range(self.shard_tokens)]
            (shards / f"{number:02}.bin").write_bytes(struct.pack(f"<{self.shard_tokens}I", *tokens))
        files = sorted(shards.iterdir())
        self.store.put("data", [str(file) for file in files])
        for file in files:
            file.unlink()
        done = self.shoal("dataset", "add", "words", self.store.url("data/"), "--tokens", "uint32", "--credentials",
                          str(self.store.key))
        if done.returncode != 0:
            raise Trouble("the dataset is not taken: " + done.stderr)

    def around(self, program):
        if program != "shoal-agent":
            return []
        return ["unshare", "--mount", "--propagation", "private", "sh", "-ec",
                'mount -t tmpfs none "$0"; cd /; exec "$@"', self.folder]

    def root_of(self, number):
        """The agent's own folder, as this process reaches it."""
        return pathlib.Path(f"/proc/{self.agents[number].pid}/root{self.folder}")

    def cached(self, number):
        return sorted(one for one in (self.root_of(number) / f"agent{number}" / "data_cache").rglob("*")
                      if one.is_file() and one.stat().st_size > 1)

    def replace(self, number):
        """It is gone with its disk; a new one comes."""
        trainers = self.trainers(number)
        self.kill(self.agents[number])
        for pid in trainers:
            send(pid, signal.SIGKILL)
        self.agents.append(None)
        self.start_agent(len(self.agents) - 1)

    def stop(self):
        super().stop()
        self.store.kill()


class Data(Scenario):
    """data: dataset and checkpoints in an object store that goes away, agents that share no file system."""
    needs_round_s = False
    fresh = True

    @staticmethod
    def add_options(parser):
        parser.add_argument("--away", type=float, default=60, help="how long the store is, seconds")
        parser.add_argument("--shard-tokens", type=int, default=131_072,
                            help="of each of the 50 shards; below some 45,000 the dataset is too small for agents to "
                                 "keep to parts of it, and what is fetched is shown, not judged")
        parser.set_defaults(agents=3, every=20)

    @staticmethod
    def problem():
        return "namespaces need root" if os.geteuid() != 0 else ""

    def cluster(self, folder, lines, what):
        per_round = self.options.every * BATCH * self.options.agents
        # The ends of chunks are left out.
        windows = int(SHARDS * self.options.shard_tokens * (1 - HELD_OUT) * 0.95 / CONTEXT)
        job = job_text("data", model={"layers": 1, "hidden": 16, "heads": 2, "context": CONTEXT, "vocab": VOCAB,
                                      "tie_embeddings": True},
                       data={"dataset": "words", "tokenizer": "uint32", "val_fraction": HELD_OUT},
                       train={"steps": windows // per_round * self.options.every, "batch": BATCH, "warmup": 5},
                       sync={"every": self.options.every}, swarm={"min_replicas": 2},
                       checkpoint={"every_rounds": 10, "keep": 2})
        job = job.replace('train = "text.txt"\n', "")
        return Apart(ObjectStore(folder.with_name(folder.name + "-store")), self.options.shard_tokens, folder,
                     self.options.agents, job, None, self.options.coordinator_flag, (), self.options.bin)

    def attempt(self, cluster, what, chance):
        said = list(self.shared(cluster))
        cut_at = self.take_store_away(cluster)
        cluster.next_commit()
        damaged = self.damage(cluster, chance)
        cluster.next_commit()
        cluster.replace(1)
        cluster.until(lambda: cluster.status()["phase"] in ("completed", "failed"), "the job does not end", DONE_S)
        if (status := cluster.status())["phase"] != "completed":
            return {"broken": [f"the job ended as {status['phase']}: {status['detail']}"]}
        sight = Tables(cluster).look()
        said += self.ledger(sight)
        said += self.stored(cluster)
        said += self.resumed(cluster.store, cut_at)
        fetched = self.fetched(cluster.store, SHARDS * self.options.shard_tokens * 4)
        if fetched > FETCHED_MAX and sight.job["lease_unit"] > 0:
            said.append(f"an epoch fetched {fetched:.3f} times the dataset")
        return {"rounds": cluster.committed(), "damaged": damaged, "fetched": round(fetched, 3),
                "parts": sum(part is not None for _, part in cluster.store.uploads()), "broken": said}

    @staticmethod
    def shared(cluster):
        """No agent sees anything but its own folder."""
        for number in range(cluster.count):
            seen = sorted(one.name for one in cluster.root_of(number).iterdir())
            if seen != [f"agent{number}"]:
                yield f"agent-{number} sees {seen}"

    def take_store_away(self, cluster):
        """Within an upload in parts. Returns how much of uploads() was there before."""
        begun = len(cluster.store.uploads())
        cluster.until(lambda: len(cluster.store.uploads()) > begun, "no checkpoint is sent in parts")
        cluster.store.kill()
        taken = len(cluster.store.uploads())
        self.pause(self.options.away)
        cluster.store.start()
        return taken

    @staticmethod
    def damage(cluster, chance):
        """Half of what the first agent has cached: every other file is cut, the others have a byte flipped."""
        files = cluster.cached(0)
        for number, file in enumerate(chance.sample(files, len(files) // 2)):
            data = bytearray(file.read_bytes())
            data[len(data) // 2] ^= 0xFF
            file.write_bytes(data[:len(data) // 2] if number % 2 else data)
        return len(files) // 2

    @staticmethod
    def ledger(sight):
        """Every sequence is trained once, by the tables; and the job never went back."""
        ledger = Ledger(CONTEXT)
        for found in sight.rounds:
            ledger.add(found)
        yield from ledger.complaints(sight)
        if sight.job["epoch"] != 0:
            yield f"the job went back {sight.job['epoch']} times"

    @staticmethod
    def stored(cluster):
        for one in cluster.get("/checkpoints?state=stored")["items"]:
            done = cluster.shoal("checkpoint", "verify", one["id"])
            if done.returncode != 0:
                yield f"{one['id']} is not whole: {done.stdout}{done.stderr}"

    @staticmethod
    def resumed(store, cut_at):
        """What the store had taken of an upload was not sent again."""
        taken = store.uploads()
        twice = {one for one, count in collections.Counter(taken).items() if count > 1 and one[1] is not None}
        if twice:
            yield f"{len(twice)} parts were sent twice, {min(twice)} the first of them"
        if not {upload for upload, _ in taken[:cut_at]} & {upload for upload, _ in taken[cut_at:]}:
            yield "no upload was continued: all were whole when the store went away"

    @staticmethod
    def fetched(store, whole):
        """Times the dataset, over all agents, after it was added."""
        sent = sum(one["sent"] for one in store.requests()
                   if one["method"] == "GET" and one["path"].startswith("/shoal/data/"))
        return (sent - whole) / whole  # once by `dataset add`, to hash it
