"""Write docs/methods/README.md: every method of the project, from the registry, the cards and the counts.

tools/run python tools/make_index.py
"""

from __future__ import annotations

import importlib
import math
from functools import partial
from pathlib import Path

from zoo import cards, match, plugins
from zoo.model import LanguageModel
from zoo.plugins import SLOTS, Found

PROJECT = "transformer-zoo"
INDEX = Path(__file__).resolve().parent.parent / "docs" / "methods" / "README.md"
CARDS = "../../plugins/cards"

HEAD = """# The methods

Written by `tools/make_index.py` from the registry, the cards and the counts: do not edit. A method's name leads to its
card; `zoo-plugins show ID` adds its settings and further figures.

Figures are for size `{size}` ({depth} layers, length {length}), sequential host, default settings. **Parameters** are
those that the method adds to the baseline's {parameters:,}. **FLOPs** are those of a token in a forward pass, as a
multiple of the baseline's {flops:,.0f}: products of matrices, convolutions and attention, the last over the pairs that
the causal mask lets through. **Decodes**: token by token, with a cache.
"""

TITLES = {
    "residual": "Residual: how sublayers read from and write to the stream",
    "score_mixing": "Score mixing: what attention attends with",
    "temporal_mixing": "Temporal mixing: how a token is mixed with its predecessors",
}
COLUMNS = ("method", "what it does", "formula", "parameters", "FLOPs", "decodes", "causal", "notes")


def render(size_name: str = "base") -> str:
    """The whole index."""
    registry, size = plugins.registry(), cards.size(size_name)
    plain = match.skeleton(size.build())
    base_parameters, base_flops = plain.num_parameters(), _forward_flops(size.build(), plain, size.length)
    depth = size.model["depth"]
    lines = [HEAD.format(size=size.name, depth=depth, length=size.length, parameters=base_parameters, flops=base_flops)]
    found = [each for each in registry.found if each.distribution == PROJECT]
    for slot in SLOTS:
        lines += [f"## {TITLES[slot]}", ""]
        of_slot = sorted((f for f in found if f.slot == slot), key=lambda f: f.id)
        for module in dict.fromkeys(map(_module, of_slot)):
            lines += [f"### {_title(module)}", "", _row(*COLUMNS), _row(*["---"] * len(COLUMNS))]
            methods = [each for each in of_slot if _module(each) == module]
            lines += [_method(registry, each, size, base_parameters, base_flops) for each in methods]
            lines.append("")
    return "\n".join(lines)


def _module(found: Found) -> str:
    return found.value.partition(":")[0]


def _title(module: str) -> str:
    """The first line of the module's docstring."""
    return (importlib.import_module(module).__doc__ or module).splitlines()[0].rstrip(".")


def _method(registry: plugins.Registry, found: Found, size: cards.Size, parameters: int, flops: float) -> str:
    build = size.build(registry.get(found.slot, found.id))
    built = match.skeleton(build)
    told, more = cards.declared(built), built.num_parameters() - parameters
    path = plugins.card(found)
    assert path is not None, f"{found.id} has no card"
    card = cards.read(path)
    notes = [] if told.deterministic else ["random at every pass"]
    notes += [note for note in [card.first_sentence("Hosts")] if note]
    return _row(
        f"[{found.id}]({CARDS}/{found.id}.md)",
        card.phrase,
        f"`{card.formula}`",
        f"{more:+,}" if more else "0",
        f"{_forward_flops(build, built, size.length) / flops:.2f}",
        "yes" if told.decodes else "**no**",
        "yes" if told.causal else "**no**",
        "; ".join(notes),
    )


def _forward_flops(build: match.Build, built: LanguageModel, length: int) -> float:
    """FLOPs of a token, told from few layers, which is quicker than to count them all.

    Without a history all layers cost the same; with one, layer m costs c0 + c1 m + c2 m², so three tell the rest.
    """
    layer, depth = built.layers[0].layer, len(built.layers)
    few = partial(build, depth=3 if built.reads else 1, width=layer.width, head_dim=layer.head_dim)
    *layers, rest = match.forward_flops(few, length)
    first, second, third = layers if built.reads else layers * 3
    differences = (first, second - first, third - 2 * second + first)
    return rest + sum(math.comb(depth, k) * each for k, each in enumerate(differences, start=1))


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def main() -> None:
    INDEX.parent.mkdir(parents=True, exist_ok=True)
    INDEX.write_text(render(), encoding="utf-8")
    print(f"wrote {INDEX}")


if __name__ == "__main__":
    main()
