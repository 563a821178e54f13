#!/usr/bin/env python3
"""GPUs that fall ill while a job trains, with a stand-in for NVIDIA's management library.

    scripts/sick_gpu.py

One agent with three GPUs (agent/host/fake_nvml.cc); trainers wait instead of computing. In this order: a GPU takes a
minute for each question, a GPU reports XID 79 in the middle of a round, the coordinator is killed and starts again,
and the first GPU is missing when the agent starts again. One line for each demand; exit code 1 when one is missed.
Needs a finished build with tests.
"""
import pathlib
import shutil
import signal
import sqlite3
import sys
import tempfile
import time
import urllib.request

from rig import BIN, WITHOUT_PROXY, Cluster, Trouble, end_by_signal, job_text, send

LIBRARY = BIN.parent / "tests" / "libfake_nvml.so"
NAMES = ("a", "b", "c")
XID = 79
JOB = job_text("ill", model={"layers": 2, "hidden": 64, "heads": 2, "context": 64, "vocab": 256},
               train={"batch": 4, "microbatch": 4}, sync={"every": 30}, checkpoint={"every_rounds": 1},
               data={"tokenizer": "bytes"})


class Host(Cluster):
    def __init__(self, folder):
        super().__init__(folder, 1, JOB)
        self.gpus = self.folder / "gpus"
        for name in NAMES:
            (self.gpus / name).mkdir(parents=True)
        self.environment = {"SHOAL_NVML_LIB": str(LIBRARY), "FAKE_NVML_FOLDER": str(self.gpus),
                            "SHOAL_TIMED_STEP_MS": "100"}
        self.missed = 0

    def devices_of(self, number):
        return []

    def flags_of(self, number):
        return ["--trainer", self.bin / "shoal-timed-trainer"]

    def set(self, file, text):
        made = self.gpus / ".new"
        made.write_text(str(text))
        made.rename(self.gpus / file)

    def agent(self):
        return self.get(f"/agents/{self.name_of(0)}")

    def sample(self, uuid):
        return next((one for one in self.agent()["device_samples"] if one["uuid"] == uuid), {})

    def told(self, kind, after):
        return [one["message"] for one in self.events_after(after) if one["kind"] == kind]

    def metrics(self):
        request = urllib.request.Request(f"http://{self.http}/metrics", headers=self.login())
        with WITHOUT_PROXY.open(request, timeout=5) as answer:
            return answer.read().decode()

    def demand(self, holds, words, limit=60):
        begin = time.monotonic()
        try:
            self.until(holds, "", limit)
            print(f"met     {words}: after {time.monotonic() - begin:.0f} s", flush=True)
        except Trouble:
            self.missed += 1
            print(f"MISSED  {words}", flush=True)

    def cordons(self):
        return [one for one in self.agent()["cordoned_devices"]]


def hang(host):
    before = host.committed()
    host.set("b/hang", 60)
    host.demand(lambda: host.sample("GPU-b").get("answer") == "silent", "the GPU that hangs is silent", 90)
    host.demand(lambda: host.committed() >= before + 3, "rounds go on meanwhile")
    host.demand(lambda: all(host.sample(f"GPU-{name}")["answer"] == "whole" for name in "ac"), "the others answer")
    (host.gpus / "b" / "hang").unlink()
    host.demand(lambda: host.sample("GPU-b").get("answer") == "whole", "it answers again once it does not", 150)


def xid(host):
    host.until(lambda: host.status()["progress"]["inner_step"] % 30 in range(5, 15), "no round is open")
    seq, before = host.newest_event(), host.committed()
    host.set("c/xid", XID)
    host.demand(lambda: host.committed() > before, "the round is committed")
    host.demand(lambda: any(one.get("uuid") == "GPU-c" for one in host.cordons()), "the device is cordoned")
    print(f"        {host.cordons()}; {host.told('device_cordoned', seq)}; "
          f"{[(one['kind'], one['message']) for one in host.events_after(seq) if one['severity'] != 'info']}")
    label = f'xid="{XID}"'
    host.demand(lambda: any("xid_last_timestamp" in line and label in line and "GPU-c" in line
                            for line in host.metrics().splitlines()), "the alert's metric has the XID")
    host.demand(lambda: is_in_store(host), "SQLite has the cordon")


def is_in_store(host):
    with sqlite3.connect(f"file:{host.data_of_coordinator() / 'state.db'}?mode=ro", uri=True) as store:
        rows = store.execute("SELECT * FROM agents").fetchall()
    return "GPU-c" in repr(rows)


def restart_coordinator(host):
    cordons = host.cordons()
    before = host.committed()
    host.kill(host.coordinator)
    host.listen = host.http
    host.start_coordinator()
    host.demand(lambda: host.cordons() == cordons, "the cordon is there after a restart of the coordinator")
    host.demand(lambda: host.committed() >= before + 2, "rounds go on after it")


def restart_agent_without_the_first(host):
    devices = {one["uuid"]: one["index"] for one in host.agent()["devices"]}
    host.agents[0].send_signal(signal.SIGTERM)
    host.agents[0].wait(30)
    for process in host.trainers(0):
        send(process, signal.SIGKILL)
    shutil.rmtree(host.gpus / "a")
    host.start_agent(0)
    host.demand(lambda: {one["uuid"] for one in host.agent()["devices"]} == {"GPU-b", "GPU-c"},
                "the agent starts without the first GPU")
    now = {one["uuid"]: one["index"] for one in host.agent()["devices"]}
    print(f"        devices {devices}, then {now}; cordons {host.cordons()}")
    host.demand(lambda: [one["uuid"] for one in host.cordons()] == ["GPU-c"], "the cordon stays with its card")
    before = host.committed()
    host.demand(lambda: host.committed() >= before + 2, "the card that is left trains", 120)


def main():
    end_by_signal()
    if not LIBRARY.exists():
        sys.exit(f"error: {LIBRARY} is missing: build it with `ninja -C build fake_nvml`")
    host = Host(pathlib.Path(tempfile.mkdtemp(prefix="shoal-sick-gpu-")))
    try:
        host.begin()
        host.until(lambda: host.committed() >= 2, "the job does not train")
        for step in (hang, xid, restart_coordinator, restart_agent_without_the_first):
            step(host)
    except Trouble as trouble:
        host.missed += 1
        print(f"MISSED  {trouble}")
    finally:
        host.stop()
    if host.missed:
        sys.exit(f"{host.missed} missed; logs: {host.folder}")
    shutil.rmtree(host.folder)


if __name__ == "__main__":
    main()
