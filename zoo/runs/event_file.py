"""A TensorBoard event file, written at once and in this thread: when it fails, the caller learns it there and then."""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PATTERN = "events.out.tfevents.*"


class Events:
    """The event file of one session. A TensorBoard that is looking on forgets what it saw after step `purge_after`."""

    def __init__(self, folder: Path, purge_after: int | None = None) -> None:
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog
        from tensorboard.summary.writer.record_writer import RecordWriter

        # TensorBoard reads the files of a folder in the order of their names.
        name = PATTERN.replace("*", f"{time.time_ns() // 1000:017d}.{socket.gethostname()}")
        self._file = (folder / name).open("xb")
        self._writer = RecordWriter(self._file)
        self._event = Event
        self._write(file_version="brain.Event:2")
        if purge_after is not None:
            self._write(step=purge_after + 1, session_log=SessionLog(status=SessionLog.START))

    def _write(self, **fields: Any) -> None:
        event = self._event(wall_time=time.time(), **fields)
        self._writer.write(event.SerializeToString())

    def summary(self, summary: Any, step: int = 0) -> None:
        """Write a `Summary` that was made elsewhere."""
        self._write(step=step, summary=summary)

    def scalars(self, values: Mapping[str, float], step: int) -> None:
        """Write numbers by their tags."""
        from tensorboard.compat.proto.summary_pb2 import Summary

        self.summary(Summary(value=[Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()]), step)

    def flush(self) -> None:
        """Hand everything to the system."""
        self._file.flush()

    def close(self) -> None:
        """Flush and close."""
        self._file.close()
