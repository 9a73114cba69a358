"""Whether somebody listens where a cluster is said to be: asked before Spark is, which would try for minutes."""

from __future__ import annotations

import re
import socket
from urllib.parse import urlsplit

from latecomer.model.errors import SettingsError

PATIENCE_S = 5.0
MASTERS_MOST = 2
"""Of several masters of one cluster the first ones are asked, so that the answer comes within ten seconds."""
PORTS = {"spark": 7077, "sc": 15002, "k8s": 443}


def check_reachable(master: str, patience_s: float = PATIENCE_S) -> None:
    """A SettingsError if no connection to the master can be made. `local` and `yarn` name no address."""
    places = addresses(master)
    told = ""
    for host, port in places[:MASTERS_MOST]:
        try:
            socket.create_connection((host, port), timeout=patience_s).close()
        except TimeoutError:
            told = told or f"{host}:{port} does not answer within {patience_s:g} s"
        except OSError as error:
            told = told or f"{host}:{port}: {(error.strerror or str(error)).lower()}"
        else:
            return
    if told:
        raise SettingsError("--master", f"{master} cannot be reached ({told}); start it, or name another")


def addresses(master: str) -> list[tuple[str, int]]:
    """Hosts and ports of a master: `spark://a:7077,b:7077`, `sc://a:15002/;token=…`, `k8s://https://a:6443`."""
    kind, separator, rest = master.partition("://")
    if not separator or kind not in PORTS:
        return []
    rest = re.split(r"[/;]", rest.removeprefix("https://").removeprefix("http://"))[0]
    found = []
    for part in rest.split(","):
        try:
            split = urlsplit(f"//{part}")
            host, port = split.hostname, split.port
        except ValueError:
            raise SettingsError("--master", f"{part!r} is not an address; write HOST:PORT") from None
        if not host:
            raise SettingsError("--master", f"{master!r} names no host; write {kind}://HOST:{PORTS[kind]}")
        found.append((host, port or PORTS[kind]))
    return found
