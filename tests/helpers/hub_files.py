"""Files as the Hugging Face hub has them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

LINES = [" \n", " = Title = \n", " \n", " A text . \n"]


def hub_rows(folder: Path) -> None:
    """As on the hub: a record per line, and an empty one for a line that is a space."""
    for split in ("train", "validation", "test"):
        (folder / split).mkdir(parents=True)
        rows = [line if line.strip() else "" for line in [*LINES, f" {split} \n"]]
        pq.write_table(pa.table({"text": rows}), folder / split / "0000.parquet")
