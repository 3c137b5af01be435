"""Ray as an engine: each attempt is a task with the resources of a run, on a cluster that runs or one started here.

Tasks end with the process that submitted them, and their worker is used again. What is to outlive that process is an actor
of its own, which the next one finds by its name.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import socket
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from zoo.engines.engine import Resources, Start, State
from zoo.errors import ZooError
from zoo.system.table import counted

if TYPE_CHECKING:
    from zoo.engines.places import Place

NAMESPACE = "zoo"
ANSWER = 5.0  # seconds within which an address must answer
PROBE = 60.0  # seconds within which every node must have looked at the store


class Runner:
    """The actor of an attempt that outlives the bench."""

    def run(self, address: str, name: str, number: int) -> int:
        """Carry out an attempt, and be gone: nobody may be there who would end it, and it holds a run's resources."""
        import ray

        try:
            return _run(address, name, number)
        finally:
            ray.actor.exit_actor()


def _run(address: str, name: str, number: int) -> int:
    """On a node: carry out an attempt; its exit code."""
    from zoo.engines.attempt import Carrier

    return Carrier(address, name, number).run()


class RayEngine:
    """Attempts on a Ray cluster; `leave`: they outlive this process, and the next one finds them by their names."""

    name = "ray"

    def __init__(self, place: Place, resources: Resources, leave: bool = False) -> None:
        self._place, self._resources, self._leave = place, resources, leave
        self._prefix = hashlib.sha256(place.address.encode()).hexdigest()[:12]
        self._attempts: dict[str, tuple[Any, Any]] = {}  # handle → the actor, if any, and what will be returned

    @property
    def capacity(self) -> int:
        """How many runs the nodes have room for, each as a whole on one node."""
        return max(1, sum(_fits(node, self._needed) for node in _nodes().values()))

    @property
    def has_idle_gpus(self) -> bool:
        """Whether there are GPUs, and runs are given none."""
        return not self._resources.gpus and any(node.get("GPU") for node in _nodes().values())

    def start(self, starts: Sequence[Start]) -> list[str]:
        with _cluster_errors():
            return [self._start(each) for each in starts]

    def states(self, handles: Collection[str]) -> dict[str, State]:
        import ray

        with _cluster_errors():
            return {handle: "gone" if self._is_gone(ray, handle) else "running" for handle in handles}

    def kill(self, handle: str) -> None:
        import ray

        actor, run = self._attempts.pop(handle, (None, None))
        with contextlib.suppress(ValueError, ray.exceptions.RayError):
            if run is not None and actor is None:
                ray.cancel(run, force=True)
            else:
                ray.kill(actor or ray.get_actor(handle, namespace=NAMESPACE))

    def close(self) -> None:
        import ray

        self._attempts.clear()
        ray.shutdown()

    def check(self) -> None:
        """Refuse what no node has, and a store that some node does not see, before anything is started."""
        nodes = _nodes()
        if not any(_fits(node, self._needed) for node in nodes.values()):
            wanted = ", ".join(f"{amount:g} {name}" for name, amount in self._needed.items())
            present = "; ".join(
                ", ".join(f"{node.get(name, 0):g} {name}" for name in self._needed) for node in nodes.values()
            )
            raise ZooError(
                f"no node of the Ray cluster has what a run is to have ({wanted}); its {counted(len(nodes), 'node')}:"
                f" {present}; ask for less with --cpus-per-run, --gpus-per-run or --resources"
            )
        self._check_store(nodes)

    def _check_store(self, nodes: Mapping[str, Mapping[str, float]]) -> None:
        """Every node reads a file that is written here, and writes one that is read here."""
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        token = os.urandom(8).hex()
        probe = f"engine/probe-{token}"
        self._place.write(probe, token.encode())
        look = ray.remote(num_cpus=0, max_retries=0)(_look)
        pending = {
            id: look.options(scheduling_strategy=NodeAffinitySchedulingStrategy(id, soft=False)).remote(
                self._place.address, token, id
            )
            for id in nodes
        }
        blind = []
        try:
            ray.wait(list(pending.values()), num_returns=len(pending), timeout=PROBE)
            for id, reference in pending.items():
                reason = _outcome(ray, reference)
                if not reason and self._place.read(f"{probe}-{id}") != token.encode():
                    reason = "what it writes there is not seen here"
                if reason:
                    blind.append(f"node {id[:8]}: {reason}")
        finally:
            for name in (probe, *(f"{probe}-{id}" for id in nodes)):
                with contextlib.suppress(OSError):
                    self._place.remove(name)
        if blind:
            raise ZooError(
                f"the store {self._place.address} is not seen by every node of the Ray cluster ({'; '.join(blind)}); name a"
                " folder that all of them share, or an address such as s3://… with --store"
            )

    @property
    def _needed(self) -> dict[str, float]:
        gpus = {"GPU": self._resources.gpus} if self._resources.gpus else {}
        return {"CPU": self._resources.cpus, **gpus, **dict(self._resources.custom)}

    def _start(self, start: Start) -> str:
        import ray

        handle = f"{self._prefix}-{start.name}-{start.number}"
        words = self._place.address, start.name, start.number
        options: dict[str, Any] = {
            "num_cpus": self._resources.cpus,
            "num_gpus": self._resources.gpus if start.accelerated else 0,
            "resources": dict(self._resources.custom),
        }
        if not self._leave:  # the store knows whether it is to be started again, and Ray need not
            self._attempts[handle] = None, ray.remote(_run).options(max_retries=0, **options).remote(*words)
            return handle
        lasting = {"lifetime": "detached", "name": handle, "namespace": NAMESPACE, "max_restarts": 0}
        try:
            actor = ray.remote(Runner).options(**options, **lasting).remote()
        except ValueError as error:  # the name is taken
            raise ZooError(f"Ray cannot start {start.name}: {error}") from error
        self._attempts[handle] = actor, actor.run.remote(*words)
        return handle

    def _is_gone(self, ray: Any, handle: str) -> bool:
        if handle not in self._attempts:  # of an earlier bench
            try:
                ray.get_actor(handle, namespace=NAMESPACE)
            except ValueError:
                return True
            return False
        actor, run = self._attempts[handle]
        done, _ = ray.wait([run], timeout=0)
        if not done:
            return False
        if actor is not None:
            with contextlib.suppress(ray.exceptions.RayError):
                ray.kill(actor)  # it has nothing left to do, and holds a run's resources
        return True


@contextlib.contextmanager
def ray_cluster(address: str | None) -> Iterator[None]:
    """Be connected with the cluster at this address; without one start a cluster on this machine, and end it."""
    ray = imported_ray()
    common = {"namespace": NAMESPACE, "log_to_driver": False, "logging_level": "ERROR", "configure_logging": True}
    try:
        if address is None:
            # Its memory monitor would kill workers for what other processes use: runs are to do as well as without Ray.
            os.environ.setdefault("RAY_memory_monitor_refresh_ms", "0")
            ray.init(include_dashboard=False, **common)
        else:
            _check_answers(address)
            ray.init(address=address, **common)
    except ZooError:
        raise
    except Exception as error:  # Ray raises ConnectionError, RuntimeError, TimeoutError and more of its own
        first = (str(error).splitlines() or [type(error).__name__])[0]
        where = f"at {address}" if address else "on this machine"
        raise ZooError(f"Ray {where} cannot be used: {first}") from error
    with contextlib.suppress(AttributeError):  # pages about every lost worker: the launcher has a line for each
        ray._private.worker.print_to_stdstream = lambda *_, **__: None
    try:
        yield
    finally:
        ray.shutdown()


def imported_ray() -> Any:
    """The module; a sentence where it is not installed."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # what Ray will do by itself, and else warns of
    try:
        import ray
    except ImportError as error:
        raise ZooError("--on ray needs Ray: pip install 'transformer-zoo[ray]'") from error
    return ray


@contextlib.contextmanager
def _cluster_errors() -> Iterator[None]:
    """A cluster that is gone, in a sentence."""
    import ray

    try:
        yield
    except (ray.exceptions.RayError, ConnectionError) as error:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ZooError(
            f"the Ray cluster is gone ({first}): the same command continues the bench once it is back"
        ) from error


def _check_answers(address: str) -> None:
    """Refuse an address where nothing answers: Ray itself would try for minutes."""
    if address == "auto":
        return
    host, colon, port = address.rpartition("://")[2].rpartition(":")
    if not colon or not port.isdecimal():
        raise ZooError(f"--address {address}: write host:port, as ray start --head printed it (its port is often 6379)")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=ANSWER).close()
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ZooError(
            f"no Ray answers at {address} ({reason}): start one with ray start --head, or leave out --address for a cluster"
            " on this machine alone"
        ) from error


def _look(address: str, token: str, node: str) -> str:
    """On a node: read the file of a probe and write another; what is wrong, empty if nothing is."""
    from zoo.engines.places import FolderPlace, open_place

    place = open_place(address)
    if place.read(f"engine/probe-{token}") != token.encode():
        return "it does not see what is written there"
    try:
        if isinstance(place, FolderPlace) and not place.folder.is_dir():
            return "it has no such folder"
        place.write(f"engine/probe-{token}-{node}", token.encode())
    except OSError as error:
        return f"it cannot write there ({error.strerror or error})"
    return ""


def _outcome(ray: Any, reference: Any) -> str:
    try:
        reason: str = ray.get(reference, timeout=0.1)
    except ray.exceptions.GetTimeoutError:
        return f"it did not answer within {PROBE:g} s"
    except ray.exceptions.RayError as error:
        last = (str(error).strip().splitlines() or ["it failed"])[-1]
        return f"zoo cannot be used there ({last})"
    return reason


def _nodes() -> dict[str, dict[str, float]]:
    """The resources of every node that lives, by its id."""
    import ray

    return {node["NodeID"]: node["Resources"] for node in ray.nodes() if node["Alive"]}


def _fits(node: Mapping[str, float], needed: Mapping[str, float]) -> int:
    """How many runs a node has room for."""
    return min(int(node.get(name, 0) / amount) for name, amount in needed.items() if amount)
