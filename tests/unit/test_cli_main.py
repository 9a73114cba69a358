"""The command line as a whole: whatever happens, the user reads a sentence and the shell a number."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import typer

from latecomer import __version__
from latecomer.cli.main import VERBS, Later, Verb, run
from latecomer.model.errors import FilterError, ProtocolError, SettingsError

Capture = pytest.CaptureFixture[str]


def raising(error: BaseException) -> list[tuple[str, Callable[..., None]]]:
    def verb(seed: int = 0) -> None:
        raise error

    return [("verb", verb)]


def test_the_version_is_printed(capsys: Capture) -> None:
    assert run(VERBS, ["--version"]) == 0
    assert capsys.readouterr().out == f"latecomer {__version__}\n"


@pytest.mark.parametrize("arguments", [[], ["--help"]])
def test_help_lists_every_verb(arguments: list[str], capsys: Capture) -> None:
    assert run(VERBS, arguments) == 0
    shown = capsys.readouterr().out
    assert "Usage: latecomer" in shown
    assert all(name in shown for name, _ in VERBS)


@pytest.mark.parametrize(("name", "verb"), VERBS)
def test_the_list_says_what_the_verb_itself_says(name: str, verb: Verb, capsys: Capture) -> None:
    assert isinstance(verb, Later)
    loaded = verb.load()
    said = loaded.info.help if isinstance(loaded, typer.Typer) else loaded.__doc__
    assert isinstance(said, str)
    assert said.splitlines()[0] == verb.help
    assert run(VERBS, [name, "--help"]) == 0
    assert f"Usage: latecomer {name} " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "not_needed"),
    [
        (["--version"], ["latecomer.core", "latecomer.runtime", "latecomer.sim", "paho", "pyarrow"]),
        (["pub", "--help"], ["latecomer.runtime", "pyarrow"]),
        (["broker", "--check"], ["latecomer.sim", "paho", "pyarrow"]),
    ],
)
def test_a_verb_loads_what_it_needs_and_no_more(arguments: list[str], not_needed: list[str]) -> None:
    """Seconds to start, and megabytes for each broker of a network."""
    script = (
        "import sys\n"
        "from latecomer.cli.main import VERBS, run\n"
        f"assert run(VERBS, {arguments!r}) == 0\n"
        f"loaded = [name for name in {not_needed!r} if name in sys.modules]\n"
        "sys.exit(f'loaded: {loaded}' if loaded else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (SettingsError("routing.strategy", "there is no 'flod'", source="a.toml", line=3),
         "a.toml:3: routing.strategy: there is no 'flod'"),
        (FilterError("a/#/b", "# is not last", position=2),
         "filter: # is not last at character 3 in 'a/#/b'"),
        (ProtocolError("a frame of\n9 GB"), "a frame of; 9 GB"),
        (FileNotFoundError(2, "No such file or directory", "a.toml"), "a.toml: No such file or directory"),
    ],
)  # fmt: skip
def test_what_the_user_did_wrong_is_one_line_and_exit_code_2(error: Exception, sentence: str, capsys: Capture) -> None:
    assert run(raising(error), ["verb"]) == 2
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", f"latecomer: {sentence}\n")


@pytest.mark.parametrize(
    "arguments",
    [["nothing-like-it"], ["verb", "--nothing-like-it"], ["verb", "--seed", "many"], ["verb", "more"]],
)
def test_a_wrong_command_line_is_one_line_and_exit_code_2(arguments: list[str], capsys: Capture) -> None:
    assert run(raising(AssertionError("not reached")), arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("latecomer: ")
    assert "--help'." in shown.err
    assert shown.err.count("\n") == 1


def test_an_interrupt_is_one_line_and_exit_code_130(capsys: Capture) -> None:
    assert run(raising(KeyboardInterrupt()), ["verb"]) == 130
    assert capsys.readouterr().err == "latecomer: interrupted\n"


def test_a_verb_says_no_with_exit_code_1(capsys: Capture) -> None:
    assert run(raising(typer.Exit(1)), ["verb"]) == 1
    assert capsys.readouterr().err == ""


def test_a_bug_of_ours_keeps_its_traceback() -> None:
    with pytest.raises(ZeroDivisionError):
        run(raising(ZeroDivisionError()), ["verb"])


@pytest.mark.parametrize("lines", [1, 100_000])
def test_a_reader_who_leaves_is_no_error(lines: int, tmp_path: Path) -> None:
    script = tmp_path / "verbose.py"
    script.write_text(
        "import sys\n"
        "from latecomer.cli.main import run\n"
        "def verb() -> None:\n"
        "    sys.stdin.read()\n"  # waits until the reader has left
        f"    for n in range({lines}): print(n)\n"
        "sys.exit(run([('verb', verb)], ['verb']))\n"
    )
    writer = subprocess.Popen(
        [sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert writer.stdin is not None
    assert writer.stdout is not None
    assert writer.stderr is not None
    writer.stdout.close()
    writer.stdin.close()
    with writer.stderr as complaints:
        assert complaints.read() == b""
    assert writer.wait(timeout=60) == 1


def test_python_m_latecomer_is_the_same_command() -> None:
    done = subprocess.run([sys.executable, "-m", "latecomer", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"latecomer {__version__}\n"
