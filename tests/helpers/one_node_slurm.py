"""A Slurm of one node on loopback: controller, node and keys in a folder of their own, without systemd.

Jobs of the partition `urgent` take the node from those of `small`, which are told and queued again.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

NEEDED = ("munged", "slurmctld", "slurmd", "sinfo", "sbatch")
CONFIGURATION = """\
ClusterName=zoo
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={node}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=10
CryptoType=crypto/munge
SlurmUser=root
SlurmdUser=root
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ReturnToService=2
MpiDefault=none
SwitchType=switch/none
JobRequeue=1
KillWait=5
MinJobAge=10
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN
PartitionName=small Nodes={host} Default=YES MaxTime=INFINITE State=UP PriorityTier=1 GraceTime=60
PartitionName=urgent Nodes={host} MaxTime=INFINITE State=UP PriorityTier=9 PreemptMode=OFF
"""


def missing() -> str:
    """Why it cannot be started here; empty if it can."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin"
    lacking = [name for name in NEEDED if not shutil.which(name, path=path)]
    if lacking:
        return f"Slurm is not installed: there is no {', '.join(lacking)} (Debian: slurmctld slurmd slurm-client munge)"
    return "" if os.geteuid() == 0 else "a node of Slurm is started by root alone"


@contextlib.contextmanager
def one_node_slurm(folder: Path) -> Iterator[dict[str, str]]:
    """Start it and wait for it; the environment in which Slurm's commands find it. All of it ends with the context."""
    folder.mkdir(parents=True)
    folder.chmod(0o755)
    for name in ("state", "spool"):
        (folder / name).mkdir()
    key = folder / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o600)
    host = socket.gethostname().partition(".")[0]
    file = folder / "slurm.conf"
    file.write_text(CONFIGURATION.format(host=host, folder=folder, controller=_free_port(), node=_free_port()))
    environment = {**os.environ, "SLURM_CONF": str(file), "PATH": f"{os.environ['PATH']}:/usr/sbin"}
    commands = (
        ["munged", "--foreground", "--force", f"--key-file={key}", f"--socket={folder}/munge.socket",
         f"--pid-file={folder}/munged.pid", f"--log-file={folder}/munged.log", f"--seed-file={folder}/munged.seed"],
        ["slurmctld", "-D", "-f", str(file)],
        ["slurmd", "-D", "-f", str(file)],
    )  # fmt: skip
    started: list[subprocess.Popen[bytes]] = []
    try:
        for command in commands:
            log = (folder / f"{command[0]}.out").open("wb")
            started.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log))
            time.sleep(1.0)
        _wait_until_idle(environment, folder)
        yield environment
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)
            process.kill()


def _wait_until_idle(environment: dict[str, str], folder: Path) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        done = subprocess.run(["sinfo", "-h", "-o", "%T"], env=environment, capture_output=True, text=True)
        if {*done.stdout.split()} == {"idle"}:
            return
        time.sleep(0.5)
    logs = "\n".join(path.read_text(errors="replace")[-1500:] for path in folder.glob("*.log"))
    raise AssertionError(f"Slurm did not start: {done.stdout} {done.stderr}\n{logs}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
