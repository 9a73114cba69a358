"""Takes a broker's place where only its process matters: listens where it is told, and ends as it is told.

A file in its folder asks for more: `refuse` (end at once with exit code 2), `stay` (do not leave when asked to).
"""

from __future__ import annotations

import signal
import socket
import sys
import tomllib
from pathlib import Path


def main() -> None:
    file = Path(sys.argv[sys.argv.index("--config") + 1])
    if (file.parent / "refuse").exists():
        print("started with a wish to refuse\nlatecomer: limits.connections: must be more", file=sys.stderr)
        sys.exit(2)
    wish = signal.SIG_IGN if (file.parent / "stay").exists() else lambda *_: sys.exit(0)
    signal.signal(signal.SIGTERM, wish)
    where = tomllib.loads(file.read_text(encoding="utf-8"))["listeners"][0]
    with socket.create_server((where["host"], where["port"])) as server:
        print("broker pretender is ready: there", flush=True)
        while True:
            server.accept()[0].close()


if __name__ == "__main__":
    main()
