#!/usr/bin/env python3
"""Runs every line of the tables of docs/swarm_results.md in the pipeline simulator and draws its plots.

    scripts/swarm_results.py [--from SEED] [--seeds N]   runs all, rewrites docs/swarm_results.json
    scripts/swarm_results.py --plots                     draws docs/images/swarm_*.svg from that file
    scripts/swarm_results.py --tables                    prints it as the tables of docs/swarm_results.md

Needs build/bin/shoal-sim and nothing but Python's library. Every number is the mean over the seeds; the
command that gives it stands beside it in the file.
"""
import argparse
import json
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs" / "swarm_results.json"

UNEQUAL = "--agents 32 --microbatches 512 --window 256 --rtt 50"
FAILING = ("--agents 64 --stages 8 --microbatches 1024 --forward 200 --backward 600 --rtt 50"
           " --steps 10")
SCHEDULES = ["swarm", "2bw", "gpipe", "gpipe_blocking", "1f1b"]

# table -> (what all rows share, row -> its flags, column -> its flags)
TABLES = {
    "latency": ("", {str(ms): f"--rtt {ms}" for ms in (0, 10, 50, 100, 200, 500)},
                {name: f"--schedule {name}" for name in SCHEDULES}),
    "unequal": (UNEQUAL, {s: f"--speeds {s}" for s in ("1", "1,.5", "1,.25", "4,1,1,1", "1,1,.5,.25")},
                {"swarm": "", "2bw": "--schedule 2bw", "cold": "--cold",
                 "response_time": "--response-time", "gpipe": "--schedule gpipe",
                 "gpipe_blocking": "--schedule gpipe_blocking", "1f1b": "--schedule 1f1b",
                 "sorted_chains": "--schedule sorted_chains"}),
    "failures": (FAILING + " --window 512", {str(h): f"--mtbf {h}" for h in (96, 48, 24, 8, 4, 1)},
                 {"swarm": "", "2bw": "--schedule 2bw", "gpipe": "--schedule gpipe",
                  "gpipe_blocking": "--schedule gpipe_blocking"}),
    "membership": ("--fluid", {"400 8 8": "--agents 400 --stages 8 --life 8",
                               "400 4 8": "--agents 400 --stages 4 --life 8",
                               "400 16 24": "--agents 400 --stages 16 --life 24",
                               "400 32 24": "--agents 400 --stages 32 --life 24",
                               "100 8 24": "--agents 100 --stages 8 --life 24"},
                   {"moves": "", "no_moves": "--every 0", "random": "--every 0 --join-random",
                    "no_download": "--download 0"}),
    "retries": (FAILING + " --window 256 --mtbf 24", {"24": ""},
                {"swarm": "", "naive_10s": "--naive-timeout 10", "naive_5s": "--naive-timeout 5 --seeds 3"}),
}


def run(flags):
    command = ["swarm", *flags.split(), "--json"]
    out = subprocess.run([ROOT / "build/bin/shoal-sim", *command], check=True, capture_output=True,
                         text=True).stdout
    return "shoal-sim " + " ".join(command), json.loads(out)


def run_all(first, count):
    results = []  # written after each table
    for table, (shared, rows, columns) in TABLES.items():
        for row, row_flags in rows.items():
            for column, column_flags in columns.items():
                flags = f"--from {first} --seeds {count} {shared} {row_flags} {column_flags}"
                command, measured = run(flags)
                results.append({"table": table, "row": row, "column": column, "command": command,
                                "measured": measured})
                print(table, row, column, measured.get("fraction", measured.get("of_optimum")),
                      flush=True)
        RESULTS.write_text("[\n" + ",\n".join(json.dumps(r) for r in results) + "\n]\n")


def load(table):
    cells = {}
    for r in json.loads(RESULTS.read_text()):
        if r["table"] == table:
            cells[r["row"], r["column"]] = r["measured"]
    return cells


def print_tables():
    for table, (_, rows, columns) in TABLES.items():
        cells = load(table)
        extra = ["bound"] if table == "failures" else []
        print(f"\n| {table} | " + " | ".join([*columns, *extra]) + " |")
        print("|---" * (len(columns) + len(extra) + 1) + "|")
        for row in rows:
            values = [cells[row, c].get("fraction", cells[row, c].get("of_optimum")) for c in columns]
            values += [cells[row, "swarm"][e] for e in extra]
            print(f"| {row} | " + " | ".join(f"{v:.4f}" if table == "membership" else f"{v:.3f}"
                                             for v in values) + " |")


# ---- plots: plain SVG, readable on light and on dark pages

NAMES = {"swarm": "swarm", "2bw": "2bw", "gpipe": "GPipe, overlapped", "gpipe_blocking": "GPipe, blocking",
         "1f1b": "1F1B", "response_time": "response time as weight", "sorted_chains": "sorted chains",
         "cold": "no benchmark at joining"}
STYLE = """<style>
text { font: 12px system-ui, sans-serif; fill: #24292f } .grid { stroke: #d0d7de }
.s0 { --c: #0b6bcb } .s1 { --c: #117a3d } .s2 { --c: #b35900 } .s3 { --c: #8b3fc4 } .s4 { --c: #6e7781 }
.line { fill: none; stroke-width: 2; stroke: var(--c) } .mark { fill: var(--c) }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .grid { stroke: #30363d }
.s0 { --c: #58a6ff } .s1 { --c: #3fb950 } .s2 { --c: #f0a050 } .s3 { --c: #c297ff } .s4 { --c: #9aa4af } }
</style>"""
WIDTH, HEIGHT, LEFT, TOP, BOTTOM, RIGHT = 640, 320, 52, 36, 44, 180


def y_of(value):
    return TOP + (1 - value) * (HEIGHT - TOP - BOTTOM)


def frame(title, x_title, labels):
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
             f"<title>{title}</title>", STYLE, f'<text x="{LEFT}" y="18">{title}</text>']
    for tenth in range(0, 11, 2):
        y = y_of(tenth / 10)
        parts.append(f'<line class="grid" x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{tenth / 10:.1f}</text>')
    for x, label in labels:
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{label}</text>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text x="{middle}" y="{HEIGHT - 8}" text-anchor="middle">{x_title}</text>')
    return parts


def legend(parts, index, name):
    y = TOP + 10 + 20 * index
    parts.append(f'<g class="s{index}"><circle class="mark" cx="{WIDTH - RIGHT + 20}" cy="{y}" r="5"/></g>')
    parts.append(f'<text x="{WIDTH - RIGHT + 32}" y="{y + 4}">{NAMES[name]}</text>')


def plot(file, table, columns, title, x_title):
    """Rows at equal distances, one line per column; the first column lies on top."""
    cells, rows = load(table), list(TABLES[table][1])
    step = (WIDTH - RIGHT - LEFT) / len(rows)
    xs = [LEFT + step * (i + 0.5) for i in range(len(rows))]
    parts = frame(title, x_title, zip(xs, rows))
    for index, column in reversed(list(enumerate(columns))):
        points = [(x, y_of(cells[row, column]["fraction"])) for x, row in zip(xs, rows)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<g class="s{index}"><polyline class="line" points="{path}"/>')
        parts += [f'<circle class="mark" cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>' for x, y in points]
        parts.append("</g>")
        legend(parts, index, column)
    (ROOT / "docs" / "images" / file).write_text("\n".join([*parts, "</svg>"]) + "\n")


def plot_all():
    plot("swarm_latency.svg", "latency", SCHEDULES, "Fraction of compute-ideal, 16 equal agents, 4 stages",
         "round trip, ms")
    plot("swarm_unequal.svg", "unequal", ["swarm", "sorted_chains", "gpipe", "response_time", "1f1b"],
         "Fraction of compute-ideal, 32 unequal agents, 4 stages", "speeds, cycled over the agents")
    plot("swarm_failures.svg", "failures", ["swarm", "2bw", "gpipe", "gpipe_blocking"],
         "Fraction of compute-ideal, 64 agents, 8 stages", "mean life of an agent, hours")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--from", dest="first", type=int, default=101)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--plots", action="store_true")
    parser.add_argument("--tables", action="store_true")
    args = parser.parse_args()
    if not args.plots and not args.tables:
        run_all(args.first, args.seeds)
    if args.tables:
        print_tables()
    else:
        plot_all()


main()
