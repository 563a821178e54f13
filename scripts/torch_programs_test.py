#!/usr/bin/env python3
"""Programs of users under the wheel of `./dev wheel`, beside the C++ trainer of the build.

usage: torch_programs_test.py PYTHON [NAME...]

PYTHON has torch, transformers, peft and lightning. Makes a fresh environment in build/torch/fresh that sees
them, installs the wheel into it, and runs each test, or those that are named. `./dev test --torch` runs it.
"""
import pathlib
import random
import shutil
import subprocess
import sys

from programs_rig import cluster, job_file

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build/torch"
FRESH = FOLDER / "fresh"
PROGRAMS = FOLDER / "programs"
TEXT = FOLDER / "text"
PYTHON = FRESH / "bin/python"


def run(*command, **more):
    return subprocess.run([str(part) for part in command], check=True, stdout=subprocess.PIPE, text=True,
                          **more).stdout


def make_environment(python):
    shutil.rmtree(FRESH, ignore_errors=True)
    run(python, "-m", "venv", FRESH)
    theirs = run(python, "-c", "import torch, os; print(os.path.dirname(os.path.dirname(torch.__file__)))").strip()
    ours = run(PYTHON, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    pathlib.Path(ours, "torch.pth").write_text(theirs + "\n")
    wheel, = (ROOT / "build/wheel").glob("*.whl")
    run(PYTHON, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", wheel)
    print("installed", wheel.name, "and found", run(FRESH / "bin/shoal", "--version").strip())


def lay_programs():
    shutil.rmtree(PROGRAMS, ignore_errors=True)
    shutil.copytree(ROOT / "tests/torch", PROGRAMS)
    shutil.copy(ROOT / "examples/python/train.py", PROGRAMS)
    shutil.copytree(ROOT / "tests/golden/transformers/llama3", PROGRAMS / "llama3")
    text = run("bible", "-f", "gen1:1-rev22:21").encode()
    TEXT.write_bytes(text[:1_115_394])  # as long as Tiny Shakespeare


LLAMA = f'''context = 32
layers = 2
hidden = 32
heads = 4
kv_heads = 2
ffn = 48
vocab = 256
head_dim = 12
norm_eps = 1e-6
rope = {{ theta = 500000, scaling = "llama3", factor = 8, low_freq_factor = 1, high_freq_factor = 4, original_context = 16 }}
init = "hf:{FOLDER}/programs/llama3"'''


def expect(good, what):
    print(("ok: " if good else "FAILED: ") + what, flush=True)
    if not good:
        sys.exit(1)


def same_digests(rounds):
    return all(one["digest"] == of_round["digest"] for of_round in rounds if of_round["round"] > 0
               for one in of_round["contributions"] if one["state"] == "committed")


# ---- the tests


def example():
    """The GPT of examples/python by four agents of the wheel; one is killed, one joins."""
    with cluster(FRESH / "bin", FOLDER, PYTHON) as c:
        c.submit("example", job_file("example", TEXT, "train.py", steps=400, every=20))
        c.wait("example", lambda: c.job("example")["status"]["progress"]["rounds_committed"] >= 3, "did not train")
        c.kill_agent(2)
        c.join_agent(5)
        job, rounds = c.finish("example"), c.rounds("example")
        last = [one["agent"] for one in rounds[-1]["contributions"] if one["state"] == "committed"]
        expect(len(last) == 4, f"four agents contributed to the last round, of {len(rounds)}")
        first, end = rounds[0]["train_loss"] or rounds[1]["train_loss"], job["status"]["validation_loss"]
        expect(end < first - 1, f"loss {first:.3f} at first, {end:.3f} held out at the end")
        expect(same_digests(rounds), "all members of each round had the same average")


def same_model():
    """One Llama, from the same weights, by the program and by the C++ trainer."""
    with cluster(ROOT / "build/bin", FOLDER, PYTHON) as c:
        c.submit("cpp", job_file("cpp", TEXT, steps=200, model=LLAMA))
        cpp = c.finish("cpp")["status"]["validation_loss"]
        c.submit("python", job_file("python", TEXT, "llama.py", steps=200))
        python = c.finish("python")["status"]["validation_loss"]
        expect(abs(python / cpp - 1) < 0.01, f"held-out loss {python:.4f}, of the C++ trainer {cpp:.4f}")
        line, = c.get("/jobs/python/series/query?name=log.gradient_norm")["series"]
        expect(len(line["y"]) > 3 and min(line["y"]) > 0, f"the program's own series has {len(line['y'])} points")


def trained_in_parts():
    """LoRA, the Trainer of transformers, Lightning, and ranks with shards."""
    with cluster(FRESH / "bin", FOLDER, PYTHON, agents=2) as c:
        c.submit("whole", job_file("whole", TEXT, "llama.py", steps=40))
        c.finish("whole")
        whole = c.rounds("whole")[-1]["bytes_sent"]
        c.submit("lora", job_file("lora", TEXT, "lora.py", steps=40))
        c.finish("lora")
        adapters = c.rounds("lora")[-1]["bytes_sent"]
        expect(adapters < whole / 8, f"a round sends {whole} bytes of the whole model, {adapters} of its adapters")
        for name in ("trainer", "module"):
            c.submit(name, job_file(name, TEXT, f"{name}.py", steps=60))
            c.finish(name)
            losses = [one["train_loss"] for one in c.rounds(name) if one["train_loss"]]
            expect(losses[-1] < losses[0], f"{name}.py: loss {losses[0]:.3f}, then {losses[-1]:.3f}")


def sharded_ranks():
    """Two replicas of two ranks each, whose parameters lie in shards."""
    with cluster(FRESH / "bin", FOLDER, PYTHON, agents=2) as c:
        c.submit("ranks", job_file("ranks", TEXT, "ranks.py", steps=60))
        c.finish("ranks")
        rounds = c.rounds("ranks")
        expect(all(len(one["contributions"]) == 2 for one in rounds if one["round"] > 0),
               "the coordinator sees two replicas")
        expect(same_digests(rounds), "the averages of all shards agree by digest")
        losses = [one["train_loss"] for one in rounds if one["train_loss"]]
        expect(losses[-1] < losses[0], f"loss {losses[0]:.3f}, then {losses[-1]:.3f}")


def ranks_of_a_dataset():
    """The same, over a dataset of the cluster: within an epoch no window is read twice."""
    chance, shards = random.Random(7), []
    for number in range(3):
        shards.append(FOLDER / f"letters-{number}.txt")
        shards[-1].write_text("".join(chance.choices("abcdefghijklmnopqrstuvwxyz ", k=40_000)))
    with cluster(FRESH / "bin", FOLDER, PYTHON, agents=2) as c:
        c.shoal("dataset", "add", "letters", *shards)
        job = job_file("stored", TEXT, "stored_ranks.py", steps=60)
        c.submit("stored", job.replace(f'train = "{TEXT}"', 'dataset = "letters"'))
        c.finish("stored")
        expect(same_digests(c.rounds("stored")), "the averages agree by digest")
    read = {rank: [line for file in PROGRAMS.glob(f"stored_ranks.py.{rank}.*")
                   for line in file.read_text().splitlines()] for rank in (0, 1)}
    expect(len(read[0]) == len(read[1]) == 60 * 8, f"{len(read[0])} windows by ranks 0, {len(read[1])} by ranks 1")
    expect(len(set(read[0] + read[1])) == 2 * 60 * 8, "every window was read once")


TESTS = {"example": example, "same_model": same_model, "trained_in_parts": trained_in_parts,
         "sharded_ranks": sharded_ranks, "ranks_of_a_dataset": ranks_of_a_dataset}


def main():
    if len(sys.argv) < 2 or set(sys.argv[2:]) - set(TESTS):
        sys.exit(__doc__)
    FOLDER.mkdir(parents=True, exist_ok=True)
    make_environment(sys.argv[1])
    lay_programs()
    for name in sys.argv[2:] or TESTS:
        print(f"== {name}: {TESTS[name].__doc__}", flush=True)
        TESTS[name]()


if __name__ == "__main__":
    main()
