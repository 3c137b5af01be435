"""A stack of blocks as a fairseq2 causal language model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from zoo.errors import ZooError
from zoo.extension import Extension, Residual, Stream, name_of, overrides
from zoo.history import History
from zoo.kernels.cross_entropy import Score, linear_cross_entropy, linear_score
from zoo.model.activations import observed_pass
from zoo.model.block import Block
from zoo.model.fairseq2_base import CausalLM, StandardEmbedding
from zoo.model.norm import RMSNorm
from zoo.model.observation import observed, parts_of
from zoo.model.quantities import Quantities, by_layer
from zoo.slots import SLOTS
from zoo.state import State

if TYPE_CHECKING:
    from fairseq2.nn import BatchLayout, IncrementalStateBag


class Scaling(NamedTuple):
    """How much larger a model is than the one whose settings it has."""

    width: float = 1.0  # m_N
    depth: float = 1.0  # m_L


class LanguageModel(CausalLM):
    """Token embedding, blocks, final norm, output projection."""

    def __init__(
        self, vocab_size: int, max_length: int, blocks: list[Block], *, tied: bool, dropout: float, norm_eps: float
    ) -> None:
        super().__init__(max_length)
        width = blocks[0].layer.width
        self.embed = StandardEmbedding(vocab_size, width, init_fn=_leave)
        self.layers = nn.ModuleList(blocks)
        self.norm = RMSNorm(width, norm_eps)
        self.output = None if tied else nn.Parameter(torch.empty(vocab_size, width))
        self.dropout = dropout
        self.scaling = Scaling()
        self.checkpoint_activations = False
        self.notes: tuple[str, ...] = ()  # what its methods changed outside of it while they were built
        self.reads = frozenset[str]().union(*(e.reads for e in self.extensions()))
        self.refuses = sorted({name_of(part) for part in self.all_parts() if not _decodes(part)})
        self._run_stack: Callable[[Tensor, Tensor, State | None], Tensor] = self._stack

    if TYPE_CHECKING:  # as it is called: fairseq2's must have a layout

        def __call__(
            self,
            seqs: Tensor,
            seqs_layout: BatchLayout | None = None,
            targets: Tensor | None = None,
            *,
            state_bag: IncrementalStateBag | None = None,
            target_mask: Tensor | None = None,
            reduction: Literal["sum", "mean"] = "sum",
            z_loss: float = 0.0,
        ) -> Tensor: ...

    def forward(
        self,
        seqs: Tensor,
        seqs_layout: BatchLayout | None = None,
        targets: Tensor | None = None,
        *,
        state_bag: IncrementalStateBag | None = None,
        label_smoothing: float = 0.0,
        target_mask: Tensor | None = None,
        reduction: Literal["sum", "mean"] = "sum",
        return_logits: bool = False,
        z_loss: float = 0.0,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Logits (B, T, V); with targets the loss. Padding is at the end of a row, where a causal model does not see it.

        `z_loss` is the weight in it of the squared log-sum of a token's logits.
        """
        if seqs_layout is not None and seqs_layout.packed:
            raise ValueError("this model takes a batch of rows, not a packed batch: unpack it first")
        hidden = self.hidden(seqs, state_bag)
        if targets is None:
            return F.linear(hidden, self.output_weight())
        if label_smoothing:
            raise ValueError("no label smoothing here: a smoothed loss is not the likelihood that arms are compared by")
        if target_mask is not None:
            targets = targets.masked_fill(~target_mask, -100)
        loss = linear_cross_entropy(hidden, self.output_weight(), targets, reduction, z_loss)
        return (loss, F.linear(hidden, self.output_weight())) if return_logits else loss

    def loss(self, tokens: Tensor, targets: Tensor) -> Tensor:
        """Mean cross-entropy, nats per token; a target of −100 does not count."""
        return linear_cross_entropy(self.hidden(tokens), self.output_weight(), targets, "mean")

    @torch.no_grad()
    def evaluate(self, tokens: Tensor, targets: Tensor) -> Score:
        """How well the targets are predicted, summed over them."""
        return linear_score(self.hidden(tokens), self.output_weight(), targets)

    def hidden(self, tokens: Tensor, state_bag: IncrementalStateBag | None = None) -> Tensor:
        """The last hidden state (B, T, D), normed, as the output projection takes it."""
        if state_bag is not None and self.refuses:
            raise ZooError(
                f"{' and '.join(self.refuses)} cannot be decoded step by step: that would not give what the whole pass gives."
                " Run the whole sequence at every step instead, without a state"
            )
        state = None if state_bag is None else State(state_bag)
        embedding = F.dropout(self.embed(tokens), self.dropout, self.training and self.dropout > 0)
        # Decoding is not compiled: every length is another graph.
        run = self._run_stack if state is None else self._stack
        return self._normed(run(embedding, tokens, state))

    def _normed(self, stream: Tensor) -> Tensor:
        normed: Tensor = self.norm(stream)
        return normed if self.scaling.width == 1 else normed / self.scaling.width

    def _stack(self, embedding: Tensor, tokens: Tensor, state: State | None) -> Tensor:
        """The hidden state after all layers."""
        stream, history = self._opened(embedding, tokens, state)
        saving = self.checkpoint_activations and self.training and state is None
        for block in self.layers:
            stream, history = self._step(block, stream, history, saving)
        return self._closed(stream, state)

    def _opened(self, embedding: Tensor, tokens: Tensor, state: State | None) -> tuple[Stream, History]:
        """The stream under the first layer, and a history without any."""
        embedding = self._block(0).mixed("embedding", embedding, state)
        stream = self._residual(0).open(embedding)
        return stream, History(embedding, self.reads, state=state).opened(stream, tokens)

    def _step(self, block: nn.Module, stream: Stream, history: History, saving: bool) -> tuple[Stream, History]:
        """The stream after a block, and the history with the block in it: the only place where a history grows."""
        if saving:
            stream, record = checkpoint(block, stream, history, history.state, use_reentrant=False)
        else:
            stream, record = block(stream, history, history.state)
        return stream, history.after(record)

    def compile_stack(self) -> None:
        """Compile the whole stack as one graph; layer by layer would meet the recompile limit."""
        self._run_stack = torch.compile(self._stack)

    def output_weight(self) -> Tensor:
        return self.embed.weight if self.output is None else self.output

    def _closed(self, stream: Stream, state: State | None) -> Tensor:
        """The hidden state after the last layer, before the final norm."""
        return self._block(-1).mixed("output", self._residual(-1).close(stream), state)

    def _block(self, index: int) -> Block:
        block = self.layers[index]
        assert isinstance(block, Block)
        return block

    def vocabulary_parameters(self) -> list[nn.Parameter]:
        """What has a row per token of the vocabulary: the embedding, and the output projection where it is another one."""
        return [self.embed.weight] if self.output is None else [self.embed.weight, self.output]

    def _residual(self, index: int) -> Residual:
        return self._block(index).residual

    def extensions(self) -> Iterator[Extension]:
        """Every extension, also those inside others."""
        return (module for module in self.modules() if isinstance(module, Extension))

    def parts(self, slot: str) -> list[Extension]:
        """Every layer's extension in a slot."""
        blocks: Any = self.layers
        return [block.extension(slot) for block in blocks]

    def all_parts(self) -> list[Extension]:
        """Every layer's extension in every slot."""
        return [part for slot in SLOTS for part in self.parts(slot)]

    def outer_parts(self) -> list[Extension]:
        """What the model calls outside of the blocks that it is in: under the first layer, and after the last."""
        first, last = self._block(0), self._block(-1)
        ends = [part for part, call in ((first.residual, "open"), (last.residual, "close")) if overrides(part, call)]
        mixed = [first.mixers.get("embedding"), last.mixers.get("output")]
        return [*ends, *(mixing for mixing in mixed if mixing is not None)]

    def _by_layer(self) -> Iterator[tuple[Extension, ...]]:
        return zip(*(self.parts(slot) for slot in SLOTS), strict=True)

    def num_parameters(self) -> int:
        return sum(p.numel() for p in self.parameters())

    def probes(self) -> Quantities:
        """The learned quantities that extensions offer."""
        return by_layer(self._by_layer(), lambda extension: extension.probes())

    @torch.no_grad()
    def activations(self, tokens: Tensor) -> Quantities:
        """What extensions show of a pass over these tokens, as mean and quantiles: `gate_mean`, `gate_q05`, …"""
        with observed_pass(self.extensions()) as shown:
            self._stack(self.embed(tokens), tokens, None)  # not the compiled one, which knows of no watcher
        return by_layer(self._by_layer(), lambda extension: shown.get(extension, {}))

    @torch.no_grad()
    def inspect(self, tokens: Tensor, targets: Tensor | None = None) -> Iterator[tuple[str, Tensor]]:
        """Every quantity of a forward pass in the order of its computation, to find the first that is wrong.

        `{residual}` in a label stands for the method in that slot.
        """
        embedding = F.dropout(self.embed(tokens), self.dropout, self.training and self.dropout > 0)
        yield "embedding", embedding
        stream, history = self._opened(embedding, tokens, None)
        yield from (("opened stream {residual}", part) for part in parts_of(stream))
        for number, block in enumerate(self.layers, start=1):
            assert isinstance(block, Block)
            with observed(block) as answers:
                stream, history = self._step(block, stream, history, saving=False)
            yield from ((f"layer {number} {where}", quantity) for where, quantity in answers)
        hidden = self._normed(self._closed(stream, None))
        yield "final norm", hidden
        if targets is not None:
            yield "loss", linear_cross_entropy(hidden, self.output_weight(), targets)


def unbuilt(model: nn.Module, names: Iterable[str]) -> list[str]:
    """Those of a checkpoint's weights that nothing ever used: attention's, where a method stands in its place.

    Until API 1.2 they were built there, counted and saved.
    """
    blocks = dict(enumerate(cast("nn.ModuleList", model.layers)))
    gone = [i for i, block in blocks.items() if isinstance(block, Block) and block.attention is None]
    starts = tuple(f"layers.{i}.attention.{part}" for i in gone for part in ("qkv", "out", "q_norm.", "k_norm."))
    return [name for name in names if starts and name.startswith(starts)]


def _decodes(part: Extension) -> bool:
    """Whether it and every extension inside it decode."""
    return all(module.decodes for module in part.modules() if isinstance(module, Extension))


def _leave(embedding: StandardEmbedding) -> None:
    """Initialise nothing: `initialise` fills every core weight by its name."""


DEEPEST, WIDEST = 4096, 1 << 20  # far beyond what anyone trains here
