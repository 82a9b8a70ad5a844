"""Write commands.md, settings.md, rpc.md and api.md of docs/ from the program itself: python docs/generate.py."""

import ast
import inspect
import json
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import NamedTuple, get_args, get_origin

import click

import annai
from annai import answers, opening
from annai.interfaces.cli import cli
from annai.interfaces.rpc import METHODS, Service
from annai.project import OPERATIONS
from annai.settings import COLLECTIONS_TEXT, SECTIONS, default_text, explain
from annai.values import TypeHint, choices

DOCS = Path(__file__).parent


def commands_page() -> str:
    """Every command with its help."""
    lines = ["# Commands", "", "Generated from the program; `make docs` updates this page."]
    for name, command, context in _commands(cli, click.Context(cli, info_name="annai", **cli.context_settings)):
        lines += ["", f"## {name}", "", "```text", command.get_help(context).rstrip(), "```"]
    return "\n".join(lines) + "\n"


def settings_page() -> str:
    """Every setting with its meaning and default."""
    lines = [
        "# Settings",
        "",
        "Generated from the program; `make docs` updates this page. All settings are optional. annai reads them from",
        "`annai.toml` (`annai init` writes one), named by `--config PATH` or the variable `ANNAI_CONFIG`, or found in",
        "the current folder or above it. `[tool.annai]` in `pyproject.toml` works too. What a cloned repository may",
        "not set by itself, [security.md](security.md) says.",
    ]
    for name, section in SECTIONS.items():
        lines += ["", f"## [{name}]", "", "| key | default | meaning |", "|---|---|---|"]
        lines += [f"| `{item.name}` | `{default_text(item)}` | {explain(item)} |" for item in fields(section)]
    lines += ["", "## [collections.NAME.embedding]", "", *COLLECTIONS_TEXT]
    return "\n".join(lines) + "\n"


def rpc_page() -> str:
    """Every call that a server answers."""
    lines = [
        "# JSON-RPC",
        "",
        "Generated from the program; `make docs` updates this page. A server (`annai server start`) answers JSON-RPC",
        "2.0 at `/rpc`: one call or a batch of up to 100, by `POST`, with `Authorization: Bearer TOKEN` (`annai",
        "token owner` prints it). Parameters go by name or in order; paths of folders are absolute. An error's",
        "`message` is a sentence that says what to do; `data.kind` names its class in `annai.errors`, and",
        "`data.remedy` is the part that says what to do, if there is one. Answers are the values of",
        "[the Python API](api.md) as JSON. A call marked *waiting* may wait for the index, one marked *long* until",
        "everything is indexed. The answers to one message have at most 50 MB together, or five times",
        "`files.max_file_mb`; an answer beyond is an error, and a document's text stands in an answer once.",
        "",
        "```sh",
        "curl -s -H \"Authorization: Bearer $(annai token owner)\" -H 'Content-Type: application/json' \\",
        '  -d \'{"jsonrpc": "2.0", "id": 1, "method": "search", "params": {"query": "apple"}}\' \\',
        "  http://127.0.0.1:24280/rpc",
        "```",
    ]
    for name, method in sorted(METHODS.items()):
        function = OPERATIONS[name].method if name in OPERATIONS else getattr(Service, name)
        signature = inspect.signature(function)
        lines += ["", f"## {name}", "", inspect.getdoc(function) or ""]
        if method.duration != "short":
            lines[-1] += f" (*{method.duration}*)"
        if method.hints:
            lines += ["", "| parameter | type | default |", "|---|---|---|"]
        for parameter, hint in method.hints.items():
            default = signature.parameters[parameter].default
            shown = "required" if default is inspect.Parameter.empty else f"`{json.dumps(default)}`"
            lines.append(f"| `{parameter}` | {_type_text(hint)} | {shown} |")
    return "\n".join(lines) + "\n"


def _type_text(hint: TypeHint) -> str:
    """A type as JSON has it, in words."""
    if allowed := choices(hint):
        return ", ".join(f"`{each}`" for each in allowed)
    inner = [each for each in get_args(hint) if each not in (type(None), Ellipsis)]
    if inner:
        text = _type_text(inner[0])
        origin: TypeHint = get_origin(hint)
        return f"a list of: {text}" if origin in (tuple, list, Sequence) else text
    names = {str: "string", int: "integer", float: "number", bool: "boolean", Path: "absolute path"}
    return names[hint]


class Definition(NamedTuple):
    """A function, a class or a type alias, as the source has it."""

    node: ast.FunctionDef | ast.ClassDef | ast.Assign
    text: str
    """What stands under it."""
    source: str
    """The whole file's."""


def api_page() -> str:
    """Every public name of the package, and the values that these take and return, as their source documents them."""
    known = _definitions()
    reached = ["open"]
    for name in reached:  # in the order in which a reader comes upon them
        used = [each.id for each in ast.walk(known[name].node) if isinstance(each, ast.Name)]
        reached += [each for each in dict.fromkeys(used) if each in known and each not in reached]
    classes = [name for name in reached if isinstance(known[name].node, ast.ClassDef)]
    titles = {name: f"annai.{name}" if name in annai.__all__ else name for name in ("open", *classes)}
    lines = [
        "# Python API",
        "",
        "Generated from the program; `make docs` updates this page. [The guide](python.md) has examples. Import from",
        "`annai` what is written with it here; the other names are what these take and return.",
    ]
    for name, title in titles.items():
        lines += ["", f"## {title}", "", *_described(known[name], titles)]
    lines += ["", "## Type aliases", ""]
    lines += [_item(ast.unparse(known[name].node), known[name].text) for name in reached if name not in titles]
    lines += ["", "## Errors", "", "Import them from `annai`. Catching one also catches those below it.", ""]
    errors = [getattr(annai, name) for name in annai.__all__ if name not in reached]
    for error in sorted(errors, key=lambda error: [each.__name__ for each in reversed(error.mro())]):
        lines.append("    " * (error.mro().index(Exception) - 1) + _item(error.__name__, inspect.getdoc(error) or ""))
    return "\n".join(lines) + "\n"


def _definitions() -> dict[str, Definition]:
    """`annai.open`, and the classes and type aliases that may be used with it."""
    found: dict[str, Definition] = {}
    for module in ("opening", "project", "answers", "types"):
        source = Path(annai.__file__).with_name(f"{module}.py").read_text(encoding="utf-8")
        for node, text in _with_texts(ast.parse(source).body):
            if isinstance(node, ast.ClassDef) or (isinstance(node, ast.FunctionDef) and node.name in annai.__all__):
                found[node.name] = Definition(node, text, source)
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Subscript):
                found[ast.unparse(node.targets[0])] = Definition(node, text, source)
    return found


def _with_texts(body: Sequence[ast.stmt]) -> Iterator[tuple[ast.stmt, str]]:
    """Every statement, with the string that stands under it."""
    for node, after in zip(body, [*body[1:], ast.Pass()], strict=True):
        match after:
            case ast.Expr(ast.Constant(str(text))):
                yield node, inspect.cleandoc(text)
            case _:
                yield node, ""


def _described(definition: Definition, titles: Mapping[str, str]) -> list[str]:
    """A function with its signature, or a class with its fields, properties and methods."""
    node, _, source = definition
    if isinstance(node, ast.FunctionDef):
        return ["```python", _signature(node, source), "```", "", ast.get_docstring(node) or ""]
    assert isinstance(node, ast.ClassDef)  # noqa: S101 - an alias has nothing more to it
    values, methods = [], []
    for each, text in _with_texts(node.body):
        if isinstance(each, ast.AnnAssign):
            values.append(_item(_field(each), text, _anchor(each.annotation, titles)))
        elif isinstance(each, ast.FunctionDef) and not each.name.startswith("_"):
            if each.returns and "property" in map(ast.unparse, each.decorator_list):
                code = f"{each.name}: {ast.unparse(each.returns)}"
                values.append(_item(code, ast.get_docstring(each) or "", _anchor(each.returns, titles)))
            else:
                methods += ["", f"### {node.name}.{each.name}", "", *_described(Definition(each, "", source), titles)]
    return [ast.get_docstring(node) or "", *([""] if values else []), *values, *methods]


def _signature(node: ast.FunctionDef, source: str) -> str:
    """A function's name, parameters and result, laid out as in the source."""
    lines = source.splitlines()[node.lineno - 1 : node.body[0].lineno - 1]
    code = re.sub(r"  # .*", "", textwrap.dedent("\n".join(lines)))
    return _plain(re.sub(r"\bself(,\s*)?", "", code, count=1).removeprefix("def ").removesuffix(":"))


def _field(node: ast.AnnAssign) -> str:
    """A field with its type and default, without what only the dataclass needs to know."""
    code = re.sub(r"field\(default_factory=(\w+)\)", r"\1()", ast.unparse(node)).replace("dict()", "{}")
    return re.sub(r"field\(default=(.*), compare=False\)", r"\1", code)


def _plain(code: str) -> str:
    """A piece of code with the values that its constants have."""
    constants = vars(opening) | vars(answers)
    return re.sub(r"(?<== )[A-Z_]+\b", lambda name: repr(constants[name[0]]), code).replace("'", '"')


def _item(code: str, text: str, anchor: str = "") -> str:
    shown = f"[`{_plain(code)}`](#{anchor})" if anchor else f"`{_plain(code)}`"
    return f"- {shown}" + (f": {' '.join(text.split())}" if text else "")


def _anchor(hint: ast.expr, titles: Mapping[str, str]) -> str:
    """Where this page describes the first class in a type; empty if it describes none."""
    used = [each.id for each in ast.walk(hint) if isinstance(each, ast.Name) and each.id in titles]
    return titles[used[0]].lower().replace(".", "") if used else ""


PAGES = {"commands.md": commands_page, "settings.md": settings_page, "rpc.md": rpc_page, "api.md": api_page}


def _commands(group: click.Group, context: click.Context) -> Iterator[tuple[str, click.Command, click.Context]]:
    yield context.command_path, group, context
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is None:
            continue
        inner = click.Context(command, info_name=name, parent=context)
        if isinstance(command, click.Group):
            yield from _commands(command, inner)
        else:
            yield inner.command_path, command, inner


if __name__ == "__main__":
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), encoding="utf-8")
