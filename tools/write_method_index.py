"""Write docs/methods/README.md: every method of the project, from the registry, the cards and the counts.

tools/run python tools/write_method_index.py
"""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path

from zoo.catalogue import cards, describe, families, sizes
from zoo.counting.flops import Build, forward_flops, skeleton
from zoo.errors import ZooError
from zoo.model.language_model import LanguageModel
from zoo.plugins.finder import MethodEntry
from zoo.plugins.registry import Registry, installed
from zoo.plugins.resources import card_file
from zoo.slots import SLOTS, TITLES

PROJECT = "transformer-zoo"
INDEX = Path(__file__).resolve().parent.parent / "docs" / "methods" / "README.md"
CARDS = "../../plugins/cards"

HEAD = """# The methods

Written by `tools/write_method_index.py` from the registry, the cards and the counts: do not edit. A method's name leads to its
card; `zoo-plugins show ID` adds its settings and further figures.

## Names

- **The notes** are the unpublished lab notes in which most of these methods were first tried. What they report of a
  method is in its card under "Claimed", and [RESULTS.md](../../RESULTS.md) compares it with what was measured here.
  **The log** is the part of the notes that records the runs with skip weights and weak recurrence.
- **The catalogue** is the list of exact definitions that was made from the notes, which leave some open. The formulas
  of the cards and the reference in `tests/reference` follow it; `v4_m1` is its method 1 of Version 4, and so on.
- **`v1_…` to `v4_…`** are the four Versions of the notes, four ways for a layer to use the layers below it: sums of
  their outputs as the skip (1), means of their outputs added to the stream (2), running them again (3), sums of their
  attention scores (4). The idea behind 1 and 4 is the Probabilistic Transformer (arXiv 2311.15211), whose graphical
  model has **Z nodes**, a label for every token, and **H nodes**, the head that it depends on.
- **`skip_…`**: learned weights on the skip. **`wr_…`**: weak recurrence, which mixes a token with a few of its
  predecessors.
- **Other names** are those under which a method was published: its card has the source, and what reproductions got
  wrong.
- **`…_log`** computes what the code behind the notes really did, mistakes included, so that a reported result can be
  traced. Its card says what is wrong with it and which method to use.
- **Hosts**: in the *sequential* block (Llama's) the FFN reads what attention wrote, in the *parallel* block (PaLM's)
  both read the block's input. **The baseline** or **plain block** is the same host without a method.

In the formulas m = 1..L counts the layers; x_m is a layer's input, a_m and f_m are the outputs of its attention and its
FFN, y_m is the stream between them, N1 and N2 are the norms before them, D is the width.

## Figures

Figures are for size `{size}` ({depth} layers, length {length}), sequential host, default settings. **Parameters** are
those that the method adds to the baseline's {parameters:,}. **Forward FLOPs** are those per token in a forward
pass, as a multiple of the baseline's {flops:,.0f}: products of matrices, convolutions and attention, the last over the
pairs that the causal mask lets through; a training step takes about three times as many.
**Decodes**: token by token, with a cache.
"""

COLUMNS = ("method", "what it does", "formula", "parameters", "forward FLOPs", "decodes", "causal", "notes")


def render(size_name: str = "base") -> str:
    """The whole index."""
    registry, size = installed(), sizes.size(size_name)
    plain = skeleton(size.build())
    base_parameters, base_flops = plain.num_parameters(), _forward_flops(size.build(), plain, size.length)
    depth = size.model["depth"]
    lines = [HEAD.format(size=size.name, depth=depth, length=size.length, parameters=base_parameters, flops=base_flops)]
    entries = [each for each in registry.entries if each.distribution == PROJECT]
    for slot in SLOTS:
        of_slot = sorted((f for f in entries if f.slot == slot), key=lambda f: f.id)
        lines += [f"## {slot.capitalize().replace('_', ' ')}: {TITLES[slot]}", ""] if of_slot else []
        for title in dict.fromkeys(map(families.title, of_slot)):
            lines += [f"### {title}", "", _row(*COLUMNS), _row(*["---"] * len(COLUMNS))]
            methods = [each for each in of_slot if families.title(each) == title]
            lines += [_method(registry, each, size, base_parameters, base_flops) for each in methods]
            lines.append("")
    return "\n".join(lines)


def _method(registry: Registry, entry: MethodEntry, size: sizes.Size, parameters: int, flops: float) -> str:
    method = registry.get(entry.slot, entry.id)
    build, refusals = size.build(method), []
    try:
        built = skeleton(build)
        more = built.num_parameters() - parameters
        figures = (f"{more:+,}" if more else "0", f"{_forward_flops(build, built, size.length) / flops:.2f}")
    except ZooError as refusal:  # of a model of this size
        built, figures, refusals = skeleton(sizes.size("tiny").build(method)), ("–", "–"), [str(refusal)]
    declared = describe.declared(built)
    path = card_file(entry)
    assert path is not None, f"{entry.id} has no card"
    card = cards.read_card(path)
    notes = refusals if declared.deterministic else [*refusals, "random at every pass"]
    notes += [note for note in [card.first_sentence("Hosts")] if note]
    return _row(
        f"[{entry.id}]({CARDS}/{entry.id}.md)",
        card.phrase,
        f"`{card.formula}`",
        *figures,
        "yes" if declared.decodes else "**no**",
        "yes" if declared.causal else "**no**",
        "; ".join(notes),
    )


def _forward_flops(build: Build, built: LanguageModel, length: int) -> float:
    """FLOPs per token, told from few layers, which is quicker than to count them all.

    Without a history all layers cost the same; with one, layer m costs c0 + c1 m + c2 m², so three tell the rest. Where
    layers are of different kinds, as in a hybrid, all are counted.
    """
    if len({tuple(type(block.extension(slot)) for slot in SLOTS) for block in built.layers}) > 1:
        return sum(forward_flops(build, length))
    layer, depth = built.layers[0].layer, len(built.layers)
    few = partial(build, depth=3 if built.reads else 1, width=layer.width, head_dim=layer.head_dim)
    *layers, rest = forward_flops(few, length)
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
