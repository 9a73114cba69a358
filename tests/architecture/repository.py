"""The files that belong to the project, as the house rules read them."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "latecomer"
PURE = ("model", "messages", "wire", "core")

NOT_OURS = {".git", ".venv", "build", "dist", "__pycache__", ".hypothesis"} | {
    f".{tool}_cache" for tool in ("mypy", "pytest", "ruff", "import_linter")
}


@cache
def files() -> tuple[Path, ...]:
    """What git has or would take; outside a git checkout, everything but environments and caches."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True
    ) if (ROOT / ".git").exists() else None  # fmt: skip
    if listing is not None and listing.returncode == 0:
        found = [ROOT / name for name in listing.stdout.decode().split("\0") if name]
    else:
        found = [p for p in ROOT.rglob("*") if not NOT_OURS.intersection(p.relative_to(ROOT).parts)]
    return tuple(sorted(path for path in found if path.is_file()))


def sources(*packages: str) -> list[Path]:
    """The Python files of the product, or of some of its packages."""
    folders = [SOURCE / package for package in packages] or [SOURCE]
    return [p for p in files() if p.suffix == ".py" and any(p.is_relative_to(folder) for folder in folders)]


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def place(path: Path, node: ast.AST | int) -> str:
    line = node if isinstance(node, int) else getattr(node, "lineno", 0)
    return f"{path.relative_to(ROOT)}:{line}"


def functions(module: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def dotted(node: ast.expr) -> str:
    """`a.b.c` of a chain of names, and nothing of anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (head := dotted(node.value)):
        return f"{head}.{node.attr}"
    return ""
