"""Writes docs/reference/conformance.md: every statement of the specifications, with its test or the reason it has none.

    python tests/conformance/page.py

It reads the citations from the source of the tests, so the page cannot name a test that does not exist.
"""

from __future__ import annotations

import ast
import runpy
from collections import Counter
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "reference" / "conformance.md"

Statements = dict[str, tuple[str, str]]
CHAPTERS = {
    "1": "Data representation",
    "2": "Control packet format",
    "3.1": "CONNECT",
    "3.2": "CONNACK",
    "3.3": "PUBLISH",
    "3.4": "PUBACK",
    "3.5": "PUBREC",
    "3.6": "PUBREL",
    "3.7": "PUBCOMP",
    "3.8": "SUBSCRIBE",
    "3.9": "SUBACK",
    "3.10": "UNSUBSCRIBE",
    "3.11": "UNSUBACK",
    "3.12": "PINGREQ",
    "3.14": "DISCONNECT",
    "3.15": "AUTH",
    "4": "Operational behaviour",
    "6": "WebSocket",
    "7": "Conformance",
}

INTRODUCTION = """# Conformance

Every numbered statement of the two specifications, with the tests that hold the broker to it or the reason why it has
none. The wording here is ours and short; the specifications have the last word. The tests are black boxes: they speak
to a running broker over a socket, with an encoder and a decoder of their own, and the decoder checks the form of
whatever it receives.

```
.venv/bin/pytest tests/conformance                                   # a broker started for the tests
LATECOMER_CONFORMANCE=host:port .venv/bin/pytest tests/conformance   # one that runs already
LATECOMER_CONFORMANCE_COMMAND="mosquitto -p {port}" .venv/bin/pytest tests/conformance
```

This page is written by `tests/conformance/page.py`.

## Choices

Where the specifications leave a choice, or let a server have limits:

- Overlapping subscriptions of one client get one copy or several; the tests accept both (3.3.4).
- A 3.1.1 client that asks for no keep alive, or for one above `limits.keep_alive_max_s`, is refused unless
  `limits.keep_alive_allow_longer` is set; an MQTT 5 client is told the Server Keep Alive.
- Behind a `?` in the topic filter of a 3.1.1 client stands a content filter; a filter that has a `?` and no content
  filter behind it is refused. In MQTT 5 a `?` is a character like others.
- Names and filters have at most 1024 bytes and 128 levels; more is answered with 0x90 and 0x8F.
- There is no enhanced authentication; every method is refused with 0x8C.
"""


def statements(version: str) -> Statements:
    found: Statements = runpy.run_path(str(HERE / f"statements_{version}.py"))["STATEMENTS"]
    return found


def reasons(version: str) -> dict[str, str]:
    found: dict[str, str] = runpy.run_path(str(HERE / "reasons.py"))[version.upper()]
    return found


def citations(version: str) -> dict[str, list[str]]:
    """Statement → tests that cite it with `@v5(...)` or `@v311(...)`, as `file::test`."""
    found: dict[str, list[str]] = {}
    for path in sorted(HERE.glob("test_*.py")):
        for node in ast.parse(path.read_text("utf-8")).body:
            if not isinstance(node, ast.FunctionDef):
                continue
            for decorator in node.decorator_list:
                if isinstance(decorator, ast.Call) and getattr(decorator.func, "id", "") == version:
                    for argument in decorator.args:
                        assert isinstance(argument, ast.Constant)
                        found.setdefault(str(argument.value), []).append(f"{path.stem}::{node.name}")
    return found


def chapter(statement: str) -> str:
    first, second = statement.removeprefix("MQTT-").split("-")[0].split(".")[:2]
    return f"{first}.{second}" if first == "3" else first


def table(version: str, title: str) -> list[str]:
    known, cited, excused = statements(version), citations(version), reasons(version)
    ours = {name: who for name, (who, _) in known.items() if who != "client"}
    tested = sum(name in cited for name in ours)
    count = Counter(who for who, _ in known.values())
    lines = [
        f"## {title}",
        "",
        f"{len(known)} statements: {count['server']} for servers, {count['client']} for clients, {count['both']} for"
        f" both. Of the {len(ours)} that concern a broker {tested} have a test, and {len(ours) - tested} a reason.",
    ]
    last = ""
    for name, (who, text) in known.items():
        if chapter(name) != last:
            last = chapter(name)
            lines += ["", f"### {title}, {last} {CHAPTERS[last]}", "", "| statement | for | asks | test or reason |"]
            lines += ["|---|---|---|---|"]
        tests = "<br>".join(f"`{test}`" for test in cited.get(name, []))
        lines.append(f"| {name} | {who} | {text} | {tests or excused.get(name, 'MISSING')} |")
    return lines


def text() -> str:
    """The page as it should be."""
    lines = [INTRODUCTION, *table("v5", "MQTT 5.0"), "", *table("v311", "MQTT 3.1.1"), ""]
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(text(), "utf-8")
