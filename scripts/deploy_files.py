"""What the files of deploy/ for containers start: the commands in a Dockerfile, in compose files and in manifests of
Kubernetes, as (line, text) for page_commands.py. An image is named after its program, as shoal-agent or
shoal-agent-pytorch; arguments of a container follow those of its image's ENTRYPOINT."""
import json
import re
import shlex

import yaml

PROGRAMS = ("shoal-coordinator", "shoal-agent")


def program_of(image):
    name = image.rsplit("/", 1)[-1].split(":")[0]
    return next((one for one in PROGRAMS if name == one or name.startswith(one + "-")), name)


def split_words(node):
    return [one.value for one in node.value] if isinstance(node, yaml.SequenceNode) else shlex.split(node.value)


def text_of(words):
    """Of `sh -c TEXT` the text. Kubernetes writes a variable as $(NAME)."""
    if words[:2] == ["sh", "-c"] and len(words) > 2:
        return words[2]
    return re.sub(r"\$\((\w+)\)", r"\1", " ".join(words))


def in_yaml(node):
    """Commands below a node: of each mapping with an image (a container), and of hooks and probes (`command`)."""
    if isinstance(node, yaml.SequenceNode):
        for one in node.value:
            yield from in_yaml(one)
    if not isinstance(node, yaml.MappingNode):
        return
    fields = {key.value: value for key, value in node.value}
    is_compose = "services" in fields or "entrypoint" in fields or "build" in fields
    is_container = isinstance(fields.get("image"), yaml.ScalarNode)
    arguments = fields.get("command" if is_compose else "args") if is_container else None
    command = fields.get("entrypoint" if is_compose else "command")
    if isinstance(command, (yaml.SequenceNode, yaml.ScalarNode)) and command is not arguments:
        words = split_words(command) + (split_words(arguments) if arguments else [])
        yield command.start_mark.line + 1, text_of(words)
    elif arguments is not None:
        yield arguments.start_mark.line + 1, text_of([program_of(fields["image"].value), *split_words(arguments)])
    for value in fields.values():
        yield from in_yaml(value)


def in_dockerfile(text):
    """JSON forms of ENTRYPOINT and CMD, and what RUN runs."""
    for match in re.finditer(r"^(?:ENTRYPOINT|RUN|CMD|HEALTHCHECK)\b((?:.*\\\n)*.*)", text, re.M):
        line, body = text.count("\n", 0, match.start()) + 1, match.group(1).replace("\\\n", " ")
        words = re.search(r"\[.*\]", body)
        yield line, text_of(json.loads(words.group())) if words else body


def commands_in(path):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    if path.endswith("Dockerfile"):
        yield from in_dockerfile(text)
    else:
        for document in yaml.compose_all(text, yaml.SafeLoader):
            yield from in_yaml(document)
