"""The house rules, as far as a machine can read them: CONTRIBUTING.md says why."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.repository import PURE, ROOT, SOURCE, dotted, files, functions, place, sources, tree
from tests.architecture.setwalks import walks_over_sets

FILE_LINES = 500
FUNCTION_LINES = 70


# --- size ---


def test_files_are_small() -> None:
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in sources()}
    assert lengths
    assert [f"{place(path, lines)} lines" for path, lines in lengths.items() if lines > FILE_LINES] == []


def test_functions_are_short() -> None:
    too_long = [
        f"{place(path, function)} {function.name}: {lines} lines"
        for path in sources()
        for function in functions(tree(path))
        if (lines := (function.end_lineno or 0) - function.lineno + 1) > FUNCTION_LINES
    ]
    assert too_long == []


# --- no code from data ---

FORBIDDEN_MODULES = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "marshal", "shelve"}
FORBIDDEN_CALLS = {
    "eval",
    "exec",
    "builtins.eval",
    "builtins.exec",
    "__import__",
    "yaml.load",
    "yaml.unsafe_load",
}
UNSAFE_XML = ("xml.etree", "xml.dom", "xml.sax", "xml.parsers", "lxml")
HARMLESS_XML = {"Element", "ParseError"}


def imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [name.name for name in node.names]
    if isinstance(node, ast.ImportFrom) and node.module and not node.level:
        return [node.module, *(f"{node.module}.{name.name}" for name in node.names)]
    return []


def test_no_code_comes_from_data() -> None:
    wrong = []
    for path in sources():
        for node in ast.walk(tree(path)):
            for name in imported(node):
                if name.partition(".")[0] in FORBIDDEN_MODULES or name in FORBIDDEN_CALLS:
                    wrong.append(f"{place(path, node)} imports {name}")
            if isinstance(node, ast.Call) and dotted(node.func) in FORBIDDEN_CALLS:
                wrong.append(f"{place(path, node)} calls {dotted(node.func)}")
    assert wrong == []


def test_xml_is_read_with_defusedxml_only() -> None:
    """The standard library lends its types and errors; it may not read."""
    wrong = []
    for path in sources():
        for node in ast.walk(tree(path)):
            modules = [name for name in imported(node) if name.startswith(UNSAFE_XML)]
            names = [alias.name for alias in node.names] if isinstance(node, ast.ImportFrom) else [""]
            if modules and not HARMLESS_XML.issuperset(names):
                wrong.append(f"{place(path, node)} imports {modules[-1]}")
    assert wrong == []


# --- a seed is a run ---


def test_the_pure_packages_walk_over_no_set() -> None:
    wrong = [
        f"{place(path, found)} walks over {ast.unparse(found)}: wrap it in sorted(), or keep a dict"
        for path in sources(*PURE)
        for found in walks_over_sets(tree(path))
    ]
    assert wrong == []


# --- layers ---


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    """import-linter over the `latecomer` that stands in this folder, with the contracts of the project."""
    program = (
        "import sys; from importlinter.cli import lint_imports;"
        f"sys.exit(lint_imports({str(ROOT / 'pyproject.toml')!r}, no_cache=True, no_logo=True))"
    )
    return subprocess.run(
        [sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=False, timeout=120
    )


def test_the_layers_hold() -> None:
    done = lint_imports(ROOT / "src")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("module", "line", "contract"),
    [
        ("core/planted.py", "import socket", "No clock"),
        ("core/planted.py", "from random import shuffle", "No clock"),
        ("messages/planted.py", "import latecomer.wire", "Imports go down"),
        ("wire/planted.py", "import latecomer.core", "Imports go down"),
        ("planted/__init__.py", "", "Imports go down"),
    ],
)
def test_a_planted_violation_is_found(module: str, line: str, contract: str, tmp_path: Path) -> None:
    copy = tmp_path / "latecomer"
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    (copy / module).parent.mkdir(exist_ok=True)
    (copy / module).write_text(line + "\n", encoding="utf-8")
    done = lint_imports(tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(rf"{contract}.*BROKEN", done.stdout), done.stdout


# --- nothing of the machine it was written on ---

# Written in pieces, so that this file does not contain what it forbids.
MACHINE_FOLDERS = ("wo" + "rk", "ro" + "ot", "op" + "t")
REGISTRIES = (
    "py" + "pi.org",
    "python" + "hosted.org",
    "np" + "mjs.",
    "ana" + "conda.org",
    "maven" + ".org",
    "crates" + ".io",
)
TELLTALE = re.compile(
    rf"(?<![\w.~*)}}$-])/(?:{'|'.join(MACHINE_FOLDERS)})(?![\w-])"
    rf"|{'|'.join(re.escape(host) for host in REGISTRIES)}"
)


def test_no_file_names_a_machine_or_a_registry() -> None:
    wrong = []
    for path in files():
        for number, line in enumerate(path.read_bytes().decode("utf-8", "replace").splitlines(), 1):
            if found := TELLTALE.search(line):
                wrong.append(f"{place(path, number)} contains {found[0]}")
    assert wrong == []


def test_the_telltale_is_recognised() -> None:
    for folder in MACHINE_FOLDERS:
        assert TELLTALE.search(f"see /{folder}/notes")
        assert TELLTALE.search(f"file:///{folder}/notes")
        assert not TELLTALE.search(f"home/{folder}/notes")
    for host in REGISTRIES:
        assert TELLTALE.search(f"https://{host}simple")


# --- documentation ---

MARKDOWN_LINK = re.compile(r"(?<!\\)\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)|(?:src|srcset|href)=\"([^\"]+)\"")
FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
INLINE_CODE = re.compile(r"`[^`\n]+`")


def anchors(path: Path) -> set[str]:
    """The names that headings get on a rendered page."""
    headings = re.findall(r"^#+\s+(.*?)\s*#*$", FENCE.sub("", path.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_local_links_resolve() -> None:
    wrong = []
    pages = [path for path in files() if path.suffix == ".md"]
    assert pages
    for page in pages:
        text = INLINE_CODE.sub("", FENCE.sub("", page.read_text(encoding="utf-8")))
        for target in (a or b for a, b in MARKDOWN_LINK.findall(text)):
            if re.match(r"[a-z]+:", target):
                continue
            name, _, anchor = target.partition("#")
            file = (ROOT / name[1:] if name.startswith("/") else page.parent / name) if name else page
            missing_anchor = anchor and file.suffix == ".md" and file.exists() and anchor not in anchors(file)
            if not file.exists() or missing_anchor:
                wrong.append(f"{page.relative_to(ROOT)} links to {target}")
    assert wrong == []
