"""What `latecomer plan` and `latecomer replan` read: networks, demand and limits, in files or in a few words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any, get_args

import msgspec

from latecomer.model.demand import Demand, read_demand
from latecomer.model.errors import SettingsError
from latecomer.model.plan import Plan, PlanLimits, read_plan
from latecomer.model.toml_text import SIZE_MAX, Shape, TomlText, choose, decode_text, sentence
from latecomer.model.topology import Node, Topology, quoted
from latecomer.runtime.amounts import size_bytes
from latecomer.runtime.network_file import read_network
from latecomer.sim.durations import Duration, read_duration
from latecomer.sim.topologies import FromFile, Given
from latecomer.sim.topologies import Network as Rule

TOPOLOGY = "--topology"
LIVE = "live:"
WRONG_TYPE = re.compile(r"Expected `(?P<type>\w+)`, got `\w+` - at `\$\.(?P<key>\w+)`$")
NOUNS = {"int": "a whole number", "float": "a number", "bool": "true or false"}
SUFFIXES = (".jsonl", ".graphml", ".toml")
RULES = {str(rule.__struct_config__.tag): rule for rule in get_args(Rule) if rule not in (FromFile, Given)}
"""Networks made by rule, the same that a scenario can ask for."""
SHARED = ("latency", "jitter", "jitter_shape", "seed")
"""Keys that every rule has; only by name."""
MAX_BYTES = 1 << 30
BROKERS_MAX = 20_000
REASONS_MOST = 3
_SHAPE = Shape("a limits file", tables={"": PlanLimits})
_DEMAND_KEYS = ("topics", "rates", "publications", "sizes", "window_s", "requests")
_OPTIONS = {"stores": "--stores", "capacity": "--capacity", "capacity_bytes": "--capacity"}
_OPTIONS |= {"min_replicas": "--min-replicas", "survive_loss": "--survive-loss", "replica_rule": "--replicas"}


# --- networks ---


def read_network_words(words: str, token_file: Path | None = None) -> Topology:
    """A network as it is named on a command line: `zoo.jsonl:Abilene`, `net.graphml`, `network.toml` or `tree:15,3`;
    `live:URL` is the tree on which the requests of a running network travel."""
    if words.startswith(LIVE):
        from latecomer.cli.live_network import read_live

        return _plannable(read_live(words.removeprefix(LIVE), token_file).topology)
    file, name = _file_and_name(words)
    kind, _, values = words.partition(":")
    if file is not None:
        return _plannable(_from_file(file, name))
    if kind in RULES:
        return _plannable(_by_rule(kind, values))
    known = ", ".join(RULES)
    told = f"{quoted(words)} is neither a file ({', '.join(SUFFIXES)}) nor a network by rule, such as tree:15"
    raise SettingsError(TOPOLOGY, f"{told}; rules are {known}")


def _plannable(topology: Topology) -> Topology:
    """Distances between all pairs must fit into memory."""
    if len(topology.nodes) > BROKERS_MAX:
        told = f"{len(topology.nodes):,} brokers are more than the {BROKERS_MAX:,} that a plan can have"
        raise SettingsError(TOPOLOGY, told)
    return topology


def _file_and_name(words: str) -> tuple[Path | None, str | None]:
    """Where the words name a file; a colon may be part of its name, or stand before the name of a network."""
    if words.endswith(SUFFIXES) or (words and Path(words).is_file()):
        return Path(words), None
    before, colon, name = words.rpartition(":")
    if colon and (before.endswith(SUFFIXES) or (before and Path(before).is_file())):
        return Path(before), name
    return None, None


def _from_file(file: Path, name: str | None) -> Topology:
    if file.suffix == ".toml":
        network = read_network(file)
        return Topology(network.name, tuple(Node(seat.id) for seat in network.brokers), network.links)
    try:
        return FromFile(path=str(file), name=name).build(Random(0), Path())
    except SettingsError as error:
        if error.source is not None:
            raise
        if error.key == "name" and name is None:
            told = f"{error.problem.removeprefix('is missing, and ')}; say which, as in {file}:NAME"
            raise SettingsError(TOPOLOGY, told) from None
        raise error.at(TOPOLOGY) from None


def _by_rule(kind: str, values: str) -> Topology:
    """`tree:15,3`, `tree:brokers=15,degree=3`, `random:30,10,seed=4`; without a seed, it is 1."""
    rule = RULES[kind]
    keys = [key for key in rule.__struct_fields__ if key not in SHARED]
    given: dict[str, Any] = {}
    for position, word in enumerate(part.strip() for part in values.split(",") if part.strip()):
        key, named, value = word.partition("=")
        if not named:
            if position >= len(keys):
                raise SettingsError(TOPOLOGY, f"{kind} takes {_listed(keys)}, so what is {quoted(word)}?")
            key, value = keys[position], word
        given[key.strip()] = value.strip()
    try:
        made = msgspec.convert(given, rule, strict=False, dec_hook=_duration)
        built: Topology = made.build(Random(made.seed if made.seed is not None else 1), Path())
    except msgspec.ValidationError as error:
        hint = choose(next((key for key in given if key not in rule.__struct_fields__), ""), [*keys, *SHARED])
        told = str(error).replace("Object ", "").replace("`", "'")
        if found := WRONG_TYPE.match(str(error)):
            key = found["key"]
            raise SettingsError(
                TOPOLOGY, f"{kind}: {key} must be {NOUNS.get(found['type'], found['type'])}, not {quoted(given[key])}"
            ) from None
        raise SettingsError(TOPOLOGY, f"{kind}: {told[:1].lower()}{told[1:]}; {hint}") from None
    except SettingsError as error:
        raise SettingsError(TOPOLOGY, f"{kind}: {error}") from None
    return built


def _duration(kind: type, value: object) -> object:
    assert kind is Duration
    return read_duration(value)


def _listed(keys: list[str]) -> str:
    return " and ".join(keys) if keys else "nothing"


# --- files ---


def read_text(file: Path, option: str) -> str:
    """A text file that the operator named with an option."""
    try:
        if file.stat().st_size > MAX_BYTES:
            raise SettingsError(option, f"{str(file)!r} is larger than {MAX_BYTES >> 30} GiB")
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise SettingsError(option, f"{str(file)!r} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SettingsError(option, f"{str(file)!r} is not UTF-8 text") from None


def write_text(file: Path, option: str, text: str) -> None:
    """Whole or not at all: an interrupted run leaves what was there."""
    with whole_file(file, option) as partial:
        partial.write_text(text, encoding="utf-8")


@contextmanager
def whole_file(file: Path, option: str) -> Iterator[Path]:
    """A file beside it to write to, which becomes `file` when that has succeeded."""
    if not file.name:
        raise SettingsError(option, f"{str(file)!r} is a folder; name a file in it")
    partial = file.with_name(file.name + ".part")
    try:
        yield partial
        partial.replace(file)
    except OSError as error:
        raise SettingsError(option, f"{str(file)!r} cannot be written: {error.strerror}") from None
    finally:
        with suppress(OSError):
            partial.unlink()


def read_demand_file(file: Path) -> Demand:
    return read_demand(read_text(file, "--demand"), str(file))


def read_plan_file(file: Path, option: str = "--plan") -> Plan:
    """A plan; of a file that is none, what it should be is told instead of the byte at which JSON ends."""
    text = read_text(file, option)
    if not text.lstrip().startswith("{"):
        told = f"{str(file)!r} is not a plan; name a file that 'latecomer plan --out' wrote"
        raise SettingsError(option, told)
    return read_plan(text, str(file))


# --- limits ---


def read_limits(file: Path | None, options: Mapping[str, Any], usual: PlanLimits | None = None) -> PlanLimits:
    """The limits of a file (TOML or JSON), or the usual ones; with those of the command line in front of them."""
    given = {key: value for key, value in options.items() if value is not None and value is not False}
    limits = (usual or PlanLimits()) if file is None else _limits_file(file)
    if isinstance(written := given.pop("capacity", None), str):
        amount = _capacity(written)
        given |= amount | dict.fromkeys({"capacity", "capacity_bytes"} - amount.keys(), 0)
    for key, value in given.items():
        if isinstance(value, int) and value < 0:
            raise SettingsError(_OPTIONS[key], f"{value} is not possible; it must be at least 0")
    chosen = msgspec.structs.replace(limits, **given)
    if chosen.survive_loss and not chosen.min_replicas:
        # A topic that is kept once is lost with its store, wherever that is.
        return msgspec.structs.replace(chosen, min_replicas=2, replica_rule=chosen.rule())
    return chosen


def _capacity(written: str) -> dict[str, int]:
    """`5` is topics, `20GB` is bytes."""
    try:
        if written.isascii() and written.isdecimal() and len(written) < 19:
            return {"capacity": int(written)}
        return {"capacity_bytes": size_bytes(written)}
    except ValueError:
        told = f"{quoted(written)} is not a capacity; write topics, as in 5, or bytes, as in 20GB"
        raise SettingsError("--capacity", told) from None


def _limits_file(file: Path) -> PlanLimits:
    text = read_text(file, "--limits")
    if text.lstrip().startswith("{"):
        return _limits_json(text, str(file))
    toml = TomlText(decode_text(text.encode()[: SIZE_MAX + 1], str(file), "limits file"), str(file))
    toml.check_numbers(finite=True)
    try:
        return msgspec.convert(_with_sizes(toml.data), PlanLimits)
    except msgspec.ValidationError as error:
        raise sentence(toml, _SHAPE, str(error)) from None
    except SettingsError as error:
        raise toml.wrong(error.key.split("."), error.problem) from None


def _limits_json(text: str, source: str) -> PlanLimits:
    try:
        return msgspec.convert(_with_sizes(msgspec.json.decode(text, type=dict[str, Any])), PlanLimits)
    except (msgspec.DecodeError, ValueError, OverflowError, RecursionError) as error:
        raise SettingsError("limits", f"not limits: {error}", source=source) from None
    except SettingsError as error:
        raise error.at(error.key, source=source) from None


def _with_sizes(data: dict[str, Any]) -> dict[str, Any]:
    """Bytes may be written as `20GB`."""
    found = dict(data)
    if isinstance(each := found.get("capacity_bytes"), str):
        found["capacity_bytes"] = _size("capacity_bytes", each)
    if isinstance(some := found.get("capacities_bytes"), dict):
        found["capacities_bytes"] = {
            broker: _size(f"capacities_bytes.{broker}", size) if isinstance(size, str) else size
            for broker, size in some.items()
        }
    return found


def _size(key: str, written: str) -> int:
    try:
        return size_bytes(written)
    except ValueError as error:
        raise SettingsError(key, str(error)) from None


def placed(error: SettingsError, demand: Path | None, limits: Path | None, options: Mapping[str, Any]) -> SettingsError:
    """The same error with the file or option in which its key stands, and not a page long."""
    if reasons := getattr(error, "reasons", ()):
        shown = [*reasons[: REASONS_MOST - 1], reasons[-1]] if len(reasons) > REASONS_MOST else reasons
        more = f" (and {len(reasons) - len(shown)} more reasons)" if len(reasons) > len(shown) else ""
        return SettingsError("limits", "; ".join(shown) + more)
    head = error.key.partition(".")[0]
    if error.source is not None or not head:
        return error
    if head in _DEMAND_KEYS:
        return error.at(error.key, source=str(demand))
    if head in _OPTIONS and options.get("capacity" if head == "capacity_bytes" else head):
        return error.at(_OPTIONS[head])
    if limits is not None and head in PlanLimits.__struct_fields__:
        return error.at(error.key, source=str(limits))
    return error
