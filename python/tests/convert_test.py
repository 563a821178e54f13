"""What shoal.convert makes of tables and of Parquet, and what it refuses."""
import contextlib
import datetime
import decimal
import gzip
import io
import json
import os
import pathlib
import sys
import tempfile
import types
import unittest
from unittest import mock

from shoal import convert


class Batch:
    def __init__(self, rows):
        self.rows = rows

    def to_pylist(self):
        return self.rows


class ArrowFile:
    """Stands in for pyarrow.parquet.ParquetFile: rows, or what reading them throws."""
    rows, failure = [], None

    def __init__(self, path):
        self.schema_arrow = types.SimpleNamespace(names=list(self.rows[0]) if self.rows else ["text"])

    def iter_batches(self, batch_size, columns):
        for begin in range(0, len(self.rows), batch_size):
            yield Batch([{name: row[name] for name in columns} for row in self.rows[begin:begin + batch_size]])
        if self.failure:
            raise self.failure


class ConvertTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.out = self.folder / "out.jsonl"

    def write(self, name, content):
        path = self.folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    def convert(self, *arguments):
        """The records, and what was said."""
        self.out.unlink(missing_ok=True)
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            convert.main([*arguments, "-o", str(self.out)])
        return [json.loads(line) for line in self.out.read_text(encoding="utf-8").splitlines()], said.getvalue()

    def refused(self, *arguments):
        self.out.unlink(missing_ok=True)
        with self.assertRaises(SystemExit) as ended:
            convert.main([*arguments, "-o", str(self.out)])
        self.assertEqual(os.listdir(self.folder).count("out.jsonl.partial"), 0)
        self.assertFalse(self.out.exists())
        return str(ended.exception)

    def arrow(self, rows=(), failure=None):
        parquet = types.ModuleType("pyarrow.parquet")
        parquet.ParquetFile = type("File", (ArrowFile,), {"rows": list(rows), "failure": failure})
        arrow = types.ModuleType("pyarrow")
        arrow.parquet = parquet
        return mock.patch.dict(sys.modules, {"pyarrow": arrow, "pyarrow.parquet": parquet})

    def test_rows_of_a_table_become_objects(self):
        table = self.write("a.csv", "\ufeffid,text\r\n1,\"two\r\nlines, \"\"quoted\"\"\"\r\n\r\n2,é😀\r\n")
        records, said = self.convert(table)
        self.assertEqual(records, [{"id": "1", "text": 'two\r\nlines, "quoted"'}, {"id": "2", "text": "é😀"}])
        self.assertEqual(said, "2 records\n")

    def test_tables_have_other_delimiters_and_may_be_compressed(self):
        tabs = self.write("a.tsv.gz", gzip.compress(b"a\tb\n1\t2,3\n"))
        self.assertEqual(self.convert(tabs)[0], [{"a": "1", "b": "2,3"}])
        self.assertEqual(self.convert(self.write("x.txt", "a;b\n1;2\n"), "--delimiter", ";")[0], [{"a": "1", "b": "2"}])

    def test_columns_can_be_chosen(self):
        table = self.write("a.csv", "id,text,note\n1,x,y\n")
        self.assertEqual(self.convert(table, "--column", "text")[0], [{"text": "x"}])
        self.assertIn("has no column 'body', only 'id', 'text', 'note'", self.refused(table, "--column", "body"))
        self.assertIn("has the column 'id' twice", self.refused(self.write("b.csv", "id,id\n1,2\n")))

    def test_a_long_cell_is_read(self):
        text = "x" * 1_000_000
        self.assertEqual(self.convert(self.write("a.csv", f"text\n{text}\n"))[0], [{"text": text}])

    def test_bad_rows_are_named_or_skipped_and_counted(self):
        table = self.write("a.csv", b"a,b\n1,2\n3\n\xff,5\n\"6\"x,7\n8,9\n\"cut,")
        self.assertIn("a.csv:3: it has 1 cells, the first line 2; --skip-bad-lines", self.refused(table))
        records, said = self.convert(table, "--skip-bad-lines")
        self.assertEqual(records, [{"a": "1", "b": "2"}, {"a": "8", "b": "9"}])
        self.assertRegex(said, r"^2 records, 4 left out; the first: .*a\.csv:3: it has 1 cells")
        self.assertIn("a.csv:2: it is not UTF-8", self.refused(self.write("a.csv", b"a\n\xe9\n")))

    def test_what_gives_no_record_is_refused(self):
        self.assertIn("no row becomes a record", self.refused(self.write("a.csv", "a,b\n")))
        self.assertIn("all 1 were left out; the first:", self.refused(self.write("a.csv", "a,b\n1\n"), "--skip-bad-lines"))
        self.assertIn("a.csv is empty", self.refused(self.write("a.csv", "")))
        self.assertIn("b.csv is empty", self.refused(self.write("b.csv", "\ufeff")))

    def test_other_files_are_named(self):
        self.assertIn("none.csv cannot be read: No such file", self.refused(str(self.folder / "none.csv")))
        self.assertIn("holds JSON", self.refused(self.write("a.jsonl", "{}")))
        self.assertIn("is UTF-16", self.refused(self.write("a.csv", "a\n1\n".encode("utf-16"))))
        self.assertIn("is neither Parquet nor named", self.refused(self.write("a.bin", "x")))
        self.assertIn("is no Parquet file", self.refused(self.write("a.parquet", "text")))
        self.assertIn("is truncated or damaged", self.refused(self.write("a.csv.gz", gzip.compress(b"a\n" * 9999)[:-9])))

    def test_the_output_is_never_overwritten_and_may_be_compressed(self):
        table = self.write("a.csv", "a\n1\n")
        self.write("b.jsonl", "mine")
        with self.assertRaises(SystemExit) as ended:
            convert.main([table, "-o", str(self.folder / "b.jsonl")])
        self.assertIn("is there already", str(ended.exception))
        packed = self.folder / "c.jsonl.gz"
        with contextlib.redirect_stderr(io.StringIO()):
            convert.main([table, "-o", str(packed)])
        self.assertEqual(gzip.decompress(packed.read_bytes()), b'{"a": "1"}\n')

    def test_parquet_is_told_by_its_bytes_and_read_in_batches(self):
        rows = [{"text": f"t{i}", "n": i} for i in range(2500)]
        file = self.write("pages", b"PAR1\x15\x04PAR1")
        with self.arrow(rows):
            self.assertEqual(self.convert(file)[0], rows)
            self.assertEqual(self.convert(file, "--column", "text")[0], [{"text": row["text"]} for row in rows])

    def test_values_of_parquet_become_json(self):
        values = {"nan": float("nan"), "half": "\ud83d", "when": datetime.date(2026, 1, 2), "price": decimal.Decimal("1.50"),
                  "raw": "é".encode(), "list": [float("inf"), {"k": (1, None)}], "flag": True, "big": 1 << 70}
        with self.arrow([values]):
            record = self.convert(self.write("a.parquet", b"PAR1xPAR1"))[0][0]
        self.assertEqual(record, {"nan": None, "half": "\ufffd", "when": "2026-01-02", "price": "1.50", "raw": "é",
                                  "list": [None, {"k": [1, None]}], "flag": True, "big": 1 << 70})

    def test_bytes_that_are_no_text_are_named(self):
        with self.arrow([{"raw": b"\xff"}, {"raw": b"x"}]):
            file = self.write("a.parquet", b"PAR1xPAR1")
            self.assertIn("a.parquet:1: it holds bytes that are not UTF-8", self.refused(file))
            self.assertEqual(self.convert(file, "--skip-bad-lines")[0], [{"raw": "x"}])

    def test_what_the_library_throws_is_one_sentence(self):
        with self.arrow([{"text": "a"}], ValueError("Couldn't deserialize\nthrift")):
            self.assertIn("a.parquet cannot be read as Parquet: Couldn't deserialize thrift",
                          self.refused(self.write("a.parquet", b"PAR1xPAR1")))

    def test_without_a_package_for_parquet_one_sentence_says_so(self):
        with mock.patch.dict(sys.modules, {"pyarrow": None, "pyarrow.parquet": None, "pandas": None}):
            self.assertEqual(self.refused(self.write("a.parquet", b"PAR1xPAR1")),
                             "shoal.convert: reading Parquet needs the package pyarrow or pandas: "
                             "python3 -m pip install pyarrow")


if __name__ == "__main__":
    unittest.main()
