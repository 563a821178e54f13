"""Mirrors the rounds of a job to the boards that people already look at.

    python3 -m shoal.mirror JOB --tensorboard DIR
    python3 -m shoal.mirror JOB --wandb PROJECT --follow
    python3 -m shoal.mirror JOB --mlflow http://127.0.0.1:5000 --follow

Reads the REST API alone: it runs on any host that reaches the coordinator, beside the job or long after it, and what
happens to it does not touch the job. Each committed round becomes one point, at the inner step with which it ended;
numbers that a program logs (run.log) become points of their own, log.NAME, at the steps at which they were logged.
Ran before for the same job and board, it continues with the round after the last one (a small file below
$XDG_STATE_HOME/shoal/mirror says which). Address, token and CA are those of `shoal`: options, SHOAL_ADDR,
SHOAL_TOKEN_FILE, SHOAL_TOKEN, SHOAL_CA, or what `shoal up` and `shoal login` keep (from Python 3.11 on). Boards are the packages tensorboard, wandb and mlflow of PyPI; only the
one that is named must be installed. wandb follows its own environment: WANDB_MODE=offline keeps the run on this host.
"""
import argparse
import datetime
import importlib
import json
import os
import pathlib
import ssl
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

PAGE = 200
POINTS = 10_000  # of a series, in one answer
LOGGED = "log."
LIMIT_S = 30
DEFAULT_ADDRESS = "http://127.0.0.1:7070"
ENDED = ("completed", "cancelled", "failed")


class Trouble(Exception):
    """A sentence for the person at the terminal."""


class Api:
    """The REST API of a coordinator."""

    def __init__(self, address, token="", ca=None):
        self.address, self.token = address.rstrip("/"), token
        self.trust = ssl.create_default_context(cafile=ca) if self.address.startswith("https:") else None

    def get(self, path):
        headers = {"Authorization": "Bearer " + self.token} if self.token else {}
        request = urllib.request.Request(f"{self.address}/api/v1{path}", headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=LIMIT_S, context=self.trust) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as refusal:
            raise Trouble(f"{self.address} refuses {path}: {self.detail_of(refusal)}") from refusal
        except (OSError, ValueError) as failure:
            raise Trouble(f"no coordinator answers at {self.address}: {failure} (--addr names another one)") from failure

    @staticmethod
    def detail_of(refusal):
        try:
            return json.load(refusal).get("detail") or refusal.reason
        except ValueError:
            return refusal.reason

    def job(self, name):
        return self.get("/jobs/" + urllib.parse.quote(name, safe=""))

    def rounds_after(self, job, last):
        """The committed rounds of a job after `last`, an (epoch, round) or None, the oldest first."""
        found, cursor = [], ""
        while True:
            page = self.get(f"/jobs/{job}/rounds?order=desc&limit={PAGE}{cursor}")
            for one in page["items"]:
                if last is not None and (one["epoch"], one["round"]) <= last:
                    return found[::-1]
                if one["state"] == "committed":
                    found.append(one)
            if page["next_cursor"] is None:
                return found[::-1]
            cursor = "&cursor=" + urllib.parse.quote(page["next_cursor"])


    def logged(self, job, after, until):
        """(step, time, values) of what programs logged at the steps from `after` on, `until` among them; the mean over
        the replicas."""
        points = {}
        for name in (one["name"] for one in self.get(f"/jobs/{job}/series")["items"]):
            if not name.startswith(LOGGED):
                continue
            query = urllib.parse.urlencode({"name": name, "x": "step", "from": after + 1, "to": until,
                                            "max_points": POINTS})
            for line in self.get(f"/jobs/{job}/series/query?{query}")["series"]:
                for step, value, at in zip(line["x"], line["y"], line["time"]):
                    points.setdefault(int(step), (at, {}))[1][name] = value
        return [(step, *points[step]) for step in sorted(points)]


def values_of(one):
    """What boards show of a round; names as in the API. What is not known is left out."""
    took = one["seconds"].get("total")
    values = {"round": one["round"], "epoch": one["epoch"], "tokens": one["tokens"], "train_loss": one["train_loss"],
              "validation_loss": one["validation_loss"], "outer_lr": one["outer_lr"], "bytes_sent": one["bytes_sent"],
              "bytes_received": one["bytes_received"], "compute_utilisation": one["compute_utilisation"],
              "members": sum(part["state"] == "committed" for part in one["contributions"]),
              "round_seconds": took, "tokens_per_second": one["tokens"] / took if took else None}
    return {name: float(value) for name, value in values.items() if value is not None}


def flat(value, name=""):
    """A job's spec as names with dots."""
    if not isinstance(value, dict):
        return {name: value}
    found = {}
    for key, inner in value.items():
        found.update(flat(inner, f"{name}.{key}" if name else key))
    return found


def unix_s(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def needed(package):
    try:
        return importlib.import_module(package)
    except ImportError as missing:
        name = package.split(".")[0]
        raise Trouble(f"{missing} (python3 -m pip install {name})") from missing


class TensorBoard:
    """Event files in a folder."""

    def __init__(self, folder, job):
        self.writer = needed("tensorboard.summary").Writer(str(pathlib.Path(folder) / job["name"]))

    def add(self, step, at, values):
        for name, value in values.items():
            self.writer.add_scalar(f"shoal/{name}", value, step, wall_time=at)

    def keep(self):
        self.writer.flush()

    def end(self, phase):
        self.writer.close()


class Wandb:
    """A run of Weights & Biases. A job has one run; its id is that of the job."""

    def __init__(self, project, job):
        self.run = needed("wandb").init(project=project, id=f"shoal-{job['id']}-{int(unix_s(job['created_at']))}",
                                        name=job["name"], resume="allow", config=flat(job["spec"]))
        self.run.define_metric("inner_step")
        self.run.define_metric("*", step_metric="inner_step")

    def add(self, step, at, values):
        self.run.log({**values, "inner_step": step, "at": at})

    def keep(self):
        """It keeps what it is given by itself."""

    def end(self, phase):
        self.run.finish(exit_code=0 if phase == "completed" else 1)


class MLflow:
    """A run of MLflow in the experiment "shoal", found again by its tag."""

    def __init__(self, address, job):
        mlflow = needed("mlflow")
        self.entities = needed("mlflow.entities")
        self.client = mlflow.MlflowClient(tracking_uri=address)
        experiment = self.client.get_experiment_by_name("shoal")
        number = experiment.experiment_id if experiment else self.client.create_experiment("shoal")
        tag = f"{job['id']}@{job['created_at']}"
        runs = self.client.search_runs([number], f"tags.`shoal.job` = '{tag}'")
        self.run = (runs[0] if runs else
                    self.client.create_run(number, run_name=job["name"], tags={"shoal.job": tag})).info.run_id
        if not runs:
            parameters = [self.entities.Param(name, str(value)) for name, value in flat(job["spec"]).items()]
            self.client.log_batch(self.run, params=parameters)

    def add(self, step, at, values):
        metrics = [self.entities.Metric(name, value, int(at * 1000), step) for name, value in values.items()]
        self.client.log_batch(self.run, metrics=metrics)

    def keep(self):
        """The server has it."""

    def end(self, phase):
        self.client.set_terminated(self.run, {"completed": "FINISHED", "cancelled": "KILLED"}.get(phase, "FAILED"))


class Place:
    """Which round a board has last, and up to which inner step what programs logged: (epoch, round, step), in a file
    that is written whole."""

    def __init__(self, job, board):
        state = os.environ.get("XDG_STATE_HOME") or pathlib.Path.home() / ".local" / "state"
        name = urllib.parse.quote(f"{job['id']}-{job['created_at']}-{board}", safe="")
        self.file = pathlib.Path(state) / "shoal" / "mirror" / (name[-200:] + ".json")

    def read(self):
        try:
            epoch, number, *step = json.loads(self.file.read_text())
            return epoch, number, step[0] if step else 0
        except FileNotFoundError:
            return None
        except (TypeError, ValueError) as damage:
            raise Trouble(f"{self.file} is damaged: {damage} (delete it: all rounds are sent again)") from damage

    def write(self, last):
        self.file.parent.mkdir(parents=True, exist_ok=True)
        partial = self.file.with_suffix(".new")
        partial.write_text(json.dumps(last))
        partial.replace(self.file)


def mirror(api, job, board, place, ended=False):
    """Sends what is new. Returns how many rounds that were.

    What was logged waits for the round after it, because the last of it may be on its way; not when the job has ended.
    """
    known = place.read()
    epoch, number, step = known or (0, 0, 0)
    new = api.rounds_after(job["id"], known and (epoch, number))
    if not new and not ended:
        return 0
    if new and new[0]["epoch"] > epoch:
        step = min(step, new[0]["from_step"])  # the job went back
    until = new[-1]["from_step"] if new and not ended else 2**53
    logged = api.logged(job["id"], step, until)
    for point in logged:
        board.add(*point)
    for one in new:
        board.add(one["to_step"], unix_s(one["committed_at"]), values_of(one))
    if new or logged:
        board.keep()
        epoch, number = (new[-1]["epoch"], new[-1]["round"]) if new else (epoch, number)
        place.write((epoch, number, max([step, *(point[0] for point in logged)])))
    return len(new)


def saved_login(address):
    """What `shoal login` keeps of the cluster at this address, or of the current one: addr, token or token_file, ca."""
    try:
        import tomllib
    except ImportError:  # Python 3.10
        return {}
    folder = os.environ.get("XDG_CONFIG_HOME") or pathlib.Path.home() / ".config"
    try:
        saved = tomllib.loads((pathlib.Path(folder) / "shoal/config.toml").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    contexts = saved.get("contexts", {})
    if not address and saved.get("current") in contexts:
        return contexts[saved["current"]]
    address = address or DEFAULT_ADDRESS
    return next((one for one in contexts.values() if one.get("addr") == address.rstrip("/")), {})


def api_of(options):
    login = saved_login(options.addr)
    token, file = os.environ.get("SHOAL_TOKEN", ""), options.token_file
    if not file and not token:
        token, file = login.get("token", ""), login.get("token_file")
    if file:
        try:
            token = pathlib.Path(file).read_text(encoding="utf-8").strip()
        except OSError as failure:
            raise Trouble(f"the token cannot be read: {failure}") from failure
    return Api(options.addr or login.get("addr", DEFAULT_ADDRESS), token, options.ca or login.get("ca"))


def parse(arguments):
    parser = argparse.ArgumentParser(prog="python3 -m shoal.mirror", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("job", help="name or id")
    board = parser.add_mutually_exclusive_group(required=True)
    board.add_argument("--tensorboard", metavar="DIR", help="event files, in a folder of the job's name below it")
    board.add_argument("--wandb", metavar="PROJECT", help="a run of Weights & Biases")
    board.add_argument("--mlflow", metavar="URI", help="a run in the experiment `shoal` of this tracking server or folder")
    parser.add_argument("--follow", action="store_true", help="until the job has ended")
    parser.add_argument("--every", type=float, default=5, metavar="S", help="how often to look, with --follow [5]")
    parser.add_argument("--addr", default=os.environ.get("SHOAL_ADDR"),
                        help=f"of the coordinator [that of `shoal login`, else {DEFAULT_ADDRESS}]")
    parser.add_argument("--ca", default=os.environ.get("SHOAL_CA"), help="file with the CAs that are believed")
    parser.add_argument("--token-file", default=os.environ.get("SHOAL_TOKEN_FILE"),
                        help="file with a token of the scope viewer [that of `shoal login`]")
    return parser.parse_args(arguments)


def run(options):
    api = api_of(options)
    job = api.job(options.job)
    kind, target = next((kind, getattr(options, kind)) for kind in ("tensorboard", "wandb", "mlflow")
                        if getattr(options, kind))
    board = {"tensorboard": TensorBoard, "wandb": Wandb, "mlflow": MLflow}[kind](target, job)
    place, count = Place(job, f"{kind}-{target}"), 0
    while True:
        phase = api.job(job["id"])["status"]["phase"]  # before the rounds: the last one is among them then
        count += mirror(api, job, board, place, phase in ENDED)
        if not options.follow or phase in ENDED:
            break
        time.sleep(options.every)
    if phase in ENDED:
        board.end(phase)
    print(f"{count} rounds of {job['name']} mirrored", file=sys.stderr)


def main():
    try:
        run(parse(sys.argv[1:]))
    except Trouble as trouble:
        sys.exit(f"shoal.mirror: {trouble}")
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
