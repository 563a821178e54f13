#!/usr/bin/env python3
"""What the CUDA kernels cost on paper: reads the machine code for compute capability 9.0 out of built objects, walks
the main loop of every kernel and holds it against what the memory of a Hopper device leaves time for.

    scripts/kernel_budget.py [--json] [--copy TB/s] [OBJECT [OTHER...]]   object: build/outer_opt/cuda/kernels.cu.o;
                                                                          others are only looked through for spills

An estimate, not a measurement. Per kernel it says how many values a thread takes in a turn of its loop, the bytes that
a value moves, and which share of the time that a copy of as many bytes takes is used by issue slots, by each kind of
execution unit and by the load/store unit; the largest one bounds the kernel. Then registers, threads that a
multiprocessor holds, and the bytes that their loads have under way beside those that latency asks for (Little's law);
last the most used unit where vectors do not begin at multiples of 16 bytes.
The way through a loop is the one with the widest accesses and without calls, and of those the longest. It fails (status
1) when a kernel spills, has a fused multiply-add where none may be, has no loop with the accesses that it should have,
or when an instruction is not known to it: it decodes operation codes itself, so that no disassembler is needed.

Where the numbers come from:
  lanes per clock of a multiprocessor   CUDA C++ Programming Guide, "Throughput of Native Arithmetic Instructions",
                                        column 9.0; conversions at the rate of 8.0, the slower one
  registers, threads, blocks, shared    the same, "Technical Specifications per Compute Capability"
  132 multiprocessors, 4.8 TB/s         NVIDIA's data sheet of the H200; a copy moves about 4.2 of them
  1.75 GHz                              what its 1.98 GHz comes to under load
  750 ns                                latency of a read under load, a usual figure for HBM
  operation codes                       the low nine bits of an instruction, as open assemblers know them (CuAssembler,
                                        Mesa's NAK)
"""
import argparse
import collections
import json
import pathlib
import random
import re
import struct
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
OBJECT = ROOT / "build" / "outer_opt" / "cuda" / "kernels.cu.o"
ARCHITECTURE = 90

SMS, CLOCK_HZ, LATENCY_S, COPY_BYTES_S = 132, 1.75e9, 750e-9, 4.2e12
REGISTERS, THREADS, BLOCKS, SHARED, SHARED_OF_BLOCK = 65536, 2048, 32, 227 * 1024, 1024
LANES = 32
# Until a result can be used, usual figures of microbenchmarks, for what is not pipelined; others: 5.
CLOCKS = {"memory": 30, "LDG": 400, "STG": 5, "reduce": 20, "fp64": 16, "slow": 20, "BAR": 30}

# Results per clock and multiprocessor. `wave`: passes through the load/store unit, of 128 bytes.
RATES = {"issue": 128, "alu": 64, "imad": 64, "slow": 16, "fp64": 64, "reduce": 16, "wave": 32}

OPCODES = {
    "alu": {0x02: "MOV", 0x03: "P2R", 0x04: "R2P", 0x05: "CS2R", 0x06: "VOTE", 0x07: "SEL", 0x08: "FSEL", 0x09: "FMNMX",
            0x0B: "FSETP", 0x0C: "ISETP", 0x10: "IADD3", 0x11: "LEA", 0x12: "LOP3", 0x0F: "VIMNMX3", 0x13: "IABS", 0x16: "PRMT",
            0x19: "SHF", 0x1B: "BMSK", 0x1C: "PLOP3", 0x36: "VIADD", 0x3E: "F2FP", 0x45: "I2FP", 0x46: "VIADDMNMX",
            0x48: "VIMNMX"},
    "imad": {0x24: "IMAD", 0x25: "IMAD.WIDE", 0x27: "IMAD.HI"},
    "fp32": {0x20: "FMUL", 0x21: "FADD", 0x23: "FFMA", 0x31: "HFMA2", 0x35: "HFMA2.MMA"},  # the last two load constants
    "fp64": {0x28: "DMUL", 0x29: "DADD", 0x2A: "DSETP", 0x2B: "DFMA"},
    "slow": {0x100: "FLO", 0x101: "BREV", 0x102: "FCHK", 0x104: "F2F", 0x105: "F2I", 0x106: "I2F", 0x107: "FRND",
             0x108: "MUFU", 0x109: "POPC", 0x110: "F2F.64", 0x111: "F2I.64", 0x112: "I2F.64"},
    "reduce": {0x1C4: "REDUX"},
    "memory": {0x181: "LDG", 0x186: "STG", 0x183: "LDL", 0x187: "STL", 0x184: "LDS", 0x188: "STS", 0x189: "SHFL",
               0x18C: "ATOMS", 0x18E: "RED", 0x1A8: "ATOMG"},
    "uniform": {0x82: "UMOV", 0x86: "VOTEU", 0x87: "USEL", 0x8C: "UISETP", 0x90: "UIADD3", 0x91: "ULEA", 0x92: "ULOP3",
                0x96: "UPRMT", 0x99: "USHF", 0x9C: "UPLOP3", 0xA4: "UIMAD", 0xA5: "UIMAD.WIDE", 0xB9: "ULDC",
                0xBD: "UFLO", 0xBF: "UPOPC", 0xCA: "R2UR", 0x1C2: "R2UR", 0x1C3: "S2UR"},
    "control": {0x118: "NOP", 0x119: "S2R", 0x11A: "DEPBAR", 0x11B: "CALL.ABS", 0x11D: "BAR", 0x141: "BSYNC",
                0x142: "BREAK", 0x144: "CALL", 0x145: "BSSY", 0x146: "YIELD", 0x147: "BRA", 0x148: "WARPSYNC",
                0x14D: "EXIT", 0x150: "RET", 0x155: "BMOV", 0x182: "LDC", 0x192: "MEMBAR"},
}
KINDS = {code: (name, kind) for kind, codes in OPCODES.items() for code, name in codes.items()}
ACCESS_BYTES = [1, 1, 2, 2, 4, 8, 16, 16]

SPARSE = 84 / 4096
ROWS = ROOT / "outer_opt" / "core" / "codec" / "codec_traits.h"


def codecs():
    """Name -> what its kernels follow from in its row of codec_traits.h: block, bytes of the scale, bits per value."""
    text = ROWS.read_text().replace("\\\n", " ")
    found = {}
    for name, row in re.findall(r"\bROW\((\w+), (\.wire(?:[^()]|\([^()]*\))*)\)", text):
        number = {key: int(value) for key, value in re.findall(r"\.(block|scale_bytes|bits) = (\d+)", row)}
        found[name] = (number.get("block", 0), number.get("scale_bytes", 0), number["bits"])
    return found


def codec_rules(label, what, stored, values, divides):
    """The three kernels of a codec; `stored`: bytes of a value, `values`: of a thread in a turn."""
    over, onto = f"{what}.*Overwrite", f"{what}.*Accumulate"
    wide = values // 4
    return [(f"{label} encode", f"(encode_kernel|each_kernel).*{what}", 4, stored, values, wide, divides),
            (f"{label} decode", f"decode.*kernel.*{over}", stored, 4, values, wide, False),
            (f"{label} accumulate", f"decode.*kernel.*{onto}", stored + 4, 4, values, 2 * wide, False)]


def rules():
    """Kernel -> name, pattern of its symbol, bytes read and written per value, values of a thread in a turn, accesses of
    16 bytes in it, whether it divides."""
    ahead = 2
    each = 4 * ahead
    of_codecs = []
    for name, (block, scale, bits) in codecs().items():
        stored = scale / block + bits / 8 if block else bits // 8
        three = codec_rules(name.lower(), f"{len(name)}{name}", stored, 2 * each if block else each, block > 0)
        if stored == 4:  # what is stored has packs, too
            three = [rule[:5] + (rule[5] + each // 4, False) for rule in three]
        of_codecs += three
    return of_codecs + [
        ("outer step", "OuterStep", 12, 8, each, 5 * each // 4, False),
        ("difference", "5Minus", 8, 4, each, 3 * each // 4, False),
        ("adopt", "5Adopt", 8, 4, each, 3 * each // 4, False),
        ("scale", "5Times", 4, 4, each, 2 * each // 4, False),
        ("statistics", "measure_kernel", 4, 0, each, each // 4, False)]


# ---- machine code out of an object


def machine_codes(data):
    """The ELF files for ARCHITECTURE in the fat binaries of an object."""
    magic = struct.pack("<I", 0xBA55ED50)
    at = data.find(magic)
    while at >= 0:
        head, size = struct.unpack_from("<HQ", data, at + 6)
        end = at + head + size
        piece = at + head
        while piece < end:
            kind, _, head, size = struct.unpack_from("<HHIQ", data, piece)
            architecture, = struct.unpack_from("<I", data, piece + 28)
            body = data[piece + head:piece + head + size]
            if kind == 2 and architecture == ARCHITECTURE:
                if body[:4] != b"\x7fELF":
                    sys.exit("error: the machine code is compressed: build it with nvcc --no-compress")
                yield body
            piece += head + size
        at = data.find(magic, end)


def sections(elf):
    """Name -> (type, content)."""
    offset, = struct.unpack_from("<Q", elf, 0x28)
    count, names = struct.unpack_from("<HH", elf, 0x3C)
    heads = [struct.unpack_from("<IIQQQQIIQQ", elf, offset + 64 * i) for i in range(count)]
    text = elf[heads[names][4]:]
    found = {}
    for head in heads:
        name = text[head[0]:text.index(b"\0", head[0])].decode()
        found[name] = (head[1], elf[head[4]:head[4] + head[5]] if head[1] != 8 else bytes(0), head[5])
    return found


def registers_of(found):
    """Kernel -> registers of a thread, out of the attributes of the ELF file."""
    symbols, names = found[".symtab"][1], found[".strtab"][1]

    def name(index):
        start, = struct.unpack_from("<I", symbols, 24 * index)
        return names[start:names.index(b"\0", start)].decode()

    info, at, counts = found[".nv.info"][1], 0, {}
    while at < len(info):
        form, attribute, size = struct.unpack_from("<BBH", info, at)
        if form == 4 and attribute == 0x2F:  # EIATTR_REGCOUNT
            symbol, count = struct.unpack_from("<II", info, at + 4)
            counts[name(symbol)] = count
        at += 4 + (size if form == 4 else 0)
    return counts


class Instruction:
    def __init__(self, low, high, address):
        code = low & 0x1FF
        if code not in KINDS:
            sys.exit(f"error: operation code {code:#x} is not known ({high:016x} {low:016x})")
        self.name, self.kind = KINDS[code]
        self.always = low >> 12 & 15 == 7  # no predicate
        if self.name == "BRA":  # a second predicate, and BRA.DIV: where the threads of a warp have parted
            self.always = self.always and high >> 23 & 31 == 7
        self.bytes = ACCESS_BYTES[high >> 9 & 7] if self.kind == "memory" else 0
        self.shared = self.name in ("LDS", "STS", "ATOMS", "SHFL")
        self.target = None
        if self.name == "BRA":
            far = (low >> 34) | (high & 0x3FFFF) << 30
            far -= 1 << 48 if far >> 47 else 0
            self.target = address + 16 + 4 * ((far << 8) + (low >> 16 & 0xFF))

    def waves(self):
        if self.kind != "memory":
            return 0
        return 1 if self.name in ("SHFL", "ATOMS") else max(1, LANES * self.bytes // 128)


def kernels_of(path):
    """Symbol -> (instructions, registers, bytes of shared memory)."""
    found = {}
    for elf in machine_codes(pathlib.Path(path).read_bytes()):
        parts = sections(elf)
        registers = registers_of(parts)
        for name, (_, content, _) in parts.items():
            if not name.startswith(".text."):
                continue
            symbol = name[len(".text."):]
            code = [Instruction(*struct.unpack_from("<QQ", content, at), at) for at in range(0, len(content), 16)]
            shared = parts.get(".nv.shared." + symbol, (0, b"", 0))[2]
            found[symbol] = (code, registers[symbol], shared)
    return found


# ---- the way through the main loop


def successors(code, i):
    """Those further on; a way back is the end of a turn."""
    one = code[i]
    after = []
    if one.target is not None and one.target > 16 * i:
        after.append(one.target // 16)
    ends = one.name in ("EXIT", "RET") or one.target is not None
    if (not ends or not one.always) and i + 1 < len(code):
        after.append(i + 1)
    return after


def worth(way, quads=True):
    """Compares ways: wide accesses (or none), bytes, few accesses, no calls, then the longest one."""
    accesses = [one for one in way if one.name in ("LDG", "STG")]
    calls = sum(one.name.startswith("CALL") for one in way)
    wide = sum(one.bytes == 16 for one in accesses)
    return (wide if quads else -wide, sum(one.bytes for one in accesses), -len(accesses), -calls,
            len(way))


def best_way(code, head, tail, quads=True):
    """From head to tail; None: there is none. Worths add up, so the best rest can be kept per instruction."""
    best = {tail: (worth([code[tail]], quads), None)}
    for i in range(tail - 1, head - 1, -1):
        rests = [(best[after][0], after) for after in successors(code, i) if after in best]
        if rests:
            rest, after = max(rests)
            best[i] = (tuple(a + b for a, b in zip(worth([code[i]], quads), rest)), after)
    if head not in best:
        return None
    way, i = [], head
    while i is not None:
        way.append(code[i])
        i = best[i][1]
    return way


def main_way(code, quads=True):
    """Of whole packs, or of what begins anywhere."""
    ways = []
    for tail, one in enumerate(code):
        if one.target is not None and one.target < 16 * tail:
            ways.append(best_way(code, one.target // 16, tail, quads))
    ways = [way for way in ways if way]
    return max(ways, key=lambda way: worth(way, quads)) if ways else []


# ---- what it comes to


def residents(threads, registers, shared):
    """Threads that a multiprocessor holds."""
    warps = threads // LANES
    of_warp = (registers * LANES + 255) // 256 * 256
    by_registers = REGISTERS // 4 // of_warp * 4 // warps
    by_shared = SHARED // (shared + SHARED_OF_BLOCK)
    return min(THREADS // threads, BLOCKS, by_registers, by_shared) * threads


def singles(way, name):
    """Values of a way without packs through blocks: each is loaded, or written, on its own."""
    return sum(one.name == name and one.bytes == 4 for one in way)


def loaded_ahead(way):
    """The share of what it reads that it has asked for before it first writes."""
    reads = [one.bytes for one in way if one.name == "LDG"]
    first = next((i for i, one in enumerate(way) if one.name == "STG" and one.always), len(way))
    return sum(one.bytes for one in way[:first] if one.name == "LDG") / max(1, sum(reads))


def used(way):
    """Unit -> results of a thread, of those that RATES knows."""
    counts = collections.Counter(one.kind for one in way)
    counts["issue"] = len(way)
    counts["wave"] = sum(one.waves() for one in way)
    return {unit: counts[unit] for unit in RATES}


def budget(label, rule, kernel, copy_bytes_s, threads=256):
    _, _, read, written, values, wide, divides = rule
    code, registers, shared = kernel
    way = main_way(code)
    clocks = (read + written) * values / (copy_bytes_s / SMS / CLOCK_HZ)  # of a thread's turn, by the memory
    shares = {unit: count / RATES[unit] / clocks for unit, count in used(way).items()}
    resident = residents(threads, registers, shared)
    ahead = loaded_ahead(way) * values * read * resident
    row = {"kernel": label, "values": values, "bytes_per_value": read + written, "issue_per_value": len(way) / values,
           "issue_allowed": clocks * RATES["issue"] / values, "shares": shares, "registers": registers,
           "threads": resident, "in_flight": ahead,
           "in_flight_needed": LATENCY_S * copy_bytes_s / SMS * read / (read + written)}
    single = main_way(code, False)
    blocks = label.split()[0] in (name.lower() for name, (block, _, _) in codecs().items() if block)
    of_single = singles(single, "LDG" if "encode" in label else "STG") if blocks else values
    row["anywhere"] = {unit: count / RATES[unit] * values / of_single / clocks for unit, count in used(single).items()}
    row["faults"] = faults(code, way, wide, divides)
    if ahead < row["in_flight_needed"]:
        row["faults"].append("it has too few bytes under way")
    return row


def spills(code):
    return any(one.name in ("LDL", "STL") for one in code)


def faults(code, way, wide, divides):
    found = []
    if spills(code):
        found.append("it spills")
    if not divides and any(one.name in ("FFMA", "DFMA") for one in code):
        found.append("it has a fused multiply-add")
    there = sum(one.name in ("LDG", "STG") and one.bytes == 16 for one in way)
    if there != wide:
        found.append(f"its loop has {there} accesses of 16 bytes, not {wide}")
    return found


def rows_of(kernels, copy_bytes_s):
    rows = []
    for rule in rules():
        symbols = [symbol for symbol in kernels if re.search(rule[1], symbol)]
        if len(symbols) != 1:
            sys.exit(f"error: {len(symbols)} kernels are called {rule[1]}")
        rows.append(budget(rule[0], rule, kernels[symbols[0]], copy_bytes_s))
    return rows


# ---- sparse2, a chunk of which takes loops of different length


def trips(chunks=40, seed=1):
    """What the loops of sparse_lanes.h come to for normal values: rounds of the search for the floor, candidates that a
    lane gathers at most in its warp, rounds of the search among the candidates, iterations of the codebook. Means."""
    random_values = random.Random(seed)
    total = collections.Counter()
    for _ in range(chunks):
        bits = [struct.unpack("<I", struct.pack("<f", abs(random_values.gauss(0, 1))))[0] for _ in range(4096)]
        groups = [max(bits[i:i + 16]) for i in range(0, 4096, 16)]
        floor, rounds = bisect(groups, min(groups), max(groups) + 1, 80)
        found = [b for b in bits if b >= floor]
        total["candidates"] += len(found)
        total["floor"] += rounds
        lanes = [sum(b >= floor for b in bits[i:i + 32]) for i in range(0, 4096, 32)]
        total["gather"] += sum(max(lanes[i:i + 32]) for i in range(0, 128, 32)) / 4
        total["keep"] += bisect(found, floor, max(groups) + 1, 64)[1] + 1
        total["codebook"] += lloyd([struct.unpack("<f", struct.pack("<I", b))[0] for b in sorted(found)[-64:]])
    return {name: count / chunks for name, count in total.items()}


def bisect(bits, low, high, enough):
    rounds = 0
    while high - low > 1:
        middle = low + (high - low) // 2
        count = sum(b >= middle for b in bits)
        rounds += 1
        if count < 64:
            high = middle
            continue
        low = middle
        if count <= enough:
            break
    return low, rounds


def lloyd(values):
    threshold, before = sum(values) / len(values), -1
    for iteration in range(9):
        above = [v for v in values if v > threshold]
        if len(above) == before:
            break
        before = len(above)
        below = [v for v in values if v <= threshold]
        threshold = (sum(above) / max(1, len(above)) + sum(below) / max(1, len(below))) / 2
    return iteration + 1


def shortest_way(code, head, tail):
    best = {tail: (1, None)}
    for i in range(tail - 1, head - 1, -1):
        rests = [(best[after][0], after) for after in successors(code, i) if after in best]
        if rests:
            best[i] = (1 + min(rests)[0], min(rests)[1])
    way, i = [], head
    while i is not None:
        way.append(code[i])
        i = best[i][1]
    return way


def loops_of(code):
    """(head, tail, names in it) of the loops that hold no other with a barrier or two of these."""
    found = []
    for tail, one in enumerate(code):
        if one.target is not None and one.target < 16 * tail:
            head = one.target // 16
            if best_way(code, head, tail):
                found.append((head, tail, [inner.name for inner in code[head:tail + 1]]))
    return sorted(found)


def sparse_parts(code):
    """(instructions in order, trips by name or number, warps: all or the first one) of a chunk without equal values."""
    loops = loops_of(code)
    barriers = [i for i, one in enumerate(code) if one.name == "BAR"]
    outer = next(loop for loop in loops if loop[2].count("BAR") > 2)
    small = [loop for loop in loops if "BAR" not in loop[2]]
    floor = next(loop for loop in small if "REDUX" in loop[2])
    gathers = [loop for loop in small if "LDG" in loop[2] and "ATOMS" in loop[2]]
    later = [loop for loop in small if loop[0] > gathers[-1][1]]
    keep = next(loop for loop in later if "REDUX" in loop[2])
    order = next(loop for loop in later if "LDS" in loop[2] and "STS" not in loop[2])
    codebook = next(loop for loop in later if "REDUX" in loop[2] and "DSETP" in loop[2])
    bits = next(loop for loop in later if loop[2].count("ATOMS") == 4)
    write = next(loop for loop in later if "STG" in loop[2])
    parts = [(best_way(code, outer[0], barriers[0]), 1, "all"), (shortest_way(code, barriers[0], floor[0]), 1, "first"),
             (best_way(code, floor[0], floor[1]), "floor", "first"),
             (shortest_way(code, barriers[1], gathers[0][0]), 1, "all"),
             (best_way(code, gathers[0][0], gathers[0][1]), "gather", "all")]
    at = barriers[barriers.index(next(b for b in barriers if b > gathers[-1][1]))]
    for loop, count in ((keep, "keep"), (order, 64 / order[2].count("LDS")), (codebook, "codebook"), (bits, 2), (write, 3)):
        parts.append((shortest_way(code, at, loop[0]), 1, "first"))
        parts.append((best_way(code, loop[0], loop[1]), count, "first"))
        at = loop[1]
    return parts


def waiting(way):
    """Clocks if every instruction waits for the one before, except loads in a row."""
    clocks, last = 0, {}
    for i, one in enumerate(way):
        in_a_row = one.kind == "memory" and i - last.get(one.name, -99) < 16
        clocks += 2 if in_a_row else CLOCKS.get(one.name, CLOCKS.get(one.kind, 5))
        last[one.name] = i
    return clocks


def sparse_row(kernel, copy_bytes_s, threads=128):
    code, registers, shared = kernel
    counts, warps, total, serial = trips(), threads // LANES, collections.Counter(), 0
    for way, times, who in sparse_parts(code):
        times = counts.get(times, times)
        for unit, count in used(way).items():
            total[unit] += count * times * (warps if who == "all" else 1)
        serial += times * waiting(way)
    serial += LATENCY_S * CLOCK_HZ
    clocks = (4 + SPARSE) * 4096 / (copy_bytes_s / SMS / CLOCK_HZ)
    shares = {unit: total[unit] * LANES / RATES[unit] / clocks for unit in RATES}
    resident = residents(threads, registers, shared)
    shares["waiting"] = serial / (resident // threads) / clocks
    return {"kernel": "sparse2 encode", "trips": counts, "copy_clocks_of_chunk": clocks, "shares": shares,
            "clocks_of_chunk_alone": serial, "registers": registers, "threads": resident,
            "share_of_copy": 1 / max(shares.values()), "faults": faults(code, [], 0, True)}


def print_sparse(row):
    shares = ", ".join(f"{unit} {100 * share:.0f}%" for unit, share in row["shares"].items())
    means = ", ".join(f"{name} {count:.1f}" for name, count in row["trips"].items())
    print(f"{row['kernel']}: a chunk of 4096 in {row['clocks_of_chunk_alone']:.0f} clocks if every instruction waits for "
          f"the one before; a copy takes {row['copy_clocks_of_chunk']:.0f}\n    of a copy's time: {shares}; so at most "
          f"{100 * row['share_of_copy']:.0f}% of a copy\n    {row['registers']} registers, {row['threads']} threads; "
          f"trips: {means}")
    for fault in row["faults"]:
        print(f"    FAULT: {fault}")


def most_used(shares):
    unit = max(shares, key=shares.get)
    return f"{unit} {100 * shares[unit]:.0f}%"


def print_table(rows, copy_bytes_s):
    print(f"shares of the time of a copy at {copy_bytes_s / 1e12:.2f} TB/s; estimated, not measured")
    units = list(RATES)
    print(f"{'kernel':16}{'B/value':>8}{'issue/value':>12}{'allowed':>8}" + "".join(f"{u:>8}" for u in units) +
          f"{'regs':>6}{'threads':>8}{'KiB under way':>14}{'needed':>8}{'anywhere':>16}")
    for row in rows:
        print(f"{row['kernel']:16}{row['bytes_per_value']:8.2f}{row['issue_per_value']:12.1f}"
              f"{row['issue_allowed']:8.1f}" + "".join(f"{100 * row['shares'][u]:7.0f}%" for u in units) +
              f"{row['registers']:6}{row['threads']:8}{row['in_flight'] / 1024:14.1f}"
              f"{row['in_flight_needed'] / 1024:8.1f}" + most_used(row["anywhere"]).rjust(16))
        for fault in row["faults"]:
            print(f"    FAULT: {fault}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("objects", nargs="*", default=[OBJECT])
    parser.add_argument("--copy", type=float, default=COPY_BYTES_S / 1e12, help="TB/s that a copy moves")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    kernels = kernels_of(options.objects[0])
    for path in options.objects[1:]:
        spilling = [symbol for symbol, kernel in kernels_of(path).items() if spills(kernel[0])]
        if spilling:
            sys.exit(f"error: {path}: these spill: {' '.join(spilling)}")
    rows = rows_of(kernels, options.copy * 1e12)
    sparse = sparse_row(next(kernel for symbol, kernel in kernels.items() if "encode_sparse" in symbol), options.copy * 1e12)
    if options.json:
        print(json.dumps(rows + [sparse], indent=2))
    else:
        print_table(rows, options.copy * 1e12)
        print_sparse(sparse)
    sys.exit(1 if any(row["faults"] for row in rows + [sparse]) else 0)


if __name__ == "__main__":
    main()
