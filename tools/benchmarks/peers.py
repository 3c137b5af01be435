"""The baseline against other implementations of the same block: time and memory of a training step.

    tools/run python tools/benchmarks/peers.py --equal
    tools/run python tools/benchmarks/peers.py --default

transformers' Llama comes with the install; x-transformers is measured when it is installed (pip install -e '.[peers]').
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import statistics
from collections.abc import Callable

from zoo.bench.timing import Step, compare

DEPTH, WIDTH, HEADS, FFN, VOCAB, LENGTH, BATCH = 8, 256, 8, 688, 8192, 256, 8


def _training_step(model, loss: Callable, fused: bool = True) -> Step:
    import torch

    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=fused)
    batch = torch.randint(VOCAB, (BATCH, LENGTH + 1), generator=torch.Generator().manual_seed(0))

    def step() -> None:
        loss(model, batch[:, :-1], batch[:, 1:]).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)

    return step


def zoo(compiled: bool = False) -> Step:
    from zoo.model.build import model

    built = model(VOCAB, LENGTH, depth=DEPTH, width=WIDTH, num_heads=HEADS, head_dim=WIDTH // HEADS, ffn_dim=FFN)
    if compiled:
        built.compile_stack()
    return _training_step(built, lambda m, x, y: m.loss(x, y))


def llama(attention: str, compiled: bool = False) -> Step:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=WIDTH,
        intermediate_size=FFN,
        num_hidden_layers=DEPTH,
        num_attention_heads=HEADS,
        max_position_embeddings=LENGTH,
        tie_word_embeddings=True,
        use_cache=False,
        attn_implementation=attention,
    )
    built = LlamaForCausalLM(config)
    if compiled:
        built.compile()
    return _training_step(built, _logits_loss(lambda m, x: m(x).logits))


def x_transformers() -> Step:
    from x_transformers import Decoder, TransformerWrapper

    decoder = Decoder(
        dim=WIDTH,
        depth=DEPTH,
        heads=HEADS,
        attn_dim_head=WIDTH // HEADS,
        rotary_pos_emb=True,
        rotary_emb_dim=WIDTH // HEADS,
        use_rmsnorm=True,
        attn_flash=True,
        ff_swish=True,
        ff_glu=True,
        ff_no_bias=True,
        ff_mult=FFN / WIDTH,
    )
    wrapped = TransformerWrapper(
        num_tokens=VOCAB, max_seq_len=LENGTH, attn_layers=decoder, tie_embedding=True, use_abs_pos_emb=False
    )
    return _training_step(wrapped, _logits_loss(lambda m, x: m(x)))


def fairseq2() -> Step:
    from zoo.system import fairseq2_setup  # noqa: F401  # before anything of fairseq2

    # isort: split
    import torch
    from fairseq2.models.llama import LLaMAConfig, create_llama_model
    from fairseq2.nn import BatchLayout

    config = LLaMAConfig(
        model_dim=WIDTH,
        max_seq_len=LENGTH,
        vocab_size=VOCAB,
        tied_embeddings=True,
        num_layers=DEPTH,
        num_attn_heads=HEADS,
        num_key_value_heads=HEADS,
        ffn_inner_dim=FFN,
        ffn_inner_dim_scale=1.0,
        ffn_inner_dim_multiplier=1.0,
        ffn_inner_dim_multiple_of=1,
        rope_theta=10000.0,
        dropout_p=0.0,
        shard_embed_dim=False,
    )
    layout = BatchLayout((BATCH, LENGTH), seq_lens=None, device=torch.device("cpu"))
    return _training_step(create_llama_model(config), lambda m, x, y: m(x, layout, y, reduction="mean"))


def _logits_loss(logits: Callable) -> Callable:
    import torch.nn.functional as F

    return lambda m, x, y: F.cross_entropy(logits(m, x).flatten(0, 1), y.flatten())


GEMM = 2048


def gemm() -> Step:
    """What the machine can do at most: one large product in float32."""
    import torch

    a, b, out = (torch.randn(GEMM, GEMM) for _ in range(3))
    return lambda: torch.mm(a, b, out=out)


def step_flops() -> float:
    """Multiply-adds × 2 of the model's matrix products: forward and twice that backward; causal attention counts half."""
    tokens = BATCH * LENGTH
    weights = DEPTH * (4 * WIDTH * WIDTH + 3 * WIDTH * FFN) + VOCAB * WIDTH
    attention = DEPTH * 2 * LENGTH * WIDTH / 2
    return 3 * 2 * tokens * (weights + attention)


def parser() -> argparse.ArgumentParser:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rounds", type=int, default=9)
    arguments.add_argument("--threads", type=int, help="for every model (default: 2; with --equal 1)")
    arguments.add_argument("--compiled", action="store_true", help="also measure zoo and Llama under torch.compile")
    terms = arguments.add_mutually_exclusive_group()
    terms.add_argument(
        "--equal", action="store_true", help="CPU time of one thread, the same allocator settings for every model"
    )
    terms.add_argument(
        "--default", action="store_true", help="peers without the allocator settings that zoo's own commands set"
    )
    return arguments


def models(compiled: bool) -> dict[str, Callable[[], Step]]:
    arms: dict[str, Callable[[], Step]] = {
        "zoo": zoo,
        "transformers Llama, SDPA": functools.partial(llama, "sdpa"),
        "transformers Llama, eager": functools.partial(llama, "eager"),
        "fairseq2 TransformerLM": fairseq2,
        "GEMM": gemm,
    }
    if compiled:
        arms["zoo, compiled"] = functools.partial(zoo, True)
        arms["transformers Llama, compiled"] = functools.partial(llama, "sdpa", True)
    if importlib.util.find_spec("x_transformers"):
        arms["x-transformers"] = x_transformers
    return arms


def main() -> None:
    options = parser().parse_args()
    arms = models(options.compiled)
    peers = [name for name in arms if not name.startswith(("zoo", "GEMM"))]
    threads = options.threads or (1 if options.equal else 2)
    as_they_come = peers if options.default else ()
    times = compare(arms, rounds=options.rounds, threads=threads, as_they_come=as_they_come, cpu=options.equal)
    ours = times["zoo"]
    peak = [2 * GEMM**3 / s for s in times.pop("GEMM").seconds]
    print(f"{'model':28} {'time, zoo = 1':>16} {'memory MB':>10} {'zoo uses':>9}")
    for name, measured in times.items():
        print(f"{name:28} {measured.ratio(ours):16.2f} {measured.memory:10.0f} {ours.memory / measured.memory:9.2f}")
    share = statistics.median(step_flops() / s / p for s, p in zip(ours.seconds, peak, strict=True))
    print(f"\nzoo's matrix products run at {share:.0%} of the machine's GEMM peak")


if __name__ == "__main__":
    main()
