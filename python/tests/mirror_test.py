"""What shoal.mirror sends to a board, and that it sends each round once."""
import http.server
import json
import os
import pathlib
import sys
import tempfile
import threading
import unittest
import urllib.parse
from unittest import mock

from shoal import mirror


def committed(number, epoch=0, **more):
    return {"round": number, "epoch": epoch, "state": "committed", "from_step": 10 * number - 10, "to_step": 10 * number, "tokens": 1000,
            "train_loss": 2.5, "validation_loss": None, "outer_lr": 0.7, "bytes_sent": 5, "bytes_received": 6,
            "compute_utilisation": None, "committed_at": "2026-11-27T03:00:00.500Z", "seconds": {"total": 2.0},
            "contributions": [{"state": "committed"}, {"state": "rejected"}], **more}


JOB = {"id": "job_1", "name": "mine", "created_at": "2026-11-27T02:00:00.000Z",
       "spec": {"name": "mine", "train": {"steps": 5}}, "status": {"phase": "training"}}


class Recorded:
    """A board that keeps what it is given."""

    def __init__(self):
        self.points, self.kept = [], 0

    def add(self, step, at, values):
        self.points.append((step, at, values))

    def keep(self):
        self.kept += 1


class Coordinator(http.server.BaseHTTPRequestHandler):
    """Answers as the REST API does for one job: rounds in pages, the newest first."""

    rounds, logged, page, seen = [], {}, 2, []

    def do_GET(self):
        self.seen.append((self.path, self.headers.get("Authorization")))
        body, status = JOB, 200
        if "/rounds" in self.path:
            start = int(self.path.split("cursor=")[1]) if "cursor=" in self.path else 0
            newest = self.rounds[::-1]
            following = start + self.page
            body = {"items": newest[start:following],
                    "next_cursor": str(following) if following < len(newest) else None}
        elif "/series/query" in self.path:
            query = dict(urllib.parse.parse_qsl(self.path.split("?")[1]))
            steps = [step for step in self.logged[query["name"]] if float(query["from"]) <= step <= float(query["to"])]
            body = {"series": [{"x": steps, "y": [step / 2 for step in steps], "time": [1.5e9 + step for step in steps]}]}
        elif "/series" in self.path:
            body = {"items": [{"name": name} for name in ("train_loss", *self.logged)], "next_cursor": None}
        elif "nobody" in self.path:
            body, status = {"detail": "there is no job nobody"}, 404
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, *arguments):
        """Says nothing."""


class MirrorTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        patched = mock.patch.dict(os.environ, {"XDG_STATE_HOME": folder.name})
        patched.start()
        self.addCleanup(patched.stop)
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Coordinator)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)
        Coordinator.rounds, Coordinator.logged, Coordinator.seen = [], {}, []
        self.api = mirror.Api(f"http://127.0.0.1:{self.server.server_port}", "secret")
        self.board, self.place = Recorded(), mirror.Place(JOB, "recorded")

    def steps(self):
        return [step for step, _, _ in self.board.points]

    def mirror(self, ended=False):
        return mirror.mirror(self.api, JOB, self.board, self.place, ended)

    def test_every_committed_round_comes_once_and_in_order(self):
        Coordinator.rounds = [committed(number) for number in range(1, 6)]
        self.assertEqual(self.mirror(), 5)
        self.assertEqual(self.steps(), [10, 20, 30, 40, 50])
        Coordinator.rounds += [committed(6), {**committed(7), "state": "open"}]
        self.assertEqual(self.mirror(), 1)
        self.assertEqual(self.steps()[-1], 60)
        self.assertEqual(self.mirror(), 0)
        self.assertEqual(self.board.kept, 2)
        self.assertEqual(Coordinator.seen[0][1], "Bearer secret")

    def test_rounds_after_a_rollback_come_again(self):
        Coordinator.rounds = [committed(1), committed(2), committed(3)]
        self.mirror()
        Coordinator.rounds = [committed(1), committed(2, epoch=1)]
        self.assertEqual(self.mirror(), 1)
        self.assertEqual(self.board.points[-1][2]["epoch"], 1)

    def test_what_programs_log_comes_once_a_round_later(self):
        Coordinator.logged = {"log.norm": [4, 9, 14, 19], "log.aux": [4]}
        Coordinator.rounds = [committed(1)]
        self.mirror()
        self.assertEqual(self.steps(), [10])
        Coordinator.rounds.append(committed(2))
        self.mirror()
        self.assertEqual(self.board.points[1:3], [(4, 1.5e9 + 4, {"log.norm": 2.0, "log.aux": 2.0}),
                                                  (9, 1.5e9 + 9, {"log.norm": 4.5})])
        self.assertEqual(self.steps(), [10, 4, 9, 20])
        self.assertEqual(self.mirror(ended=True), 0)
        self.assertEqual(self.steps(), [10, 4, 9, 20, 14, 19])
        self.mirror(ended=True)
        self.assertEqual(len(self.steps()), 6)

    def test_a_place_of_an_older_mirror_is_read(self):
        self.place.write((0, 1))
        Coordinator.rounds = [committed(1), committed(2)]
        self.assertEqual(self.mirror(), 1)

    def test_values_are_those_that_are_known(self):
        values = mirror.values_of(committed(3))
        self.assertEqual(values["train_loss"], 2.5)
        self.assertEqual(values["members"], 1)
        self.assertEqual(values["tokens_per_second"], 500)
        self.assertNotIn("validation_loss", values)

    def test_spec_becomes_names_with_dots(self):
        self.assertEqual(mirror.flat(JOB["spec"]), {"name": "mine", "train.steps": 5})

    def test_trouble_is_one_sentence(self):
        with self.assertRaisesRegex(mirror.Trouble, "there is no job nobody"):
            self.api.job("nobody")
        self.server.shutdown()
        self.server.server_close()
        with self.assertRaisesRegex(mirror.Trouble, "no coordinator answers"):
            self.api.job("mine")
        with self.assertRaisesRegex(mirror.Trouble, "pip install surely_not_there"):
            mirror.needed("surely_not_there")

    def test_a_damaged_file_is_named(self):
        self.place.file.parent.mkdir(parents=True)
        pathlib.Path(self.place.file).write_text("{")
        with self.assertRaisesRegex(mirror.Trouble, "is damaged"):
            self.mirror()


class LoginTest(unittest.TestCase):
    @unittest.skipIf(sys.version_info < (3, 11), "tomllib is there from Python 3.11 on")
    def test_the_cluster_is_that_of_the_commands(self):
        with tempfile.TemporaryDirectory() as folder:
            token = pathlib.Path(folder, "token")
            token.write_text("of the file\n")
            config = pathlib.Path(folder, "shoal/config.toml")
            config.parent.mkdir()
            config.write_text('current = "up"\n[contexts.up]\naddr = "http://127.0.0.1:1"\n'
                              f'token_file = "{token}"\n[contexts.far]\naddr = "https://far:7070"\n'
                              'token = "of far"\n')
            clean = {name: value for name, value in os.environ.items() if not name.startswith("SHOAL_")}
            with mock.patch.dict(os.environ, {**clean, "XDG_CONFIG_HOME": folder}, clear=True):
                def of(*arguments):
                    api = mirror.api_of(mirror.parse(["job", "--wandb", "w", *arguments]))
                    return api.address, api.token
                self.assertEqual(of(), ("http://127.0.0.1:1", "of the file"))
                self.assertEqual(of("--addr", "https://far:7070"), ("https://far:7070", "of far"))
                self.assertEqual(of("--addr", "http://127.0.0.1:2"), ("http://127.0.0.1:2", ""))
                text = config.read_text()
                config.write_text(text.replace("127.0.0.1:1", "127.0.0.1:7070").split("\n", 1)[1])
                self.assertEqual(of(), (mirror.DEFAULT_ADDRESS, "of the file"), "none is chosen")
                config.write_text(text)
                os.environ["SHOAL_TOKEN"] = "mine"
                self.assertEqual(of(), ("http://127.0.0.1:1", "mine"))
                with self.assertRaisesRegex(mirror.Trouble, "cannot be read"):
                    of("--token-file", folder + "/none")


if __name__ == "__main__":
    unittest.main()
