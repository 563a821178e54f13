"""The C interface of a replica (python/abi/shoal_replica.h) through ctypes. Does not need torch."""

import ctypes
import os
from ctypes import POINTER, byref, c_char_p, c_double, c_int, c_int32, c_int64, c_uint64, c_void_p

ABI_VERSION = 6
LIBRARY = "libshoal_replica.so"

MODEL, SEED, READ, WRITE, TRAIN, EVALUATE, WRITE_CHECKPOINT, READ_CHECKPOINT, END = range(1, 10)
BEGIN, FORWARD, BACKWARD, LOSS, FORGET, STEP = range(10, 16)  # of a stage of a pipeline
TRAINS, ADD = 1, 2  # flags of an order
FAILED, OUT_OF_MEMORY, DATA_INVALID, DATA_LOST, DATA_MISSING = range(5)


class Error(RuntimeError):
    """What Shoal refuses or cannot do: one sentence, with the remedy."""


class DataError(Error):
    """A dataset is not what it must be, or cannot be read; `failure`: as answer_failed() takes it."""

    def __init__(self, what, failure):
        super().__init__(what)
        self.failure = failure


def _text(text):
    """UTF-8, also of names that the system could not decode (their bytes are surrogates)."""
    return text.encode(errors="replace")


class Process(ctypes.Structure):
    _fields_ = [
        ("device_name", c_char_p),
        ("libraries", c_char_p),
        ("memory_bytes", c_int64),
        ("gflops", c_double),
        ("order_limit_s", c_double),
    ]


class Order(ctypes.Structure):
    _fields_ = [
        ("kind", c_int32),
        ("flags", c_int32),
        ("step", c_int64),
        ("first_sequence", c_int64),
        ("sequences", c_int64),
        ("index", c_int64),
        ("count", c_int64),
        ("values", c_void_p),
        ("value_count", c_int64),
        ("output", c_void_p),
        ("output_count", c_int64),
        ("text", c_char_p),
    ]


class Tensor(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("shape", POINTER(c_int64)), ("dimensions", c_int64),
                ("type", c_char_p)]


class File(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("role", c_char_p), ("size", c_int64), ("sha256", c_char_p)]


class ObjectTensor(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("type", c_char_p), ("shape", POINTER(c_int64)), ("dimensions", c_int64),
                ("values", c_void_p), ("bytes", c_int64)]


class Object(ctypes.Structure):
    _fields_ = [("folder", c_char_p), ("stage", c_int64), ("stages", c_int64), ("role", c_char_p),
                ("document", c_char_p), ("tensors", POINTER(ObjectTensor)), ("tensor_count", c_int64)]


class DataShape(ctypes.Structure):
    _fields_ = [("context", c_int64), ("sequences", c_int64), ("held_out", c_int64), ("digest", c_uint64 * 2)]


_SIGNATURES = {
    "shoal_abi_version": (c_int32, []),
    "shoal_last_error": (c_char_p, []),
    "shoal_join": (c_int, [POINTER(Process), POINTER(c_void_p)]),
    "shoal_next": (c_int, [c_void_p, c_int64, POINTER(Order)]),
    "shoal_answer_model": (c_int, [c_void_p, POINTER(Tensor), c_int64, POINTER(c_uint64)]),
    "shoal_answer_step": (c_int, [c_void_p, c_double, c_double]),
    "shoal_log": (c_int, [c_void_p, c_char_p, c_double]),
    "shoal_answer_loss": (c_int, [c_void_p, c_double]),
    "shoal_answer_stage_step": (c_int, [c_void_p, c_double, c_double]),
    "shoal_write_object": (c_int, [POINTER(Object), POINTER(File)]),
    "shoal_write_description": (c_int, [c_char_p, c_char_p, c_char_p, POINTER(File)]),
    "shoal_write_file": (c_int, [c_char_p, c_int64, c_int64, c_char_p, c_char_p, POINTER(File)]),
    "shoal_list_files": (c_int64, [c_char_p, c_int64, POINTER(POINTER(File))]),
    "shoal_answer_files": (c_int, [c_void_p, POINTER(File), c_int64]),
    "shoal_answer": (c_int, [c_void_p]),
    "shoal_answer_failed": (c_int, [c_void_p, c_int32, c_char_p]),
    "shoal_leave": (None, [c_void_p, c_char_p]),
    "shoal_open_data": (c_int, [c_char_p, POINTER(c_void_p), POINTER(DataShape)]),
    "shoal_will_read": (c_int, [c_void_p, c_int64, c_int64]),
    "shoal_read_sequence": (c_int, [c_void_p, c_int64, c_void_p]),
    "shoal_read_held_out": (c_int, [c_void_p, c_int64, c_int64, c_void_p]),
    "shoal_close_data": (None, [c_void_p]),
    "shoal_last_failure": (c_int32, []),
    "shoal_permuted": (c_int64, [c_int64, c_uint64, c_int64]),
    "shoal_digest": (None, [c_void_p, c_int64, POINTER(c_uint64)]),
}


def _load():
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), LIBRARY)
    try:
        library = ctypes.CDLL(path)
    except OSError as problem:
        raise Error(f"{path} cannot be loaded: {problem} (install the package of this host's "
                    "architecture, or build it with `./dev build`)") from None
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    if library.shoal_abi_version() != ABI_VERSION:
        raise Error(f"{path} has version {library.shoal_abi_version()} of the interface and this "
                    f"package version {ABI_VERSION} (install both of one version)")
    return library


_library = _load()


def permuted(size, seed, index):
    return _library.shoal_permuted(size, seed, index)


def _check(result):
    if result < 0:
        raise Error(_library.shoal_last_error().decode(errors="replace"))
    return result


def _reported(file):
    """(name, role, size, SHA-256) of a file of a checkpoint."""
    return file.name.decode(), file.role.decode(), file.size, file.sha256.decode()


def write_object(place, role, tensors, document=None):
    """Writes one object of a checkpoint. `place`: (folder, stage, stages) of the order; `tensors`: [(name, type,
    shape, address, bytes)] in the host's memory; `document`: JSON. What is reported of the file."""
    folder, stage, stages = place
    array = (ObjectTensor * len(tensors))(*[
        (_text(name), _text(kind), (c_int64 * len(shape))(*shape), len(shape), address, size)
        for name, kind, shape, address, size in tensors])
    text, file = document.encode() if document is not None else None, File()
    _check(_library.shoal_write_object(
        byref(Object(folder, stage, stages, _text(role), text, array, len(tensors))), byref(file)))
    return _reported(file)


def write_description(folder, name, text):
    file = File()
    _check(_library.shoal_write_description(folder, _text(name), _text(text), byref(file)))
    return _reported(file)


def write_file(place, name, path):
    """Copies a file of the program to a checkpoint. What is reported of the copy."""
    folder, stage, stages = place
    file = File()
    _check(_library.shoal_write_file(folder, stage, stages, _text(name), os.fsencode(path), byref(file)))
    return _reported(file)


def list_files(folder, stage):
    """[(name, role)] of one stage of a checkpoint."""
    files = POINTER(File)()
    count = _check(_library.shoal_list_files(folder, stage, byref(files)))
    return [_reported(files[number])[:2] for number in range(count)]


class Digest:
    """Two words over bytes, the same on every host."""

    def __init__(self):
        self.words = (c_uint64 * 2)()

    def add(self, data):
        _library.shoal_digest(data, len(data), self.words)


class Data:
    """The datasets of a job, whose `spec` is the text of its MODEL order. `shape`: a DataShape. Tokens are
    written to an address with room for shape.context + 1 numbers of 64 bits."""

    def __init__(self, spec):
        self._handle, self.shape, self._pid = c_void_p(), DataShape(), os.getpid()
        self._check(_library.shoal_open_data(spec, byref(self._handle), byref(self.shape)))

    @staticmethod
    def _check(result):
        if result < 0:
            raise DataError(_library.shoal_last_error().decode(errors="replace"), _library.shoal_last_failure())

    def will_read(self, first, count):
        self._check(_library.shoal_will_read(self._here(), first, count))

    def read_sequence(self, number, address):
        self._check(_library.shoal_read_sequence(self._here(), number, address))

    def read_held_out(self, index, count, address):
        self._check(_library.shoal_read_held_out(self._here(), index, count, address))

    def _here(self):
        if os.getpid() != self._pid:  # its threads are not
            raise Error("a dataset of the cluster is read in the process that joined: give it to "
                        "run.batches() itself, not to a DataLoader with workers")
        return self._handle

    def __del__(self):
        if self._handle and os.getpid() == self._pid:
            _library.shoal_close_data(self._handle)


class Link:
    """A process's line to its agent: takes orders and answers them. One thread."""

    WAIT_MS = 200  # between two of them Python handles signals

    def __init__(self, process):
        self._handle, self._pid = c_void_p(), os.getpid()
        _check(_library.shoal_join(byref(process), byref(self._handle)))

    def _here(self):
        if os.getpid() != self._pid:  # the library's threads are not
            raise Error("this process was forked from the one that joined, which alone may call Shoal "
                        "(end it with os._exit(), or start it with subprocess)")
        return self._handle

    def next(self, while_waiting=lambda: None):
        """The next order; its text and vectors are valid until its answer. Waits as long as the
        agent has none; `while_waiting` is called about five times a second."""
        order = Order()
        while _check(_library.shoal_next(self._here(), self.WAIT_MS, byref(order))) == 0:
            while_waiting()
        return order

    @staticmethod
    def list_files(order):
        """[(name, role)] of the checkpoint that the order names."""
        return list_files(order.text, order.index)

    def answer(self):
        _check(_library.shoal_answer(self._here()))

    def answer_model(self, tensors, digest):
        """`tensors`: [(name, shape, type)]."""
        array = (Tensor * len(tensors))(*[
            (_text(name), (c_int64 * len(shape))(*shape), len(shape), _text(kind))
            for name, shape, kind in tensors])
        _check(
            _library.shoal_answer_model(self._here(), array, len(tensors), digest.words))

    def answer_files(self, written, refused=None):
        """`written`: the files that the program wrote, [(name, role, size, SHA-256)]; `refused`: why there is no
        checkpoint."""
        if refused:
            return self.answer_failed(FAILED, refused)
        array = (File * len(written))(*[
            (_text(name), _text(role), size, _text(sha256)) for name, role, size, sha256 in written])
        _check(_library.shoal_answer_files(self._here(), array, len(written)))

    def answer_step(self, loss, lr):
        _check(_library.shoal_answer_step(self._here(), loss, lr))

    def log(self, name, value):
        _check(_library.shoal_log(self._here(), _text(name), value))

    def answer_loss(self, loss):
        _check(_library.shoal_answer_loss(self._here(), loss))

    def answer_stage_step(self, gradient_norm, lr):
        _check(_library.shoal_answer_stage_step(self._here(), gradient_norm, lr))

    def answer_failed(self, failure, detail):
        _library.shoal_answer_failed(self._here(), failure, _text(detail))

    def leave(self, failure=None):
        handle, self._handle = self._handle, None
        if handle and os.getpid() == self._pid:
            _library.shoal_leave(handle, _text(failure) if failure else None)
