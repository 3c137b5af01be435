"""`zoo-bench --on slurm` where submitit's local executor stands for Slurm."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from helpers.local_queue import local_engine

import zoo.engines.slurm_engine as slurm
from zoo.cli.bench import main

slurm.slurm_engine = lambda store, given, resources, jobs: local_engine(store, jobs or 2)  # type: ignore[assignment]
slurm.check_store = lambda store, partition, say: None
sys.exit(main(sys.argv[1:]))
