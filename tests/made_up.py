"""Results that nobody measured."""

from __future__ import annotations

from zoo.store import Result


def result(name: str, seed: int, loss: float | None, **changed: object) -> Result:
    baseline = name.startswith("baseline")
    values: dict = {
        "key": f"{name}-{seed}-{changed.get('lr_factor', 1.0)}",
        "arm": name,
        "name": "baseline" if baseline else name,
        "match": "none" if baseline else "method",
        "host": "sequential",
        "seed": seed,
        "lr": 1e-3 * float(changed.get("lr_factor", 1.0)),  # type: ignore[arg-type]
        "lr_factor": 1.0,
        "status": "finished" if loss is not None else "diverged",
        "causal": True,
        "parameters": 1000,
        "flops": 6000.0,
        "steps": 10,
        "tokens": 100,
        "valid_loss": loss,
        "test_loss": loss,
        "tested": loss is not None,
        "bits_per_byte": 1.0,
        "accuracy": 0.1,
        "tokens_per_second": 10.0,
        "peak_memory": 100,
        "seconds": 1.0,
        "blew_up": "",
        "alarm": "",
        "curve": [(5, 50, 0.5, 4.0), (10, 100, 1.0, loss or 9.0)],
        "training": [(5, 50, 0.5, 4.1), (10, 100, 1.0, loss or 9.0)],
        "probes": {},
        "baselines": {} if baseline else {"none": "baseline"},
        "unigram_entropy": 6.0,
        "corpus": "x",
        "config": "",
        "settings": {},
        "versions": {},
        "stamps": {},
    }
    return Result(**(values | changed))


def study(offset: float, noise: tuple[float, ...] = (0.001, -0.002, 0.001), **changed: object) -> list[Result]:
    plain = [result("baseline", s, 3.0 + s / 10) for s in (1, 2, 3)]
    return plain + [result("m", s, 3.0 + s / 10 + offset + noise[s - 1], **changed) for s in (1, 2, 3)]
