"""Reading a scenario file: whatever it holds, the answer is a scenario or one sentence with the key and the line."""

from __future__ import annotations

from pathlib import Path

import msgspec

from latecomer.core.routing import Routing
from latecomer.model.errors import SettingsError
from latecomer.model.toml_text import SIZE_MAX, Shape, TomlText, decode_text, sentence
from latecomer.sim.durations import Duration, read_duration
from latecomer.sim.scenario import Ask, Client, Demand, Fault, Publish, Scenario, Step, Store, Topics, Workload
from latecomer.sim.topologies import Network

SHAPE = Shape(
    "a scenario",
    tables={
        "": Scenario,
        "client": Client,
        "store": Store,
        "workload": Workload,
        "workload.topics": Topics,
        "demand": Demand,
        "step": Step,
        "step.publish": Publish,
        "step.request": Ask,
    },
    families={
        "topology": ("topology", Network),
        "routing": ("routing strategy", Routing),
        "fault": ("fault", Fault),
    },
)


def read_text(path: Path) -> str:
    """The text of a scenario file, if it is one that can be read."""
    source = str(path)
    try:
        with path.open("rb") as file:
            data = file.read(SIZE_MAX + 1)
    except OSError as error:
        raise SettingsError("", f"cannot be read: {error.strerror}", source=source) from None
    except ValueError:
        raise SettingsError("", "is not the name of a file", source=repr(source)) from None
    return decode_text(data, source, "scenario")


def convert(text: TomlText) -> Scenario:
    """The scenario, with every key known and every value of the right type."""
    text.check_numbers()
    try:
        return msgspec.convert(text.data, Scenario, dec_hook=_decode)
    except msgspec.ValidationError as error:
        raise sentence(text, SHAPE, str(error)) from None


def _decode(kind: type, value: object) -> object:
    assert kind is Duration
    return read_duration(value)
