"""The state of the process that everything in it shares: what a plugin may not change, read, compared and put back.

Torch and numpy are looked at only where they have been imported. Functions that a plugin replaces in other modules are
not noticed.
"""

from __future__ import annotations

import contextlib
import locale
import os
import random
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple


class Part(NamedTuple):
    """One thing that can be changed: how it is read and set; `module` must have been imported for that."""

    read: Callable[[], Any]
    write: Callable[[Any], object]
    module: str = "sys"


def _torch() -> Any:
    return sys.modules["torch"]


def _numpy() -> Any:
    return sys.modules["numpy"]


def _set_environment(saved: Mapping[str, str]) -> None:
    for name in os.environ.keys() - saved.keys():
        del os.environ[name]
    for name, value in saved.items():
        if os.environ.get(name) != value:
            os.environ[name] = value


def _set_path(saved: list[str]) -> None:
    sys.path[:] = saved


SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGPIPE", "SIGCHLD", "SIGALRM", "SIGUSR1", "SIGUSR2")


def _handlers() -> dict[str, Any]:
    return {name: signal.getsignal(getattr(signal, name)) for name in SIGNALS}


def _set_handlers(saved: Mapping[str, Any]) -> None:
    if threading.current_thread() is threading.main_thread():
        for name, handler in saved.items():
            if handler is not None:  # None: one that was set from C
                signal.signal(getattr(signal, name), handler)


def _set_filters(saved: list[Any]) -> None:
    warnings.filters[:] = saved  # type: ignore[index]
    warnings._filters_mutated()  # type: ignore[attr-defined]


def _folder() -> str | None:
    try:
        return os.getcwd()
    except OSError:  # it was removed
        return None


def _set_folder(saved: str | None) -> None:
    if saved is not None:
        os.chdir(saved)


def _torch_random() -> bytes:
    return bytes(_torch().get_rng_state().tolist())


def _set_torch_random(saved: bytes) -> None:
    torch = _torch()
    torch.set_rng_state(torch.tensor(list(saved), dtype=torch.uint8, device="cpu"))


def _numpy_random() -> tuple[Any, ...]:
    kind, keys, *rest = _numpy().random.get_state()
    return kind, keys.tobytes(), *rest


def _set_numpy_random(saved: tuple[Any, ...]) -> None:
    kind, keys, *rest = saved
    _numpy().random.set_state((kind, _numpy().frombuffer(keys, dtype="uint32"), *rest))


def _deterministic() -> tuple[bool, bool]:
    torch = _torch()
    return torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()


def _set_deterministic(saved: tuple[bool, bool]) -> None:
    _torch().use_deterministic_algorithms(saved[0], warn_only=saved[1])


CUDNN = ("deterministic", "benchmark", "enabled", "allow_tf32")


def _cudnn() -> tuple[bool, ...]:
    return tuple(getattr(_torch().backends.cudnn, name) for name in CUDNN)


def _set_cudnn(saved: tuple[bool, ...]) -> None:
    for name, value in zip(CUDNN, saved, strict=True):
        setattr(_torch().backends.cudnn, name, value)


def _default_device() -> str:
    try:
        return str(_torch().get_default_device())
    except AttributeError:  # torch's own, after set_default_device(None)
        return "cpu"


def _set_default_device(saved: str) -> None:
    _torch().set_default_device(None if saved == "cpu" else saved)
    if saved == "cpu":  # torch keeps a None, at which `torch.get_default_device` fails, and transformers with it
        with contextlib.suppress(AttributeError):
            del _torch()._GLOBAL_DEVICE_CONTEXT.device_context


def _set_default_generator(saved: Any) -> None:
    _torch().default_generator = _torch().random.default_generator = saved


# What decides on numbers and on how they are computed. A training pass may change none of these.
OF_A_PASS: dict[str, Part] = {
    "torch's default dtype": Part(
        lambda: _torch().get_default_dtype(), lambda v: _torch().set_default_dtype(v), "torch"
    ),
    "torch's default device": Part(_default_device, _set_default_device, "torch"),
    "torch's float32 matmul precision": Part(
        lambda: _torch().get_float32_matmul_precision(), lambda v: _torch().set_float32_matmul_precision(v), "torch"
    ),
    "torch's deterministic algorithms": Part(_deterministic, _set_deterministic, "torch"),
    "torch's cuDNN flags": Part(_cudnn, _set_cudnn, "torch"),
    "torch's number of threads": Part(
        lambda: _torch().get_num_threads(), lambda v: _torch().set_num_threads(v), "torch"
    ),
    "torch's grad mode": Part(lambda: _torch().is_grad_enabled(), lambda v: _torch()._C._set_grad_enabled(v), "torch"),
    "torch's flushing of denormals": Part(lambda: _flushes(), lambda v: _torch().set_flush_denormal(v), "torch"),
    "torch's default generator": Part(lambda: _torch().default_generator, _set_default_generator, "torch"),
    "numpy's error handling": Part(lambda: _numpy().geterr(), lambda v: _numpy().seterr(**v), "numpy"),
    "the locale": Part(lambda: locale.setlocale(locale.LC_ALL), lambda v: locale.setlocale(locale.LC_ALL, v)),
    "the working folder": Part(_folder, _set_folder),
    "the order of sys.path": Part(lambda: list(sys.path), _set_path),
}

RANDOM: dict[str, Part] = {
    "torch's random state": Part(_torch_random, _set_torch_random, "torch"),
    "Python's random state": Part(random.getstate, random.setstate),
    "numpy's random state": Part(_numpy_random, _set_numpy_random, "numpy"),
}

# The trainer and torch change these too: they are compared where a plugin alone is at work.
OF_THE_PROCESS: dict[str, Part] = {
    "signal handlers": Part(_handlers, _set_handlers),
    "the warnings filters": Part(lambda: list(warnings.filters), _set_filters),
    "the environment": Part(lambda: dict(os.environ), _set_environment),
}

ALL = {**OF_A_PASS, **RANDOM, **OF_THE_PROCESS}
WHILE_BUILT = {name: part for name, part in ALL.items() if part.read is not _torch_random}  # it gets one of its own


def _flushes() -> bool:
    """Whether the smallest numbers are taken for 0."""
    torch = _torch()
    return not bool(torch.tensor(1e-310, dtype=torch.float64, device="cpu") * 1.0)


def read(parts: Mapping[str, Part] = ALL) -> dict[str, Any]:
    """The state of these parts, as far as their modules are there."""
    return {name: _read(part) for name, part in parts.items() if part.module in sys.modules}


def _read(part: Part) -> Any:
    try:
        return part.read()
    except Exception:  # torch refuses to tell of a flag that was set in its newer way
        return None


def restore(before: Mapping[str, Any], parts: Mapping[str, Part] = ALL) -> list[str]:
    """Put everything back; the answer is what had changed, in words."""
    changed = []
    for name, old in before.items():
        new = _read(parts[name])
        if not _same(name, old, new):
            changed.append(_sentence(name, old, new))
            with contextlib.suppress(Exception):  # what cannot be put back is still reported
                parts[name].write(old)
    return changed


def _same(name: str, old: Any, new: Any) -> bool:
    if old is None or new is None:
        return old is new
    if name == "the order of sys.path":  # a folder behind the others hides nothing
        return bool(new[: len(old)] == old)
    if name == "the warnings filters":
        return _blanket(old) == _blanket(new)
    return bool(old == new)


def _blanket(filters: list[Any]) -> list[Any]:
    """The filters of all warnings, whatever they say: libraries add others for their own when they are imported."""
    wide = (Warning, UserWarning, RuntimeWarning)
    return [each for each in filters if each[1] is None and each[3] is None and each[2] in wide]


def _sentence(name: str, old: Any, new: Any) -> str:
    if old is None or new is None:
        return name
    if isinstance(old, Mapping):
        keys = sorted(str(key) for key in old.keys() | new.keys() if old.get(key) != new.get(key))
        return f"{name} ({', '.join(keys)})"
    if name == "the order of sys.path":
        first = [entry for entry in new if entry not in old]
        return f"{name} ({', '.join(first)} comes before others)" if first else name
    if name == "torch's cuDNN flags":
        return f"{name} ({', '.join(flag for flag, a, b in zip(CUDNN, old, new, strict=True) if a != b)})"
    simple = isinstance(old, (str, int)) or str(old).startswith("torch.")
    return f"{name} from {old} to {new}".replace("torch.", "") if simple and len(str(old)) < 100 else name


@contextlib.contextmanager
def contained(parts: Mapping[str, Part] = ALL) -> Iterator[list[str]]:
    """Whatever is changed inside is put back behind; the list then holds what it was."""
    before, changed = read(parts), []  # type: ignore[var-annotated]
    try:
        yield changed
    finally:
        changed += restore(before, parts)
