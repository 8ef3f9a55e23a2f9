"""Real architectures, small and with random weights, each with a batch of inputs: what growth meets in the wild."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

WORDS = 31
"""Size of the vocabulary."""

TEXT = {"vocab_size": WORDS, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
BLOCKS = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4}
PLAIN = {**TEXT, **BLOCKS, "max_position_embeddings": 32}
GROUPED = {**PLAIN, "num_key_value_heads": 2}
PATCHES = {**BLOCKS, "image_size": 8, "patch_size": 4}
STAGES = {"hidden_sizes": [8, 12], "depths": [1, 2]}
PYRAMID = {
    "hidden_sizes": [8, 16], "depths": [1, 2], "num_encoder_blocks": 2, "num_attention_heads": [2, 4],
    "sr_ratios": [2, 1], "patch_sizes": [3, 3], "strides": [2, 2], "mlp_ratios": [2, 2],
}  # fmt: skip
WINDOWS = {"image_size": 16, "patch_size": 2, "embed_dim": 8, "depths": [2, 1], "num_heads": [2, 4], "window_size": 2}
MOBILE = {"depth_multiplier": 0.1, "min_depth": 4}
SCALED = {
    "width_coefficient": 0.2, "depth_coefficient": 0.1, "hidden_dim": 256, "in_channels": [32, 16, 24],
    "out_channels": [16, 24, 40], "kernel_sizes": [3, 3, 5], "strides": [1, 2, 2], "num_block_repeats": [1, 2, 2],
    "expand_ratios": [1, 6, 6], "depthwise_padding": [],
}  # fmt: skip
POOLED = {
    **STAGES, "num_encoder_blocks": 2, "patch_sizes": [3, 3], "strides": [2, 2], "padding": [1, 1], "mlp_ratio": 2.0
}  # fmt: skip
DISTILLED = {
    "vocab_size": WORDS, "dim": 16, "hidden_dim": 24, "n_layers": 2, "n_heads": 4, "max_position_embeddings": 32,
    "pad_token_id": 0,
}  # fmt: skip
TWO_STACKS = {
    **TEXT, "d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 24, "decoder_ffn_dim": 24,
    "encoder_attention_heads": 4, "decoder_attention_heads": 4, "max_position_embeddings": 32,
    "decoder_start_token_id": 2, "forced_eos_token_id": 2,
}  # fmt: skip
FIVE = {
    "vocab_size": WORDS, "d_model": 16, "d_kv": 4, "d_ff": 24, "num_layers": 2, "num_heads": 4, "pad_token_id": 0,
    "decoder_start_token_id": 0,
}  # fmt: skip

CONFIGS: dict[str, tuple[str, dict[str, Any]]] = {
    "resnet": ("ResNetForImageClassification", {**STAGES, "embedding_size": 8, "layer_type": "basic"}),
    "regnet": ("RegNetForImageClassification", {**STAGES, "embedding_size": 8, "groups_width": 4}),
    "mobilenet_v1": ("MobileNetV1ForImageClassification", MOBILE),
    "mobilenet_v2": ("MobileNetV2ForImageClassification", {**MOBILE, "depth_divisible_by": 4}),
    "efficientnet": ("EfficientNetForImageClassification", SCALED),
    "convnext": ("ConvNextForImageClassification", {**STAGES, "num_stages": 2, "patch_size": 2}),
    "poolformer": ("PoolFormerForImageClassification", POOLED),
    "vit": ("ViTForImageClassification", PATCHES),
    "deit": ("DeiTForImageClassification", PATCHES),
    "beit": ("BeitForImageClassification", PATCHES),
    "dinov2": ("Dinov2ForImageClassification", PATCHES),
    "swin": ("SwinForImageClassification", WINDOWS),
    "segformer": ("SegformerForImageClassification", PYRAMID),
    "bert": ("BertForSequenceClassification", PLAIN),
    "roberta": ("RobertaForSequenceClassification", PLAIN),
    "distilbert": ("DistilBertForSequenceClassification", DISTILLED),
    "albert": ("AlbertForSequenceClassification", {**PLAIN, "embedding_size": 8}),
    "gpt2": ("GPT2LMHeadModel", {**TEXT, "n_positions": 32, "n_embd": 16, "n_layer": 2, "n_head": 4}),
    "gpt_neox": ("GPTNeoXForCausalLM", PLAIN),
    "opt": ("OPTForCausalLM", {**PLAIN, "ffn_dim": 24, "word_embed_proj_dim": 16}),
    "bloom": ("BloomForCausalLM", {**TEXT, "hidden_size": 16, "n_layer": 2, "n_head": 4}),
    "phi": ("PhiForCausalLM", PLAIN),
    "llama": ("LlamaForCausalLM", GROUPED),
    "mistral": ("MistralForCausalLM", {**GROUPED, "sliding_window": 4}),
    "qwen2": ("Qwen2ForCausalLM", GROUPED),
    "qwen3": ("Qwen3ForCausalLM", {**GROUPED, "head_dim": 4}),
    "gemma": ("GemmaForCausalLM", {**GROUPED, "head_dim": 4}),
    "t5": ("T5ForConditionalGeneration", FIVE),
    "bart": ("BartForConditionalGeneration", TWO_STACKS),
}
"""The class and the configuration of each."""


def make(name: str) -> tuple[nn.Module, torch.Tensor | tuple[Any, ...]]:
    """An architecture by its name and a batch of three inputs for it; no two weights of it are alike."""
    import transformers

    transformers.logging.set_verbosity_error()
    class_name, options = CONFIGS[name]
    cls = getattr(transformers, class_name)
    torch.manual_seed(0)
    network = cls(cls.config_class(**options)).eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    if "Image" in class_name:
        size = options.get("image_size", 16)
        return network, torch.randn(3, 3, size, size)
    words = torch.randint(3, WORDS, (3, 7))
    return network, (words, None, torch.randint(3, WORDS, (3, 5))) if "Conditional" in class_name else words
