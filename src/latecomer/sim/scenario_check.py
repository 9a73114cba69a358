"""What a scenario's keys mean together: the network is connected, whoever is named exists, every filter can be read."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

import msgspec

from latecomer.core.settings import BrokerSettings
from latecomer.model.errors import FilterError, SettingsError
from latecomer.model.filters import parse_filter
from latecomer.model.ids import BrokerId, ClientId
from latecomer.model.toml_text import TomlText, choose
from latecomer.model.topics import check_filter, check_topic
from latecomer.model.topology import Topology, quoted
from latecomer.sim.durations import read_duration, show_duration
from latecomer.sim.scenario import (
    Ask,
    Break,
    Crash,
    Deafen,
    Demand,
    Fault,
    Partition,
    Scenario,
    Stall,
    Step,
    Topics,
    Workload,
)
from latecomer.sim.scenario_file import convert, read_text
from latecomer.sim.topologies import Given

PUBLICATIONS_MAX = 10_000_000
CLIENTS_MAX = 1_000_000
TOPICS_MAX = 1_000_000
"""At most so much in one run: a slip of the finger is a sentence, not a dead machine."""
RATE_MAX = 1_000_000.0
ZIPF_MAX = 10.0
PAYLOAD_MAX = 1024 * 1024

Path_ = tuple[str | int, ...]


class Prepared(msgspec.Struct, frozen=True):
    """A scenario in which everything has been checked, with the network and the settings that follow from it."""

    scenario: Scenario
    topology: Topology
    settings: BrokerSettings

    def dead_at_the_end(self) -> tuple[BrokerId, ...]:
        """Brokers that crash for good."""
        gone = (fault.broker for fault in self.scenario.fault if isinstance(fault, Crash) and fault.duration is None)
        return tuple(dict.fromkeys(gone))


def load(path: Path, seed: int | None = None) -> Prepared:
    """The scenario in a file; `seed` replaces the one it has."""
    return loads(read_text(path), str(path), path.parent, seed, name=path.stem)


def loads(text: str, source: str, folder: Path, seed: int | None = None, *, name: str = "scenario") -> Prepared:
    """The scenario in a text; `source` is what errors call it, `folder` where its topology file stands."""
    parsed = TomlText(text, source)
    scenario = convert(parsed)
    scenario = msgspec.structs.replace(
        scenario, name=scenario.name or name, seed=scenario.seed if seed is None else seed
    )
    return _Check(parsed, scenario, folder).run()


def workload_clients(scenario: Scenario) -> list[tuple[list[ClientId], list[ClientId]]]:
    """Publishers and subscribers that each workload brings with it."""
    found = []
    for number, workload in enumerate(scenario.workload, start=1):
        count = workload.publishers if isinstance(workload.publishers, int) else 0
        publishers = [f"publisher-{number}.{position}" for position in range(1, count + 1)]
        subscribers = [f"subscriber-{number}.{position}" for position in range(1, workload.subscriptions + 1)]
        found.append((publishers, subscribers))
    return found


class _Check:
    def __init__(self, text: TomlText, scenario: Scenario, folder: Path) -> None:
        self.text = text
        self.scenario = scenario
        self.folder = folder
        self.clients: dict[ClientId, int] = {}
        """When each client joins."""

    def run(self) -> Prepared:
        if self.scenario.duration == 0:
            raise self.text.wrong(("duration",), "must be longer than nothing")
        topology = self._topology()
        self.brokers = dict.fromkeys(topology.ids())
        self.links = {(a, b) for link in topology.links for a, b in ((link.a, link.b), (link.b, link.a))}
        settings = self._settings(topology)
        for position, workload in enumerate(self.scenario.workload):
            self._sizes(("workload", position), workload)
        self._clients()
        self._stores()
        for position, workload in enumerate(self.scenario.workload):
            self._workload(("workload", position), workload)
        for position, demand in enumerate(self.scenario.demand):
            self._demand(("demand", position), demand)
        self._steps()
        for position, fault in enumerate(self.scenario.fault):
            self._fault(("fault", position), fault)
        prepared = Prepared(self.scenario, topology, settings)
        self._survivors(prepared)
        return prepared

    # -- the network

    def _topology(self) -> Topology:
        network = self.scenario.topology
        seed = self.scenario.seed if network.seed is None else network.seed
        try:
            topology = network.build(Random(f"{seed}/topology"), self.folder)
            topology.check()
        except SettingsError as error:
            if error.source is not None:
                raise
            if error.key == "topology":
                raise self.text.wrong(("topology", *self._culprit(error.problem)), error.problem) from None
            key = {"n": "brokers", "m": "links_each", "latency_us": "latency"}.get(error.key, error.key)
            raise self.text.wrong(("topology", key), error.problem) from None
        return topology

    def _culprit(self, problem: str) -> Path_:
        """Where brokers and links are given one by one, the list that is wrong."""
        if not isinstance(self.scenario.topology, Given) or "not connected" in problem:
            return ()
        return ("links",) if " link " in problem else ("root",) if " root " in problem else ("brokers",)

    def _settings(self, topology: Topology) -> BrokerSettings:
        routing = self.scenario.routing
        if routing.root is not None:
            self._broker(("routing", "root"), routing.root)
        elif topology.root is not None:
            routing = msgspec.structs.replace(routing, root=topology.root)
        values: dict[str, int | str] = {}
        for key, value in self.scenario.settings.items():
            name, read = self._setting(key, value)
            if name in values:
                raise self.text.wrong(("settings", key), f"is said twice, here and as {quoted(name)}")
            values[name] = read
        try:
            settings = msgspec.convert({**values, "routing": msgspec.to_builtins(routing)}, BrokerSettings)
            settings.check()
        except SettingsError as error:
            raise self._setting_problem(error) from None
        return settings

    def _setting_problem(self, error: SettingsError) -> SettingsError:
        """A setting may clash with one that was left as it is; the complaint goes to the one that was written."""
        for named in re.findall(r"settings\.(\w+)", f"{error.key} {error.problem}"):
            for written in (named, named.removesuffix("_us")):
                if written in self.scenario.settings:
                    clash = "" if error.key.endswith(f".{named}") else f"{error.key}, left as it is, "
                    return self.text.wrong(("settings", written), f"{clash}{error.problem}")
        return self.text.wrong(("settings",), str(error))

    def _setting(self, key: str, value: int | str) -> tuple[str, int | str]:
        path = ("settings", key)
        known = [name for name in BrokerSettings.__struct_fields__ if name not in ("routing", "hand_over")]
        if key == "routing":
            raise self.text.wrong(path, "stands in a table of its own: [routing]")
        if f"{key}_us" in known:
            try:
                return f"{key}_us", int(read_duration(value))
            except ValueError as error:
                raise self.text.wrong(path, str(error)) from None
        if key not in known:
            names = [name.removesuffix("_us") for name in known]
            raise self.text.wrong(path, f"brokers have no such setting; {choose(key, names)}")
        if key == "network":
            if not isinstance(value, str):
                raise self.text.wrong(path, "must be text, not a whole number")
        elif not isinstance(value, int):
            bare = key.removesuffix("_us")
            hint = f' of microseconds; a duration goes by the name {bare} = "{value}"' if bare != key else ""
            raise self.text.wrong(path, f"must be a whole number{hint}")
        return key, value

    # -- clients

    def _clients(self) -> None:
        for position, client in enumerate(self.scenario.client):
            path: Path_ = ("client", position)
            self._new_client((*path, "id"), client.id, -1)
            self._broker((*path, "broker"), client.broker)
            for key in ("subscribe", "advertise"):
                for number, filter in enumerate(getattr(client, key)):
                    self._filter((*path, key, number), filter)
            if client.advertise:
                self._needs_advertisements((*path, "advertise"))
        for position, (publishers, subscribers) in enumerate(workload_clients(self.scenario)):
            for id in (*publishers, *subscribers):
                self._new_client(("workload", position), id, -1)

    def _new_client(self, path: Path_, id: ClientId, at: int) -> None:
        if not id:
            raise self.text.wrong(path, "a client needs a name of at least one character")
        if id in self.clients:
            raise self.text.wrong(path, f"there is already a client {quoted(id)}")
        self.clients[id] = at

    def _stores(self) -> None:
        ends: dict[BrokerId, int | None] = {}
        for position, store in sorted(enumerate(self.scenario.store), key=lambda item: item[1].begin):
            path: Path_ = ("store", position)
            self._broker((*path, "broker"), store.broker)
            if not store.topics:
                raise self.text.wrong((*path, "topics"), "must name a topic filter: what the store shall keep")
            for number, topics in enumerate(store.topics):
                self._topic_filter((*path, "topics", number), topics)
            self._before_the_end((*path, "from"), store.begin)
            if store.until is not None:
                self._before_the_end((*path, "until"), store.until)
                if store.until <= store.begin:
                    raise self.text.wrong((*path, "until"), "must come after the store's beginning")
            before = ends.get(store.broker, 0)
            if before is None or before > store.begin:
                raise self.text.wrong((*path, "broker"), f"{quoted(store.broker)} has a store at that time already")
            ends[store.broker] = store.until

    def _needs_advertisements(self, path: Path_) -> None:
        if not self.scenario.routing.advertisements:
            raise self.text.wrong(path, "is of no use unless routing.advertisements = true")

    # -- workloads

    def _sizes(self, path: Path_, workload: Workload) -> None:
        until = self.scenario.duration if workload.until is None else workload.until
        if isinstance(workload.publishers, int):
            self._between((*path, "publishers"), workload.publishers, 1, CLIENTS_MAX)
        self._between((*path, "subscriptions"), workload.subscriptions, 0, CLIENTS_MAX)
        self._between((*path, "payload_size"), workload.payload_size, 0, PAYLOAD_MAX)
        if not 0 < workload.rate <= RATE_MAX:
            raise self.text.wrong((*path, "rate"), f"must be above 0 and at most {RATE_MAX:.0f}, not {workload.rate}")
        self._before_the_end((*path, "until"), until)
        if workload.lifetime == 0:
            raise self.text.wrong((*path, "lifetime"), "must be longer than nothing")
        if workload.begin > until:
            raise self.text.wrong((*path, "from"), f"comes after the end of the workload at {show_duration(until)}")
        count = round(workload.rate * (until - workload.begin) / 1e6)
        if count > PUBLICATIONS_MAX:
            raise self.text.wrong((*path, "rate"), f"makes {count} publications, {PUBLICATIONS_MAX} are the most")
        if isinstance(workload.topics, Topics):
            self._between((*path, "topics", "count"), workload.topics.count, 1, TOPICS_MAX)
            if not 0 <= workload.topics.zipf <= ZIPF_MAX:
                problem = f"must be from 0 to {ZIPF_MAX:.0f}, not {workload.topics.zipf}"
                raise self.text.wrong((*path, "topics", "zipf"), problem)

    def _workload(self, path: Path_, workload: Workload) -> None:
        if not isinstance(workload.publishers, int):
            if not workload.publishers:
                raise self.text.wrong((*path, "publishers"), "must name a client, or say how many there shall be")
            for position, client in enumerate(workload.publishers):
                self._client((*path, "publishers", position), client, workload.begin)
        if not isinstance(workload.topics, Topics):
            if not workload.topics:
                raise self.text.wrong((*path, "topics"), "must name a topic, or say how many there shall be")
            for position, topic in enumerate(workload.topics):
                self._topic((*path, "topics", position), topic)
        for name, value in workload.attributes.items():
            if value == ():
                raise self.text.wrong((*path, "attributes", name), "an empty list has nothing to draw from")

    def _demand(self, path: Path_, demand: Demand) -> None:
        self._broker((*path, "broker"), demand.broker)
        self._filter((*path, "filter"), demand.filter)
        self._between((*path, "last"), demand.last, 0, PUBLICATIONS_MAX)
        if not 0 < demand.rate <= RATE_MAX:
            raise self.text.wrong((*path, "rate"), f"must be above 0 and at most {RATE_MAX:.0f}, not {demand.rate}")
        until = self.scenario.duration if demand.until is None else demand.until
        self._before_the_end((*path, "until"), until)
        if demand.begin > until:
            raise self.text.wrong((*path, "from"), f"comes after the end of the demand at {show_duration(until)}")
        count = round(demand.rate * (until - demand.begin) / 1e6)
        if count > PUBLICATIONS_MAX:
            raise self.text.wrong((*path, "rate"), f"makes {count} requests, {PUBLICATIONS_MAX} are the most")

    # -- steps

    def _steps(self) -> None:
        steps = sorted(enumerate(self.scenario.step), key=lambda step: step[1].at)
        for position, step in steps:
            path: Path_ = ("step", position)
            actions = step.actions()
            if len(actions) != 1:
                shown = " and ".join(actions) if actions else "none of them"
                problem = f"needs exactly one of {', '.join(Step.ACTIONS)}, and this one has {shown}"
                raise self.text.wrong(path, problem)
            self._before_the_end((*path, "at"), step.at)
            self._step(path, step, actions[0])

    def _step(self, path: Path_, step: Step, action: str) -> None:
        if step.join is not None:
            self._broker((*path, "join"), step.join)
            self._new_client((*path, "client"), step.client, step.at)
            return
        self._client((*path, "client"), step.client, step.at)
        value = getattr(step, action)
        if step.request is not None:
            self._request((*path, action), step.request)
        elif action in ("subscribe", "unsubscribe", "advertise", "unadvertise"):
            self._filter((*path, action), value)
            if "advertise" in action:
                self._needs_advertisements((*path, action))
        elif isinstance(value, str):
            self._topic((*path, action), value)
        elif step.publish is not None and not isinstance(step.publish, str):
            self._topic((*path, action, "topic"), step.publish.topic)
            self._between((*path, action, "count"), step.publish.count, 1, PUBLICATIONS_MAX)

    def _request(self, path: Path_, request: str | Ask) -> None:
        if isinstance(request, str):
            self._filter(path, request)
            return
        self._filter((*path, "filter"), request.filter)
        self._between((*path, "last"), request.last, 0, PUBLICATIONS_MAX)
        if request.until is not None and request.until < (request.since or 0):
            raise self.text.wrong((*path, "until"), "comes before the time that 'since' names")

    # -- faults

    def _fault(self, path: Path_, fault: Fault) -> None:
        self._before_the_end((*path, "at"), fault.at)
        if isinstance(fault, Break | Stall | Deafen):
            for position, end in enumerate(fault.link):
                self._broker((*path, "link", position), end)
            if fault.link not in self.links:
                a, b = map(quoted, fault.link)
                raise self.text.wrong((*path, "link"), f"there is no link between {a} and {b}")
        elif isinstance(fault, Partition):
            for position, broker in enumerate(fault.side):
                self._broker((*path, "side", position), broker)
            if not 0 < len(dict.fromkeys(fault.side)) < len(self.brokers):
                raise self.text.wrong((*path, "side"), "must leave at least one broker on either side")
        else:
            self._broker((*path, "broker"), fault.broker)

    def _survivors(self, prepared: Prepared) -> None:
        rest = prepared.topology
        for broker in prepared.dead_at_the_end():
            position = next(
                number
                for number, fault in enumerate(self.scenario.fault)
                if isinstance(fault, Crash) and fault.broker == broker and fault.duration is None
            )
            rest = rest.without(broker)
            if not rest.is_connected():
                parts = "nothing is left" if not rest.nodes else "the network falls apart"
                problem = f"without {quoted(broker)} {parts}; say with 'for' when it comes back"
                raise self.text.wrong(("fault", position), problem)

    # -- what is said in many places

    def _between(self, path: Path_, value: int, low: int, high: int) -> None:
        if not low <= value <= high:
            raise self.text.wrong(path, f"must be from {low} to {high}, not {value}")

    def _before_the_end(self, path: Path_, at: int) -> None:
        if at > self.scenario.duration:
            end = show_duration(self.scenario.duration)
            raise self.text.wrong(path, f"{show_duration(at)} is after the end of the scenario at {end}")

    def _broker(self, path: Path_, broker: BrokerId) -> None:
        if broker not in self.brokers:
            raise self.text.wrong(path, f"there is no broker {quoted(broker)}; {choose(broker, self.brokers)}")

    def _client(self, path: Path_, client: ClientId, at: int) -> None:
        joins = self.clients.get(client)
        if joins is None:
            later = [step.at for step in self.scenario.step if step.join is not None and step.client == client]
            if later:
                raise self.text.wrong(path, f"client {quoted(client)} joins only at {show_duration(min(later))}")
            raise self.text.wrong(path, f"there is no client {quoted(client)}; {choose(client, self.clients)}")

    def _filter(self, path: Path_, text: str) -> None:
        try:
            parse_filter(text)
        except FilterError as error:
            raise self.text.wrong(path, error.problem) from None

    def _topic_filter(self, path: Path_, text: str) -> None:
        try:
            check_filter(text)
        except FilterError as error:
            raise self.text.wrong(path, error.problem) from None

    def _topic(self, path: Path_, topic: str) -> None:
        try:
            check_topic(topic)
        except FilterError as error:
            raise self.text.wrong(path, error.problem) from None
