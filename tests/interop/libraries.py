"""Other people's MQTT clients, each as a program that is told what to do."""

from __future__ import annotations

import json
import queue
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from latecomer.runtime.network_file import Seat
from tests.interop.mqttjs_setup import FOLDER, SCRIPT
from tests.network.peer import FENCE, LIMIT_SECONDS, Peer

SPEAK = Path(__file__).with_name("speak.py")
Pairs = Sequence[tuple[str, str]]


@dataclass(slots=True)
class Heard:
    topic: str
    payload: str
    qos: int
    retain: bool
    user: list[tuple[str, str]] = field(default_factory=list)


class Listener:
    """A subscriber as a process; its lines are read in the background."""

    def __init__(self, command: list[str], fence: str, read: Callable[[dict[str, Any]], Heard | None]) -> None:
        self.fence = fence
        self.inbox: queue.Queue[Heard] = queue.Queue()
        self.fences: queue.Queue[str] = queue.Queue()
        self.present: bool | None = None
        """Whether the broker had its session; None: it has not said, or does not know."""
        self.read = read
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.thread = threading.Thread(target=self._listen, daemon=True)
        self.thread.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            said = json.loads(line)
            heard = self.read(said)
            if heard is None:
                self.present = said.get("session", self.present)
                continue
            if heard.topic == self.fence:
                self.fences.put(heard.payload)
            elif not heard.topic.startswith(FENCE):
                self.inbox.put(heard)

    def ready(self, publisher: Peer) -> Listener:
        """Until what it has subscribed to is known at the publisher's broker."""
        mark = uuid4().hex
        until = time.monotonic() + LIMIT_SECONDS
        while time.monotonic() < until:
            assert self.process.poll() is None, f"it has ended: {self._complaint()}"
            publisher.publish(self.fence, mark, 2)
            try:
                while self.fences.get(timeout=0.05) != mark:
                    pass
            except queue.Empty:
                continue
            return self
        raise AssertionError("a subscription never reached the publisher's broker")

    def take(self, number: int) -> list[Heard]:
        got: list[Heard] = []
        until = time.monotonic() + LIMIT_SECONDS
        while len(got) < number:
            try:
                got.append(self.inbox.get(timeout=max(0.0, until - time.monotonic())))
            except queue.Empty:
                raise AssertionError(f"{len(got)} of {number} came: {got}; {self._complaint()}") from None
        return got

    def rest(self, publisher: Peer) -> list[Heard]:
        """What else came from that publisher."""
        self.ready(publisher)
        got = []
        while not self.inbox.empty():
            got.append(self.inbox.get())
        return got

    def leave(self, number: int | None = None) -> None:
        """Say goodbye: at the end of input, or by a signal."""
        if self.process.poll() is None:
            assert self.process.stdin is not None
            if number is not None:
                self.process.send_signal(number)
            self.process.stdin.close()
        try:
            self.process.wait(LIMIT_SECONDS)
        finally:
            self._end()

    def refused(self) -> str:
        """What it says when the broker refuses its CONNECT, and it gives up."""
        try:
            code = self.process.wait(LIMIT_SECONDS)
            assert self.process.stderr is not None
            complaint = self.process.stderr.read()
        finally:
            self._end()
        assert code != 0, "it ends as if nothing had happened"
        return complaint

    def vanish(self) -> None:
        self.process.kill()
        self._end()

    def _end(self) -> None:
        self.process.kill()
        self.process.wait()
        self.thread.join(LIMIT_SECONDS)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()

    def _complaint(self) -> str:
        self.process.kill()
        assert self.process.stderr is not None
        return self.process.stderr.read()[-2000:]


class Library:
    """How one client is told what to do."""

    goodbye: int | None = None
    """The signal on which it leaves; None: it leaves at the end of its input."""
    last_will = False
    """Does it ask for its will when it leaves (reason 0x04)?"""

    def __init__(self, name: str, version: int = 5) -> None:
        self.name = name
        self.version = version

    def needs(self) -> list[str]:
        return []

    def command(self, seat: Seat, order: dict[str, Any]) -> list[str]:
        return [sys.executable, str(SPEAK), self.name, json.dumps(order)]

    def read(self, said: dict[str, Any]) -> Heard | None:
        if "topic" not in said:
            return None
        user = [(name, value) for name, value in said["user"]]
        return Heard(said["topic"], said["payload"], said["qos"], bool(said["retain"]), user)

    def publish(
        self, seat: Seat, topic: str, *payloads: str, qos: int = 0, retain: bool = False, user: Pairs = ()
    ) -> None:
        order = {
            "do": "publish", "topic": topic, "payloads": list(payloads), "qos": qos, "retain": retain,
            "user": [list(pair) for pair in user],
        }  # fmt: skip
        done = subprocess.run(
            self.command(seat, self._order(seat, order)), capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr

    def subscribe(
        self, seat: Seat, *topics: str, qos: int = 0, client_id: str = "", keep: bool = False, will: Any = None,
        fence: str = "", asking: Pairs = (),
    ) -> Listener:  # fmt: skip
        """`asking` are user properties of the SUBSCRIBE; they would be those of the fence as well, so there is none."""
        fence = fence or FENCE + uuid4().hex
        order: dict[str, Any] = {"do": "subscribe", "topics": list(topics), "qos": qos, "will": will, "keep": keep}
        order["user"] = [list(pair) for pair in asking]
        if not asking:
            order["topics"].append(fence)
        if client_id:
            order["id"] = client_id
        return Listener(self.command(seat, self._order(seat, order)), fence, self.read)

    def leave(self, listener: Listener) -> None:
        listener.leave(self.goodbye)

    def _order(self, seat: Seat, order: dict[str, Any]) -> dict[str, Any]:
        always = {"version": self.version, "port": seat.port, "keep": False, "id": f"interop-{uuid4().hex[:10]}"}
        return {**always, **order}


class MqttJs(Library):
    """MQTT.js under Node."""

    def __init__(self, scheme: str, version: int = 5) -> None:
        super().__init__("MQTT.js", version)
        self.scheme = scheme

    def needs(self) -> list[str]:
        return ["node", "npm"]

    def command(self, seat: Seat, order: dict[str, Any]) -> list[str]:
        place = f"{seat.host}:{seat.port}" if self.scheme == "mqtt" else f"{seat.host}:{seat.websocket_port}/mqtt"
        return ["node", str(SCRIPT), str(FOLDER), json.dumps({**order, "url": f"{self.scheme}://{place}"})]


class Mosquitto(Library):
    """mosquitto_pub and mosquitto_sub."""

    goodbye = signal.SIGTERM

    def __init__(self, version: int = 5) -> None:
        super().__init__("mosquitto", version)
        self.last_will = version == 5

    def needs(self) -> list[str]:
        return ["mosquitto_pub", "mosquitto_sub"]

    def command(self, seat: Seat, order: dict[str, Any]) -> list[str]:
        program = shutil.which("mosquitto_pub" if order["do"] == "publish" else "mosquitto_sub")
        assert program is not None
        words = [program, "-h", seat.host, "-p", str(seat.port), "-q", str(order["qos"]), "-i", order["id"]]
        words += ["-V", "mqttv5" if self.version == 5 else "mqttv311"]
        if order["do"] == "publish":
            (payload,) = order["payloads"]
            words += ["-t", order["topic"], "-m", payload, *(["-r"] if order["retain"] else [])]
            for name, value in order["user"]:
                words += ["-D", "publish", "user-property", name, value]
            return words
        for topic in order["topics"]:
            words += ["-t", topic]
        for name, value in order["user"]:
            words += ["-D", "subscribe", "user-property", name, value]
        if order["keep"]:
            words += ["-c", *(["-x", "300"] if self.version == 5 else [])]
        if order["will"]:
            will = order["will"]
            words += ["--will-topic", will["topic"], "--will-payload", will["payload"], "--will-qos", str(will["qos"])]
            words += ["--will-retain"] if will["retain"] else []
        return [*words, "-F", "%j"]

    def publish(
        self, seat: Seat, topic: str, *payloads: str, qos: int = 0, retain: bool = False, user: Pairs = ()
    ) -> None:
        for payload in payloads:  # one message per call
            super().publish(seat, topic, payload, qos=qos, retain=retain, user=user)

    def read(self, said: dict[str, Any]) -> Heard | None:
        # Its JSON has user properties as an object, so of two with the same name one is seen.
        user = list(said.get("properties", {}).get("user-properties", {}).items())
        return Heard(said["topic"], said.get("payload", ""), said["qos"], bool(said["retain"]), user)


LIBRARIES: dict[str, Library] = {
    "mosquitto": Mosquitto(),
    "mosquitto-311": Mosquitto(4),
    "paho": Library("paho"),
    "paho-311": Library("paho", 4),
    "aiomqtt": Library("aiomqtt"),
    "gmqtt": Library("gmqtt"),
    "mqttjs": MqttJs("mqtt"),
    "mqttjs-311": MqttJs("mqtt", 4),
    "mqttjs-ws": MqttJs("ws"),
}
