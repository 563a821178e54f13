#!/usr/bin/env python3
"""Whether the commands that the pages and the scripts of deploy/ name exist, with their options: page_commands.py
PROGRAM... Each program says through --help what it and its subcommands take, `shoal` through its completion, `./dev`
and the scripts through their text. Commands of other programs are not checked. Prints file:line: what; exit code 1 when
there is any."""
import glob
import os
import re
import subprocess
import sys

import deploy_files

OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")
SPAN = re.compile(r"`([^`]+)`")
ALWAYS = {"--help", "--version"}
# Options of other programs that the prose names alone.
FOREIGN = {"--gtest_filter", "--preset", "--enable-systemd", "--torch-backend", "--exclusive", "--signal", "--build-arg",
           "--network"}
# Tells what earlier versions had.
HISTORY = {"CHANGELOG.md"}


def output(*command):
    nobody = {**os.environ, "SHOAL_ADDR": "http://127.0.0.1:1"}  # names of jobs are not completed
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=nobody)
    return done.stdout + done.stderr


class Shoal:
    """The commands of `shoal`, asked as a shell would that completes them."""

    def __init__(self, program):
        self.program, self.known = program, {}

    def completed(self, words, begun):
        key = (*words, begun)
        if key not in self.known:
            self.known[key] = output(self.program, "__complete", *words, begun).split()
        return self.known[key]

    def problem(self, words, options):
        path = []
        for word in words:
            subs = self.completed(path, "") if len(path) < 2 and self.has_subcommands(path) else []
            if not subs or not re.fullmatch(r"[a-z][a-z-]*", word):
                break
            if word not in subs:
                return f"no command 'shoal {' '.join([*path, word])}'"
            path.append(word)
        known = ALWAYS | {one for depth in range(len(path) + 1) for one in self.completed(path[:depth], "--")}
        return next((f"no {one} of 'shoal {' '.join(path)}'" for one in options if one not in known), None)

    def has_subcommands(self, path):
        return not path or "Subcommands:" in self.help_of(tuple(path))

    def help_of(self, path):
        if path not in self.known:
            self.known[path] = output(self.program, *path, "--help")
        return self.known[path]

    def options(self, path=()):
        found = set(self.completed(list(path), "--"))
        if len(path) < 2 and self.has_subcommands(path):
            for sub in self.completed(list(path), ""):
                found |= self.options((*path, sub))
        return found


class Program:
    """Any other program: its help, and that of a subcommand that a page names."""

    def __init__(self, path):
        self.path, self.name, self.texts = path, os.path.basename(path), {}
        self.subcommands = set(re.findall(r"^  ([a-z][a-z_-]*)  ", self.help().partition("Subcommands:")[2], re.M))

    def help(self, *path):
        if path not in self.texts:
            self.texts[path] = output(self.path, *path, "--help")
        return self.texts[path]

    def problem(self, words, options):
        path = words[:1] if words and words[0] in self.subcommands else []
        known = ALWAYS | set(OPTION.findall(self.help(*path) + self.help()))
        return next((f"no {one} of {' '.join([self.name, *path])}" for one in options if one not in known), None)

    def options(self):
        return set(OPTION.findall("".join(self.texts.values())))


class Dev:
    """./dev and the scripts behind it: a command is a case of the usage, an option any that they mention."""

    def __init__(self):
        usage = output("./dev", "help")
        self.commands = set(re.findall(r"^  ([a-z]+)\b", usage, re.M)) | {"help"}
        sources = ["dev", *glob.glob("scripts/*.py"), *glob.glob("scripts/*.sh"), *glob.glob("web/e2e/*.mjs"),
                   *glob.glob("web/*.sh"), *glob.glob("python/**/*.py", recursive=True)]
        self.found = set()
        for source in sources:
            if source.endswith("page_commands.py"):
                continue
            with open(source, encoding="utf-8") as text:
                self.found |= set(OPTION.findall(text.read()))
        self.found |= set(OPTION.findall(usage)) | ALWAYS

    def problem(self, words, options):
        if words and re.fullmatch(r"[a-z]+", words[0]) and words[0] not in self.commands:
            return f"no command './dev {words[0]}'"
        return None if words[:1] == ["up"] else next((f"no {one} of ./dev" for one in options if one not in self.found), None)

    def options(self):
        return self.found


def commands(text):
    """Pipelines and lists, cut into (program, words, options)."""
    for part in re.split(r"\||&&|;|\$\(|<\(", text):
        part = re.split(r"(?:^|\s)#(?:\s|$)", part)[0]
        options = OPTION.findall(part)
        words = [one for one in part.replace("[", " ").replace("]", " ").split() if not one.startswith("-")]
        while words and (words[0] in ("$", "sudo", "exec", "nice", "time", "env") or re.match(r"[A-Z_]+=", words[0])):
            words.pop(0)
        if words:
            yield words[0], words[1:], options


def texts(page):
    """(line, text, whether it is a block of code) of everything that may be a command."""
    in_code, number, begun, start = False, 0, "", 0
    with open(page, encoding="utf-8") as lines:
        whole = lines.read().splitlines()
    is_page = page.endswith(".md")
    if not is_page:
        whole = ["```", *whole, "```"]  # a script is one block of code
    for number, line in enumerate(whole, 1 if is_page else 0):
        if line.lstrip().startswith("```"):
            in_code, begun = not in_code, ""
        elif in_code:
            start = start if begun else number
            begun += line.rstrip("\\")
            if not line.endswith("\\"):
                yield start, begun, True
                begun = ""
    prose = re.sub(r"(?ms)^\s*```.*?^\s*```", lambda block: "\n" * block.group().count("\n"), "\n".join(whole))
    for span in SPAN.finditer(prose):
        yield prose.count("\n", 0, span.start()) + 1, span.group(1).replace("\n", " "), False


def problems(page, tools):
    alone = []
    started = page.endswith((".yaml", "Dockerfile"))
    for number, text, in_code in ((*one, True) for one in deploy_files.commands_in(page)) if started else texts(page):
        for program, words, options in commands(text):
            tool = tools.get(program if program == "./dev" else os.path.basename(program))
            if tool and (problem := tool.problem(words, options)):
                yield number, problem
        if not in_code and text.startswith("--"):
            alone += [(number, one) for one in OPTION.findall(text)]
    every = FOREIGN.union(*(tool.options() for tool in tools.values()))
    yield from ((number, f"no program here has {one}") for number, one in alone if one not in every)


def main():
    programs = [os.path.abspath(path) for path in sys.argv[1:]]
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    tools = {"./dev": Dev()}
    for path in programs:
        tools[os.path.basename(path)] = Shoal(path) if os.path.basename(path) == "shoal" else Program(path)
    pages = [*glob.glob("*.md"), *glob.glob("docs/*.md"), "deploy/container/Dockerfile"]
    pages += [*glob.glob("deploy/**/*.sbatch", recursive=True), *glob.glob("deploy/**/*.yaml", recursive=True)]
    found = [f"{page}:{number}: {problem}" for page in sorted(pages)
             if page not in HISTORY for number, problem in problems(page, tools)]
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
