"""Makes JSON lines of Parquet and CSV files, for `shoal dataset prepare` and `shoal tokenizer train`.

    python3 -m shoal.convert part-*.parquet -o pages.jsonl
    python3 -m shoal.convert table.csv -o pages.jsonl.gz --column text --skip-bad-lines

Each row becomes an object with the columns as keys. What a file is, its first bytes say; tables are told by their
name (.csv, .tsv, also with .gz) or by --delimiter. Numbers of Parquet stay numbers, and those that are not finite
become null; times become text; bytes must be UTF-8. All values of a table are text, as they are written there. Rows
are read in batches, so that memory does not grow with the file (but for pandas, which reads a Parquet file whole).
Parquet needs the package pyarrow or pandas; nothing else needs more than Python. The output is complete or not there.
"""
import argparse
import contextlib
import csv
import gzip
import json
import math
import os
import sys

BATCH_ROWS = 1024
FIELD_BYTES = 1 << 30  # of a table; Python's own limit is 128 KiB
MISSING = ("NAType", "NaTType")  # of pandas
SURROGATES = {code: "\ufffd" for code in range(0xD800, 0xE000)}


class Trouble(Exception):
    """A sentence for the person at the terminal."""


class BadRow(Exception):
    """A row that becomes no record, and why."""


def plain(value):
    """What JSON can say of a value of pyarrow, pandas or numpy."""
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, str):
        return value.translate(SURROGATES) if not value.isascii() else value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, (bytes, bytearray, memoryview)):
        try:
            return bytes(value).decode("utf-8")
        except UnicodeDecodeError as failure:
            raise BadRow("it holds bytes that are not UTF-8 (--column leaves columns out)") from failure
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [plain(one) for one in value]
    if type(value).__name__ in MISSING:
        return None
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def chosen(names, columns, path):
    """The columns that are wanted, of those that are there."""
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise Trouble(f"{path} has the column {twice[0]!r} twice: rename one")
    missing = [name for name in columns or () if name not in names]
    if missing:
        raise Trouble(f"{path} has no column {missing[0]!r}, only {', '.join(map(repr, names[:20]))}")
    return columns or names


def rows_of_arrow(parquet, path, columns):
    file = parquet.ParquetFile(path)
    wanted = chosen(list(file.schema_arrow.names), columns, path)
    for batch in file.iter_batches(batch_size=BATCH_ROWS, columns=wanted):
        yield from batch.to_pylist()


def rows_of_pandas(pandas, path, columns):
    frame = pandas.read_parquet(path)
    frame = frame[chosen([str(name) for name in frame.columns], columns, path)]
    for begin in range(0, len(frame), BATCH_ROWS):
        yield from frame.iloc[begin:begin + BATCH_ROWS].to_dict("records")


def rows_of_parquet(path, columns):
    """(number, row) from 1. Whatever the libraries throw is about the file."""
    try:
        try:
            from pyarrow import parquet
            rows = rows_of_arrow(parquet, path, columns)
        except ImportError:
            import pandas
            rows = rows_of_pandas(pandas, path, columns)
        yield from enumerate(rows, 1)
    except Trouble:
        raise
    except ImportError as missing:
        raise Trouble("reading Parquet needs the package pyarrow or pandas: python3 -m pip install pyarrow") from missing
    except Exception as failure:
        raise Trouble(f"{path} cannot be read as Parquet: {' '.join(str(failure).split())}") from failure


def rows_of_table(path, delimiter, columns, packed):
    """(line, row or BadRow). Bytes that are not UTF-8 are seen row by row, so that one does not end the file."""
    opened = gzip.open if packed else open
    with opened(path, "rt", encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        reader = csv.reader(file, delimiter=delimiter, strict=True)
        rows = cells_of(reader, path)
        line, names = next(rows, (0, None))
        if names is None:
            raise Trouble(f"{path} is empty")
        if isinstance(names, BadRow):
            raise Trouble(f"{path}:{line}: {names}")
        wanted = set(chosen(names, columns, path))
        for line, cells in rows:
            if not isinstance(cells, BadRow) and len(cells) != len(names):
                cells = BadRow(f"it has {len(cells)} cells, the first line {len(names)}")
            if isinstance(cells, BadRow):
                yield line, cells
            else:
                yield line, {name: cell for name, cell in zip(names, cells) if name in wanted}


def cells_of(reader, path):
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as failure:
            cells = BadRow(f"it is no row of a table ({failure})")
        except (EOFError, gzip.BadGzipFile, OSError) as failure:
            raise Trouble(f"{path} is truncated or damaged: {failure}") from failure
        if not isinstance(cells, BadRow) and any("\udc80" <= char <= "\udcff" for cell in cells for char in cell
                                                 if not cell.isascii()):
            cells = BadRow("it is not UTF-8 (iconv converts it)")
        if cells:  # a blank line is no row
            yield line, cells


def rows_of(path, options):
    """The rows of a file, whatever it is."""
    try:
        with open(path, "rb") as file:
            head = file.read(8)
            file.seek(max(0, os.fstat(file.fileno()).st_size - 4))
            tail = file.read(4)
    except OSError as failure:
        raise Trouble(f"{path} cannot be read: {failure.strerror}") from failure
    name = path.lower()
    packed = head.startswith(b"\x1f\x8b")
    if head.startswith(b"PAR1") and (tail == b"PAR1" or name.endswith(".parquet")):
        return rows_of_parquet(path, options.column)
    if not head:
        raise Trouble(f"{path} is empty")
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise Trouble(f"{path} is UTF-16: iconv -f UTF-16 -t UTF-8 converts it")
    stem = name[:-3] if packed and name.endswith(".gz") else name
    if stem.endswith((".jsonl", ".ndjson", ".json")):
        raise Trouble(f"{path} holds JSON: `shoal dataset prepare` reads it with --field")
    if name.endswith(".parquet"):
        raise Trouble(f"{path} is no Parquet file: it does not begin with PAR1")
    if not stem.endswith((".csv", ".tsv")) and options.delimiter is None:
        raise Trouble(f"{path} is neither Parquet nor named .csv or .tsv (--delimiter reads it as a table)")
    usual = "\t" if stem.endswith(".tsv") else ","
    return rows_of_table(path, options.delimiter or usual, options.column, packed)


@contextlib.contextmanager
def written(path):
    """A file that is there when all of it was written."""
    if path == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    if os.path.exists(path):
        raise Trouble(f"{path} is there already: name another file, or remove it")
    partial = path + ".partial"
    try:
        opened = gzip.open if path.endswith(".gz") else open
        with opened(partial, "wb") as file:
            yield file
        os.replace(partial, path)
    except OSError as failure:
        raise Trouble(f"{path} cannot be written: {failure.strerror or failure}") from failure
    finally:
        with contextlib.suppress(OSError):
            os.remove(partial)


def convert(options):
    """How many records were written and left out, and the first that was left out."""
    count, skipped, first = 0, 0, ""
    with written(options.output) as out:
        for path in options.files:
            for number, row in rows_of(path, options):
                try:
                    if isinstance(row, BadRow):
                        raise row
                    record = plain(row)
                except BadRow as bad:
                    problem = f"{path}:{number}: {bad}"
                    if not options.skip_bad_lines:
                        raise Trouble(f"{problem}; --skip-bad-lines leaves such rows out") from bad
                    skipped, first = skipped + 1, first or problem
                    continue
                out.write(json.dumps(record, ensure_ascii=False, allow_nan=False).encode("utf-8") + b"\n")
                count += 1
        if count == 0:
            raise Trouble("no row becomes a record" + (f": all {skipped} were left out; the first: {first}" if skipped else ""))
    return count, skipped, first


def parse(arguments):
    parser = argparse.ArgumentParser(prog="python3 -m shoal.convert", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="FILE", help="Parquet or CSV")
    parser.add_argument("-o", "--output", required=True, metavar="FILE",
                        help="the JSON lines, compressed if it ends with .gz; - is stdout")
    parser.add_argument("--column", action="append", metavar="NAME", help="only this one, any number of times [all]")
    parser.add_argument("--delimiter", metavar="C", help="between the cells of a table [, and a tab in .tsv]")
    parser.add_argument("--skip-bad-lines", action="store_true", help="leave out and count rows that become no record")
    options = parser.parse_args(arguments)
    if options.delimiter is not None and len(options.delimiter) != 1:
        parser.error("--delimiter is one character")
    return options


def main(arguments=None):
    csv.field_size_limit(FIELD_BYTES)
    options = parse(sys.argv[1:] if arguments is None else arguments)
    try:
        count, skipped, first = convert(options)
    except Trouble as trouble:
        sys.exit(f"shoal.convert: {trouble}")
    except KeyboardInterrupt:
        sys.exit(130)
    print(f"{count} records" + (f", {skipped} left out; the first: {first}" if skipped else ""), file=sys.stderr)


if __name__ == "__main__":
    main()
