"""A task that waits until it is told to stop, saves and ends so; started again, it goes on and is over."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path


def main(folder: Path) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    signals: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: signals.append(number))
    if signal.getsignal(signal.SIGUSR2) is not signal.SIG_IGN:
        (folder / "hears").touch()
    if (folder / "saved").exists():
        (folder / "resumed").touch()
        return 0
    (folder / "started").touch()
    while not signals:
        time.sleep(0.05)
    (folder / "saved").touch()
    return 128 + signal.SIGTERM


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
