"""What a checkpoint keeps of a program beside its parameters: the state of its optimizers, and of objects
that it names with run.keep(), such as a schedule or a scaler.

The state of a parameter is stored whole or not at all, under the parameter's name. Of a parameter group
all values are stored, as they were when the run began and as they are: a value with which the program
begins as it began before continues, and one that the program has been changed to have stays. What does
not fit when it is read is dropped with a warning: training goes on, and the checkpoint stays readable.
"""

import copy
import json
import os
import re
import shutil
import warnings

import torch

from shoal import _library, shards
from shoal._library import Error
from shoal.registry import shown
from shoal.trees import Unstorable, Writer, moved_to, tensors_in, value_of


_FILES_MAX = 16
_RULE = " (numbers, texts, dense tensors, and lists and dictionaries of them can be stored)"


def _check_name(call, name):
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}", name):
        raise Error(f"{call}: a name is a text of 1 to 64 letters, digits and . _ - that begins with no dot, because "
                    "a file of the checkpoint has it")


def is_finite(tensor):
    floats = tensor.is_floating_point() or tensor.is_complex()
    return not floats or bool(torch.isfinite(tensor).all())


def _warn(sentence):
    print(f"warning: {sentence}", flush=True)


def _parameters_of(optimizer):
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _number_of(value):
    return value.item() if isinstance(value, torch.Tensor) and value.numel() == 1 else value


def _group_values(optimizer):
    """Of each group the values that need no tensor, as text."""
    groups = []
    for group in optimizer.param_groups:
        values = {}
        for key, value in group.items():
            if key != "params":
                try:
                    values[key] = json.dumps(Writer(probe=True).tree(_number_of(value), key))
                except Unstorable:
                    continue
        groups.append(values)
    return groups


class OptimizerState:
    """Of one optimizer. `names`: of parameters, by their id(); `number`: of several optimizers."""

    def __init__(self, optimizer, names, number):
        self._optimizer, self._names, self._number = optimizer, names, number
        self._begun = _group_values(optimizer)

    def _kind(self):
        return type(self._optimizer).__name__

    def _name(self, index, parameter):
        return self._names.get(id(parameter), f"#{index}")

    def _place(self, name):
        return f"{self._number}:{name}" if self._number else name

    # ---- writing

    def written(self, writer, left_out):
        """As JSON; `left_out` takes a sentence about each part that cannot be stored."""
        state = self._optimizer.state_dict()
        if set(state) != {"state", "param_groups"}:
            return {"kind": self._kind(), "whole": self._tree(writer, state, "state", left_out)}
        parameters, stored, shapes, loose = _parameters_of(self._optimizer), {}, {}, {}
        for index, values in state["state"].items():
            if not isinstance(index, int) or not 0 <= index < len(parameters):
                loose[index] = values
                continue
            name = self._name(index, parameters[index])
            tree = self._tree(writer, values, name, left_out)
            if tree is not None:
                stored[name], shapes[name] = tree, list(shards.local_values(parameters[index]).shape)
        return {"kind": self._kind(), "groups": self._groups(writer, state["param_groups"], left_out),
                "state": stored, "shapes": shapes,
                "loose": self._tree(writer, loose, "state", left_out) if loose else None}

    def _tree(self, writer, value, name, left_out):
        try:
            return writer.tree(value, self._place(name))
        except Unstorable as problem:
            left_out.append(f"the state of {name} in {self._kind()}, because {problem}")
            return None

    def _groups(self, writer, groups, left_out):
        found = []
        for number, group in enumerate(groups):
            now = {}
            for key, value in group.items():
                if key != "params":
                    try:
                        now[key] = writer.tree(value, self._place(f"group{number}.{key}"))
                    except Unstorable as problem:
                        left_out.append(f"a value of {self._kind()}, because {problem}")
            begun = self._begun[number] if number < len(self._begun) else {}
            found.append({"now": now, "begun": begun})
        return found

    # ---- reading

    def read(self, document, tensors):
        if document.get("kind") not in (None, self._kind()):
            return _warn(f"the optimizer is {self._kind()}, and the checkpoint has the state of "
                         f"{document['kind']}: it begins anew")
        before = copy.deepcopy(self._optimizer.state_dict())
        try:
            if "whole" in document:
                if document["whole"] is not None:
                    self._optimizer.load_state_dict(value_of(document["whole"], tensors))
            else:
                self._read_parts(document, tensors)
        except Exception as problem:  # of the optimizer's own code, too
            _warn(f"the state of {self._kind()} in the checkpoint does not fit: {type(problem).__name__}: "
                  f"{problem}: it begins anew")
            self._optimizer.load_state_dict(before)

    def _read_parts(self, document, tensors):
        state, dropped = {}, []
        places = {self._name(i, p): (i, p) for i, p in enumerate(_parameters_of(self._optimizer))}
        for name, tree in document["state"].items():
            index, parameter = places.get(name, (None, None))
            shape = document["shapes"].get(name)
            if index is None:
                dropped.append(f"{name} is in no optimizer")
            elif shape is not None and shape != list(shards.local_values(parameter).shape):
                dropped.append(f"{name} has another shape")
            else:
                state[index] = value_of(tree, tensors, parameter)
        if dropped:
            _warn(f"state of {self._kind()} in the checkpoint does not fit and is dropped: {shown(dropped)}")
        loose = value_of(document.get("loose"), tensors) or {}
        self._load({**state, **loose}, self._groups_read(document.get("groups", []), tensors))

    def _groups_read(self, stored, tensors):
        groups = self._optimizer.state_dict()["param_groups"]
        if stored and len(stored) != len(groups):
            _warn(f"{self._kind()} has {len(groups)} parameter groups, and {len(stored)} in the checkpoint: those "
                  "that both have continue")
        for group, begun, kept in zip(groups, self._begun, stored):
            for key, tree in kept["now"].items():
                if key not in group or begun.get(key) == kept["begun"].get(key):
                    group[key] = value_of(tree, tensors)
        return groups

    def _load(self, state, groups):
        # load_state_dict() gives tensors the type of their parameter, and knows no texts.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._optimizer.load_state_dict({**self._optimizer.state_dict(), "state": state,
                                             "param_groups": groups})
        for index, parameter in enumerate(_parameters_of(self._optimizer)):
            for key, value in state.get(index, {}).items():
                loaded = self._optimizer.state[parameter].get(key)
                if not isinstance(value, torch.Tensor) or not isinstance(loaded, torch.Tensor):
                    self._optimizer.state[parameter][key] = moved_to(value, parameter.device)
                elif loaded.dtype != value.dtype:
                    self._optimizer.state[parameter][key] = value.to(loaded.device)


def forget_nonfinite(optimizer):
    """The parameters whose state in the optimizer has values that are not finite lose that state, so
    they begin anew; else each later step would make them so again."""
    ruined = [parameter for parameter, state in getattr(optimizer, "state", {}).items()
              if not all(is_finite(shards.local_values(tensor)) for tensor in tensors_in(state))]
    for parameter in ruined:
        del optimizer.state[parameter]
    if ruined:
        _warn(f"the optimizer's state of {len(ruined)} parameters had values that are not finite: it begins anew")


class State:
    """Of all optimizers of a run, and of what it keeps."""

    def __init__(self, optimizers, names):
        self._optimizers = [OptimizerState(one, names, number) for number, one in enumerate(optimizers)]
        self._plain, self.kept, self._files, self._said = optimizers, {}, {}, set()

    def keep(self, name, kept):
        _check_name(f"run.keep({name!r}, ...)", name)
        if name in self.kept:
            raise Error(f"run.keep({name!r}, ...) was called before: give each object a name of its own")
        for method in ("state_dict", "load_state_dict"):
            if not callable(getattr(kept, method, None)):
                raise Error(f"run.keep({name!r}, ...): {type(kept).__name__} has no {method}(), which gives what a "
                            "checkpoint keeps (write a small class that has state_dict and load_state_dict)")
        self.kept[name] = kept

    def optimizers_written(self, probe=False):
        """(tensors by name, JSON) of all optimizers."""
        writer, left_out = Writer(probe), []
        documents = [one.written(writer, left_out) for one in self._optimizers]
        self._say_left_out(left_out)
        return writer.tensors, json.dumps({"optimizers": documents})

    def kept_written(self, probe=False):
        """{name: (tensors by name, JSON)} of each object."""
        written, left_out = {}, []
        for name, kept in self.kept.items():
            writer = Writer(probe)
            try:
                document = json.dumps(writer.tree(kept.state_dict(), name))
                written[name] = (writer.tensors, document)
            except Unstorable as problem:
                left_out.append(f"{name} of run.keep(), because {problem}")
        self._say_left_out(left_out)
        return written

    def keep_file(self, path, name=None):
        path = os.path.abspath(path)
        name = name or os.path.basename(path)
        _check_name(f"run.keep_file({path!r})", name)
        if len(self._files) == _FILES_MAX:
            raise Error(f"run.keep_file({path!r}): checkpoints have at most {_FILES_MAX} files of a program")
        if name in self._files:
            raise Error(f"run.keep_file({path!r}): a file named {name} is kept already: give another name=")
        self._files[name] = path

    def files_written(self, place):
        """What is reported of the copies. A file that is not there yet is left out."""
        written, left_out = [], []
        for name, path in self._files.items():
            try:
                written.append(_library.write_file(place, name, path))
            except Error as problem:
                left_out.append(f"the file {name} of run.keep_file(), because {problem}")
        self._say_left_out(left_out, "")
        return written

    def read_files(self, paths):
        """Puts the files of a checkpoint, {name: path}, where the program expects them."""
        unknown = [name for name in paths if name not in self._files]
        if unknown:
            _warn(f"the checkpoint keeps the files {shown(unknown)}, which the program does not: they are dropped")
        for name, path in self._files.items():
            if name in paths:
                self._put_back(name, paths[name], path)

    @staticmethod
    def _put_back(name, stored, path):
        temporary = f"{path}.{os.getpid()}.restored"  # replicas of one host may share the path
        try:
            os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
            shutil.copyfile(stored, temporary)
            os.replace(temporary, path)
        except OSError as problem:
            _warn(f"the file {name} of the checkpoint cannot be put to {path}: {problem}: it is dropped")

    def try_to_write(self):
        """Warns of what checkpoints will lack, without writing one."""
        self.optimizers_written(probe=True)
        self.kept_written(probe=True)

    def _say_left_out(self, left_out, rule=_RULE):
        new = [sentence for sentence in left_out if sentence not in self._said]
        self._said.update(new)
        if new:
            _warn(f"checkpoints will lack {shown(new)}{rule}")

    def read_optimizers(self, tensors, metadata):
        if "state" in metadata:
            documents = json.loads(metadata["state"])["optimizers"]
        else:
            documents = [_before_0_2(tensors, metadata, self._optimizers[0])]
        if len(documents) != len(self._optimizers):
            _warn(f"the run has {len(self._optimizers)} optimizers, and {len(documents)} in the checkpoint: those "
                  "that both have continue")
        for one, document in zip(self._optimizers, documents):
            one.read(document, tensors)
        for optimizer in self._plain:
            forget_nonfinite(optimizer)  # versions before 0.2 stored such values

    def read_kept(self, found):
        """`found`: {name: (tree, tensors)} of a checkpoint."""
        unknown = [name for name in found if name not in self.kept]
        if unknown:
            _warn(f"the checkpoint keeps {shown(unknown)}, which the program does not: it is dropped")
        for name, kept in self.kept.items():
            if name not in found:
                print(f"info: {name} is not in the checkpoint: it begins anew", flush=True)
                continue
            before = copy.deepcopy(kept.state_dict())
            try:
                kept.load_state_dict(value_of(*found[name]))
            except Exception as problem:  # of the object's own code
                _warn(f"{name} of the checkpoint does not fit: {type(problem).__name__}: {problem}: it begins anew")
                kept.load_state_dict(before)


def _before_0_2(tensors, metadata, own):
    """The document of a checkpoint that had the state under the indices of parameters."""
    parameters, state = _parameters_of(own._optimizer), {}
    trees = {name: {"tensor": name, "shard": True} for name in tensors}
    trees.update(json.loads(metadata.get("numbers", "{}")))
    for name, tree in trees.items():
        index, key = name.split(".", 1)
        if isinstance(tree, dict) and tensors[name].dim() == 0:
            tree = {"tensor": name}
        state.setdefault(int(index), []).append([key, tree])
    named = {own._name(i, parameters[i]) if i < len(parameters) else f"#{i}": {"entries": values, "type": "dict"}
             for i, values in state.items()}
    return {"state": named, "shapes": {}}
