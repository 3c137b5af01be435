"""Naive references of the published relatives, written from the catalogue alone, and the table of them all.

model = REFERENCES["mhc"].build(n=2)
model.shapes(layer)   # name -> shape of a layer's parameters; layer: host.Layer, or zoo.extension.Layer
model.start(layer)    # name -> exact tensor or distribution; starts.complaint(start, parameter) examines one
model.logits(tokens, weights, params, layers)   # reference.Weights; one dict of tensors and one Layer per layer
"""

from functools import partial

from . import dense, diagonal, local, long_convolution, matrix_state, norms, scaled, scores, streams, values
from .host import Layer, Model, Reference

RESIDUAL = {
    "rezero": (scaled.Rezero, None),
    "layer_scale": (scaled.LayerScale, None),
    "highway": (scaled.Highway, None),
    "laurel_rw": (scaled.LaurelRw, "baseline"),
    "laurel_lr": (scaled.LaurelLr, "baseline"),
    "laurel_pa": (scaled.LaurelPa, "baseline"),
    "x0_lambda": (scaled.X0Lambda, "baseline"),
    "x0_lambda_nanochat": (partial(scaled.X0Lambda, lambdas=(1.15, 1.05), mus=(0.2, 0.05)), None),
    "unet_skips": (scaled.UnetSkips, None),
    "backout": (scaled.Backout, None),
    "two_hop": (scaled.TwoHop, None),
    "denseformer": (dense.DenseFormer, "baseline"),
    "mudd": (dense.Mudd, "baseline"),
    "mudd_dynamic": (partial(dense.Mudd, multiway=False), "baseline"),
    "mudd_multiway_static": (partial(dense.Mudd, dynamic=False), "baseline"),
    "mudd_static": (partial(dense.Mudd, multiway=False, dynamic=False), "baseline"),
    "grn_v1": (partial(dense.Grn, version=1), "baseline"),
    "grn_v2": (partial(dense.Grn, version=2), "baseline"),
    "grn_v3": (partial(dense.Grn, version=3), "baseline"),
    "dca": (dense.Dca, "baseline"),
    "attnres": (dense.AttnRes, None),
    "attnres_block": (dense.AttnResBlock, None),
    "hc_static": (partial(streams.HyperConnections, dynamic=False), "baseline"),
    "hc_dynamic": (streams.HyperConnections, "baseline"),
    "mhc": (streams.ManifoldHyperConnections, "baseline"),
    "frac_static": (partial(streams.FracConnections, dynamic=False), "baseline"),
    "frac_dynamic": (streams.FracConnections, "baseline"),
    "peri_ln": (norms.PeriLn, None),
    "post_norm": (norms.PostNorm, None),
    "olmo_norm": (norms.OlmoNorm, None),
    "residual_dual": (norms.ResidualDual, None),
    "deepnorm": (norms.DeepNorm, None),
}
HEADS = {
    "value_residual": (values.ValueResidual, None),
    "value_residual_learned": (partial(values.ValueResidual, learned=True), None),
    "lime": (values.Lime, None),
    "gated_attention": (values.GatedAttention, None),
    "gated_attention_elementwise": (partial(values.GatedAttention, elementwise=True), None),
    "differential_v2": (values.DifferentialV2, None),
}
SCORES = {
    "realformer": (scores.RealFormer, None),
    "realformer_mean": (partial(scores.RealFormer, mean=True), None),
    "talking_heads": (scores.TalkingHeads, "baseline"),
    "talking_heads_pre": (partial(scores.TalkingHeads, post=False), "baseline"),
    "talking_heads_post": (partial(scores.TalkingHeads, pre=False), "baseline"),
    "differential": (scores.Differential, None),
    "fox": (scores.Fox, None),
    "alibi": (scores.Alibi, None),
    "attention_sink": (scores.Sink, "softmax_one"),
    "softmax_one": (partial(scores.Sink, learned=False), None),
    "ssmax": (scores.Ssmax, None),
    "cosine_attention": (scores.CosineAttention, None),
    "sigmoid_attention": (scores.SigmoidAttention, None),
    "selective_attention": (scores.SelectiveAttention, None),
    "mta": (scores.MultiTokenAttention, None),
}
TEMPORAL = {
    "canon": (local.Canon, None),
    "canon_a": (partial(local.Canon, sites="A"), None),
    "canon_c": (partial(local.Canon, sites="C"), None),
    "canon_ac": (partial(local.Canon, sites="AC"), None),
    "canon_abcd": (partial(local.Canon, sites="ABCD"), None),
    "token_shift": (local.TokenShift, None),
    "token_shift_lora": (local.TokenShiftLora, "token_shift"),
    "primer_dconv": (local.PrimerDconv, None),
    "kv_shift": (local.KvShift, None),
    "smear": (local.Smear, "baseline"),
    "griffin": (diagonal.Griffin, None),
    "rg_lru": (diagonal.RgLru, None),
    "min_gru": (diagonal.MinGru, None),
    "mamba": (diagonal.Mamba, None),
    "linear_attention": (matrix_state.LinearAttention, None),
    "retention": (matrix_state.Retention, None),
    "gla": (matrix_state.Gla, None),
    "mamba2": (matrix_state.Mamba2, None),
    "deltanet": (matrix_state.DeltaNet, None),
    "gated_deltanet": (matrix_state.GatedDeltaNet, None),
    "cema": (long_convolution.Cema, None),
}
SLOTS = {"residual": RESIDUAL, "head_mixing": HEADS, "score_mixing": SCORES, "temporal_mixing": TEMPORAL}

REFERENCES: dict[str, Reference] = {
    id: Reference(id, slot, build, starts_as) for slot, rows in SLOTS.items() for id, (build, starts_as) in rows.items()
}

__all__ = ["REFERENCES", "Layer", "Model", "Reference"]
