"""Blocks → a fairseq2 causal language model."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal

import gin
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from zoo.attention import Attention, RMSNorm
from zoo.block import Block
from zoo.compat import prepare
from zoo.errors import ConfigError, ZooError
from zoo.extension import Extension, Hint, Layer, Residual, ScoreMixing, TemporalMixing
from zoo.functional import Score, linear_cross_entropy, linear_score
from zoo.history import History, check_reads
from zoo.state import State

prepare()

from fairseq2.models.clm import CausalLM  # noqa: E402
from fairseq2.nn import StandardEmbedding  # noqa: E402

if TYPE_CHECKING:
    from fairseq2.nn import BatchLayout, IncrementalStateBag


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
        self.checkpoint_activations = False
        self.reads = frozenset[str]().union(*(e.reads for e in self.extensions()))
        self.refuses = sorted({type(e).__name__ for e in self.extensions() if not e.decodes})
        self._run_stack: Callable[[Tensor, State | None], Tensor] = self._stack

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
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Logits (B, T, V); with targets the loss. Padding is at the end of a row, where a causal model does not see it."""
        if seqs_layout is not None and seqs_layout.packed:
            raise ValueError("this model takes a batch of rows, not a packed batch: unpack it first")
        hidden = self.hidden(seqs, state_bag)
        if targets is None:
            return F.linear(hidden, self.output_weight())
        if label_smoothing:
            raise ValueError("no label smoothing here: a smoothed loss is not the likelihood that arms are compared by")
        if target_mask is not None:
            targets = targets.masked_fill(~target_mask, -100)
        loss = linear_cross_entropy(hidden, self.output_weight(), targets, reduction)
        return (loss, F.linear(hidden, self.output_weight())) if return_logits else loss

    def loss(self, tokens: Tensor, targets: Tensor) -> Tensor:
        """Mean cross-entropy, nats a token; a target of −100 does not count."""
        return linear_cross_entropy(self.hidden(tokens), self.output_weight(), targets, "mean")

    @torch.no_grad()
    def evaluate(self, tokens: Tensor, targets: Tensor) -> Score:
        return linear_score(self.hidden(tokens), self.output_weight(), targets)

    def hidden(self, tokens: Tensor, state_bag: IncrementalStateBag | None = None) -> Tensor:
        """The last hidden state (B, T, D), normed."""
        if state_bag is not None and self.refuses:
            raise ZooError(
                f"{' and '.join(self.refuses)} cannot be decoded step by step: that would not give what the whole pass gives."
                " Run the whole sequence at every step instead, without a state"
            )
        state = None if state_bag is None else State(state_bag)
        embedding = F.dropout(self.embed(tokens), self.dropout, self.training and self.dropout > 0)
        run = (
            self._run_stack if state is None else self._stack
        )  # decoding is not compiled: every length is another graph
        return self.norm(run(embedding, state))

    def _stack(self, embedding: Tensor, state: State | None) -> Tensor:
        """The layers, and the only place where the history grows."""
        stream = self._residual(0).open(embedding)
        history = History(embedding, self.reads, state=state)
        saving = self.checkpoint_activations and self.training and state is None
        for block in self.layers:
            if saving:
                stream, record = checkpoint(block, stream, history, state, use_reentrant=False)
            else:
                stream, record = block(stream, history, state)
            history = history.after(record)
        return self._residual(-1).close(stream)

    def compile_stack(self) -> None:
        """Compile the whole stack as one graph; layer by layer would meet the recompile limit."""
        self._run_stack = torch.compile(self._stack)

    def output_weight(self) -> Tensor:
        return self.embed.weight if self.output is None else self.output

    def _residual(self, index: int) -> Residual:
        residual = self.layers[index].residual
        assert isinstance(residual, Residual)
        return residual

    # -- what the trainer and the reports ask ---------------------------------------------------------------------------

    def extensions(self) -> Iterator[Extension]:
        return (module for module in self.modules() if isinstance(module, Extension))

    def parts(self, slot: str) -> list[Extension]:
        """Every layer's extension in a slot."""
        blocks: Any = self.layers
        return [block.attention.score_mixing if slot == "score_mixing" else getattr(block, slot) for block in blocks]

    def num_parameters(self) -> int:
        return sum(p.numel() for p in self.parameters())

    def probes(self) -> dict[str, dict[int, Tensor]]:
        """The learned quantities that extensions offer: name → layer number → tensor."""
        found: dict[str, dict[int, Tensor]] = {}
        for number, block in enumerate(self.layers, start=1):
            for module in block.modules():
                if isinstance(module, Extension):
                    for name, value in module.probes().items():
                        found.setdefault(name, {})[number] = value.detach()
        return found

    @torch.no_grad()
    def inspect(self, tokens: Tensor, targets: Tensor | None = None) -> Iterator[tuple[str, Tensor]]:
        """Every quantity of a forward pass in the order of its computation, to find the first that is wrong."""
        embedding = F.dropout(self.embed(tokens), self.dropout, self.training and self.dropout > 0)
        yield "embedding", embedding
        stream = self._residual(0).open(embedding)
        history = History(embedding, self.reads)
        for number, block in enumerate(self.layers, start=1):
            stream, record = block(stream, history, None)
            history = history.after(record)
            yield f"layer {number} attention input", record.input
            yield f"layer {number} attention", record.attention
            yield f"layer {number} ffn", record.ffn
            yield f"layer {number} output", stream
        hidden = self.norm(self._residual(-1).close(stream))
        yield "final norm", hidden
        if targets is not None:
            yield "loss", linear_cross_entropy(hidden, self.output_weight(), targets)


def _leave(embedding: StandardEmbedding) -> None:
    """No initialiser: `initialise` fills every core weight by its name."""


@gin.register("model", module="zoo")
def model(
    vocab_size: int,
    max_length: int,
    *,
    depth: int = 6,
    aspect: int = 32,
    width: int | None = None,
    head_dim: int | None = None,
    num_heads: int | None = None,
    num_kv_heads: int | None = None,
    ffn_dim: int | None = None,
    parallel: bool = False,
    dropout: float = 0.0,
    tied: bool = True,
    qk_norm: bool = False,
    rope_theta: float = 10000.0,
    norm_eps: float = 1e-5,
    init_std: float | None = None,
    residual: Callable[..., Residual] | None = None,
    score_mixing: Callable[..., ScoreMixing] | None = None,
    temporal_mixing: Callable[..., TemporalMixing] | None = None,
    seed: int = 0,
) -> LanguageModel:
    """A language model. `depth` is the dial: width = depth · aspect, heads of width `aspect`, an FFN of 8/3 the width.

    Without methods this is a Llama. `parallel` chooses the host whose FFN reads the block's input. The same seed gives the
    same value to every weight that two models share, whatever methods they have. `init_std` is 0.02 at GPT-2's width of 768
    and grows as 1/√width below it: with 0.02 a narrow plain block starts with branches too weak to learn in a short study,
    and every method that makes them stronger looks like a gain.
    """
    width = width or depth * aspect
    head_dim = head_dim or aspect
    num_heads = num_heads or max(1, width // head_dim)
    num_kv_heads = num_kv_heads or num_heads
    ffn_dim = ffn_dim or max(16, round(width * 8 / 3 / 16) * 16)
    _check_sizes(depth, width, head_dim, num_heads, num_kv_heads, vocab_size, max_length, dropout)
    blocks = []
    for index in range(depth):
        layer = Layer(
            index, depth, width, ffn_dim, num_heads, num_kv_heads, head_dim, max_length, parallel, norm_eps
        )  # fmt: skip
        parts = {
            slot: _build(slot, kind, factory, layer, seed)
            for slot, kind, factory in (
                ("residual", Residual, residual),
                ("score_mixing", ScoreMixing, score_mixing),
                ("temporal_mixing", TemporalMixing, temporal_mixing),
            )
        }
        attention = Attention(layer, parts["score_mixing"], qk_norm=qk_norm, dropout=dropout, rope_theta=rope_theta)
        blocks.append(Block(layer, parts["residual"], attention, parts["temporal_mixing"], dropout))
    check_composition(blocks[-1], score_mixing is not None)
    built = LanguageModel(vocab_size, max_length, blocks, tied=tied, dropout=dropout, norm_eps=norm_eps)
    initialise(built, 0.02 * math.sqrt(768 / width) if init_std is None else init_std, seed)
    return built


def _check_sizes(
    depth: int, width: int, head_dim: int, heads: int, kv_heads: int, vocab_size: int, max_length: int, dropout: float
) -> None:
    if min(depth, width, head_dim, heads, kv_heads, vocab_size, max_length) < 1:
        raise ConfigError("model: depth, width, heads, vocabulary and length must be at least 1")
    if head_dim % 2:
        raise ConfigError(f"model.head_dim = {head_dim}: rotary positions turn pairs, so it must be even")
    if heads % kv_heads:
        raise ConfigError(f"model.num_kv_heads = {kv_heads} does not divide num_heads = {heads}")
    if not 0.0 <= dropout < 1.0:
        raise ConfigError(f"model.dropout = {dropout} must be at least 0 and below 1")


def _seed_of(seed: int, name: str) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed}/{name}".encode()).digest()[:7], "big")


def _build(slot: str, kind: type[Extension], factory: Callable[..., Extension] | None, layer: Layer, seed: int) -> Any:
    """One extension, with a random state of its own so that no method shifts another's start."""
    if factory is None:
        return kind()
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(_seed_of(seed, f"{slot}.{layer.index}"))  # torch.manual_seed is slow
        built = factory(layer)
    if not isinstance(built, kind):
        raise ConfigError(f"model.{slot}: the method built a {type(built).__name__}, not a {kind.__name__}")
    check_reads(built.reads, f"model.{slot}: {type(built).__name__}")
    return built


def check_composition(block: Block, has_scores: bool) -> None:
    """Refuse what makes no sense together, before anything is trained."""
    residual, mixing = block.residual, block.temporal_mixing
    if mixing.site == "attention":
        name = type(mixing).__name__
        if has_scores:
            raise ConfigError(
                f"score mixing has nothing to mix: the temporal method {name} stands in place of attention"
            )
        if residual.reads & {"scores", "blocks"}:
            raise ConfigError(
                f"the residual method {type(residual).__name__} runs earlier layers again with their attention pattern,"
                f" but the temporal method {name} stands in place of attention, so there is none"
            )
    if residual.widens and "blocks" in block.attention.score_mixing.reads | residual.reads:
        raise ConfigError(
            f"{type(residual).__name__} widens the stream, and a method that runs layers again needs the plain one"
        )


@torch.no_grad()
def initialise(built: LanguageModel, std: float, seed: int) -> None:
    """Fill the core's weights, each from a generator of its own name; extensions keep what they set themselves."""
    own = {id(p) for extension in built.extensions() for p in extension.parameters()}
    scale = 1 / math.sqrt(2 * len(built.layers))
    for name, parameter in built.named_parameters():
        if id(parameter) in own or parameter.dim() < 2 or parameter.is_meta:
            continue
        generator = torch.Generator().manual_seed(_seed_of(seed, name))
        into_stream = name.endswith(("attention.out", "ffn.down"))
        values = torch.randn(parameter.shape, generator=generator) * (std * scale if into_stream else std)
        parameter.copy_(values)


def parameter_groups(built: nn.Module, lr: float, weight_decay: float) -> list[dict[str, Any]]:
    """Optimiser groups that honour every parameter's hint; without one, matrices decay and vectors do not."""
    groups: dict[Hint, list[nn.Parameter]] = {}
    for parameter in built.parameters():
        wanted = getattr(parameter, "zoo_hint", Hint(decay=parameter.dim() >= 2, lr_factor=1.0))
        groups.setdefault(wanted, []).append(parameter)
    return [
        {
            "params": parameters,
            "lr": lr * wanted.lr_factor,
            "weight_decay": weight_decay if wanted.decay else 0.0,
            "lr_factor": wanted.lr_factor,
        }
        for wanted, parameters in groups.items()
    ]
