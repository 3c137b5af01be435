"""Documents that are kept apart, as `data.cross_documents = False` does: none sees its neighbours, nor what fills up its row."""

from __future__ import annotations

import torch
from torch import Tensor

from zoo.data.document_rows import IGNORE, document_rows
from zoo.model.language_model import LanguageModel
from zoo.testing.cases import VOCAB, Broken, Case, Outcome, Skipped, hosts
from zoo.testing.method_under_test import EXACT, Subject, difference, look, tokens

EOS = 0
APART = (*hosts(Case(2, 12, 2)), Case(1, 40, 3), Case(2, 12, 2, training=True))


def apart(subject: Subject, case: Case) -> Outcome | None:
    """The logits of a document are those it has alone, whatever else stands in its block."""
    built = subject.build(case)
    if not all(extension.causal for extension in built.extensions()):
        return Skipped("it lets a token see later ones: the trainer refuses to keep documents apart")
    if not all(extension.deterministic for extension in built.extensions()):
        return Skipped("it draws in every pass, so that no two passes are alike")
    borders = sorted({0, case.length // 3, 2 * case.length // 3})
    blocks = _with_borders(tokens(case), borders)
    together = _in_rows(built, blocks)
    for first, last in zip(borders, [*borders[1:], case.length], strict=True):
        if difference(look(built, blocks[:, first:last]), together[:, first:last]) > EXACT:
            return Broken(
                f"the document from token {first} to {last - 1} of a block has other logits alone than as a row"
            )
        others = _with_borders((blocks + 1) % VOCAB, borders)
        others[:, first:last] = blocks[:, first:last]
        if difference(_in_rows(built, others)[:, first:last], together[:, first:last]) > EXACT:
            return Broken(f"the document from token {first} to {last - 1} of a block sees its neighbours")
    return None


def _with_borders(blocks: Tensor, borders: list[int]) -> Tensor:
    """Blocks in which documents begin there and nowhere else."""
    blocks = blocks.clamp(min=EOS + 1)
    blocks[:, borders] = EOS
    return blocks


def _in_rows(built: LanguageModel, blocks: Tensor) -> Tensor:
    """The logits (B, T, V) of blocks that are run as rows of documents."""
    places = torch.arange(blocks.numel()).view_as(blocks)  # in place of targets: where each token stood
    logits = None
    for rows, where in document_rows(blocks, places, EOS):
        answer = look(built, rows)
        logits = answer.new_zeros(blocks.numel(), answer.size(-1)) if logits is None else logits
        logits[where[where != IGNORE]] = answer[where != IGNORE]
    assert logits is not None
    return logits.view(*blocks.shape, -1)
