"""Small networks of any architecture in `transformers`, and inputs that they take.

Nothing here knows an architecture by its name: sizes are made small by what their
fields are called, and inputs are tried until the network runs.
"""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import warnings

import torch
import transformers as hf

LARGEST = 40_000_000  # parameters
WORDS = 99

# sizes by the names that fields have for them
LAYERS = {
    "num_hidden_layers": 2,
    "n_layer": 2,
    "n_layers": 2,
    "num_layers": 2,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "num_encoder_layers": 2,
    "num_decoder_layers": 2,
    "num_blocks": 2,
    "depth": 2,
}
WIDTHS = {
    "hidden_size": 32,
    "encoder_hidden_size": 32,
    "decoder_hidden_size": 32,
    "cross_attention_hidden_size": 32,
    "embedding_size": 32,
    "d_model": 32,
    "n_embd": 32,
    "dim": 32,
    "embed_dim": 32,
    "hidden_dim": 32,
    "intermediate_size": 48,
    "moe_intermediate_size": 48,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "ffn_dim": 48,
    "d_ff": 48,
    "n_inner": 48,
    "dim_feedforward": 48,
}
HEADS = {
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "num_heads": 4,
    "n_head": 4,
    "n_heads": 4,
}
OTHERS = {
    "vocab_size": WORDS,
    "max_position_embeddings": 64,
    "head_dim": 8,
    "d_kv": 8,
    "projection_dim": 16,
    "num_local_experts": 4,
    "num_experts": 4,
    "n_routed_experts": 4,
    "n_group": 1,
    "topk_group": 1,
    "num_experts_per_tok": 2,
    "sliding_window": 4,
    "rotary_dim": 4,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 8,
    "v_head_dim": 8,
    "q_lora_rank": 16,
    "kv_lora_rank": 16,
}
PADDING = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
PADDING["decoder_start_token_id"] = 1
PLAIN = {"use_cache": False}

# from the smallest to what the architecture has by default
REDUCTIONS = (
    LAYERS | WIDTHS | HEADS | OTHERS | PADDING | PLAIN,
    LAYERS | OTHERS | PADDING | PLAIN,
    LAYERS | PLAIN,
    PLAIN,
)


def network(kind: str):
    """Build a small network of an architecture, with inputs that it accepts; raise if
    none.

    Returns:
        The module, a function of batch and length, and which axes of each input vary.
    """
    reasons = []
    for sizes in REDUCTIONS:
        try:
            module = built(kind, sizes)
        except Exception as error:  # sizes that do not go together
            reasons.append(f"{type(error).__name__}: {error}")
            continue
        if module is None:
            reasons.append(f"more than {LARGEST} parameters")
            continue
        refused: str | None = "no input is known by its name"
        for inputs, axes in candidates(module):
            refused = refusal(module, inputs)
            if refused is None:
                return module, inputs, axes
        reasons.append(f"does not run: {refused}")
    raise ValueError(" ".join(reasons[0].split())[:100])


def built(kind: str, sizes):
    """Build the network with reduced sizes; None if it is still too large."""
    warnings.filterwarnings("ignore")
    config = configuration(hf.CONFIG_MAPPING[kind], sizes)
    model = hf.MODEL_MAPPING[type(config)]
    model = model[0] if isinstance(model, (list, tuple)) else model
    with torch.device("meta"):
        count = sum(each.numel() for each in model(config).parameters())
    if count > LARGEST:
        return None
    torch.manual_seed(0)
    return varied(model(config).eval())


def varied(module):
    """Add noise to constant weights of a network, in place, so that none are equal."""
    with torch.no_grad():
        for each in module.parameters():
            if each.is_floating_point() and each.numel() > 1 and each.std() == 0:
                each.add_(torch.randn_like(each), alpha=0.05)
    return module


def configuration(kind, sizes):
    """Return an architecture's configuration, and nested ones, with reduced sizes."""
    known = {each.name for each in dataclasses.fields(kind)}
    given = {name: size for name, size in sizes.items() if name in known}
    default = kind()
    for name in kind.sub_configs:
        part = getattr(default, name, None)
        if isinstance(part, hf.PretrainedConfig):
            given[name] = configuration(type(part), sizes)
    return kind(**given)


# ---- inputs -------------------------------------------------------------------------

IDS = {0: "batch", 1: "length"}
ROWS = {0: "batch"}


def candidates(module):
    """Yield (inputs function, varying axes) that a network may take, the likeliest
    first.
    """
    taken = arguments(module)
    first = module.main_input_name
    images = [image(module.config, size) for size in (None, 64, 224)]
    made = {
        "input_ids": [words],
        "pixel_values": images,
        "input_values": [sound, channel],
        "input_features": [spectra(module.config, flip) for flip in (False, True)],
    }
    rest = [name for name in made if name in taken and name != first]
    if first not in taken and rest:
        first = rest.pop(0)
    decoder = (
        {"decoder_input_ids": (words, IDS)} if "decoder_input_ids" in taken else {}
    )
    for more in ((), *([each] for each in rest)):
        for makers in itertools.product(*(made.get(n, []) for n in (first, *more))):
            for extra in (decoder, {}) if decoder else ({},):
                yield together((first, *more), makers, extra, taken)


def together(names, makers, extra, taken):
    """Return one function (batch, length) for all inputs, and their varying axes."""
    made = dict(zip(names, makers, strict=True)) | {n: m for n, (m, _) in extra.items()}
    if "input_ids" in made and "attention_mask" in taken:
        made["attention_mask"] = ones
    axes = {n: IDS if m in (words, ones) else ROWS for n, m in made.items()}

    def inputs(batch, length):
        torch.manual_seed(1)
        return {name: make(batch, length) for name, make in made.items()}

    return inputs, axes


def arguments(module):
    """Return the names of a network's `forward` arguments."""
    return set(inspect.signature(module.forward).parameters)


def words(batch, length):
    """Return random token ids."""
    return torch.randint(3, WORDS, (batch, length))


def ones(batch, length):
    """Return an attention mask that hides nothing."""
    return torch.ones(batch, length, dtype=torch.int64)


def sound(batch, length):
    """Return random samples of sound."""
    return torch.randn(batch, 2000)


def channel(batch, length):
    """Return random samples of sound with a channel axis."""
    return sound(batch, length)[:, None]


def image(config, size):
    """Return a function that draws images of the configured or another size."""
    config = getattr(config, "vision_config", None) or config
    told = getattr(config, "image_size", None)
    channels = getattr(config, "num_channels", 3)
    sides = (size, size) if size else (told, told) if isinstance(told, int) else told
    sides = tuple(sides or (64, 64))
    return lambda batch, length: torch.randn(batch, channels, *sides)


def spectra(config, flip):
    """Return a function that draws features of sound, with time first or last."""
    config = getattr(config, "audio_config", None) or config
    bands = getattr(config, "num_mel_bins", None) or 80
    time = 2 * getattr(config, "max_source_positions", 32)
    shape = (bands, time) if flip else (time, bands)
    return lambda batch, length: torch.randn(batch, *shape)


def refusal(module, inputs) -> str | None:
    """Call a network; return its error as text, None if it accepts the inputs."""
    try:
        with torch.no_grad():
            module(**inputs(2, 7))
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None
