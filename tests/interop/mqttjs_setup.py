"""MQTT.js, installed once beside the other locked packages."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).with_name("mqttjs")
SCRIPT = HERE / "speak.mjs"
FOLDER = Path(sys.prefix) / "share" / "mqttjs"
LOCK = "package-lock.json"


def prepare() -> str:
    """Install what package-lock.json names, unless it is there; the complaint if that cannot be done."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several test processes may want it at the same time
        wanted, stamp = (HERE / LOCK).read_bytes(), FOLDER / "installed"
        if stamp.exists() and stamp.read_bytes() == wanted:
            return ""
        for name in ("package.json", LOCK):
            shutil.copy(HERE / name, FOLDER / name)
        done = subprocess.run(
            ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"],
            cwd=FOLDER, capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip
        if done.returncode != 0:
            return f"MQTT.js cannot be installed: {done.stderr.strip()[-500:]}"
        stamp.write_bytes(wanted)
        return ""


if __name__ == "__main__":
    sys.exit(prepare() or 0)
