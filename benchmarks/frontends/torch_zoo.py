"""Networks for `torch_models.py`: plain ones, and `transformers`' in reduced sizes.

Each is a function that returns a module, its inputs for a batch and a length, and the
axes of each input that vary.
"""

from __future__ import annotations

import torch
import transformers as hf
from torch import nn

VOCABULARY = 64
IDS = {0: "batch", 1: "length"}
IMAGES = {0: "batch"}

# sizes that most configurations know by these names
TEXT = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
}
VISION = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "image_size": 32,
    "patch_size": 8,
}
ENCODER_DECODER = {
    "vocab_size": VOCABULARY,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "use_cache": False,
}


def ids(batch, length):
    """Return random token ids."""
    return torch.randint(2, VOCABULARY, (batch, length))


def text(module):
    """Return a model that takes token ids and a mask, with its inputs and axes."""

    def inputs(batch, length):
        mask = torch.ones(batch, length, dtype=torch.int64)
        mask[:, length - 2 :] = 0
        return {"input_ids": ids(batch, length), "attention_mask": mask}

    return module, inputs, {"input_ids": IDS, "attention_mask": IDS}


def words(module):
    """Return a model that takes token ids, with its inputs and axes."""
    return module, lambda b, n: {"input_ids": ids(b, n)}, {"input_ids": IDS}


def vision(module, size=32, name="pixel_values"):
    """Return a model that takes images, with its inputs and axes."""
    return module, lambda b, n: {name: torch.randn(b, 3, size, size)}, {name: IMAGES}


# ---- plain networks -----------------------------------------------------------------


def alexnet():
    """Return AlexNet (Krizhevsky et al., 2012) for images of 63 x 63."""
    features = nn.Sequential(
        nn.Conv2d(3, 16, 11, stride=4, padding=2),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2),
        nn.Conv2d(16, 24, 5, padding=2),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2),
        nn.Conv2d(24, 32, 3, padding=1),
        nn.ReLU(inplace=True),
        nn.AdaptiveAvgPool2d((6, 6)),
        nn.Flatten(),
        nn.Dropout(),
        nn.Linear(32 * 36, 64),
        nn.ReLU(inplace=True),
        nn.Dropout(),
        nn.Linear(64, 10),
    )
    return vision(features, 63, "input")


class Unet(nn.Module):
    """U-Net (Ronneberger et al., 2015) with two levels."""

    def __init__(self):
        super().__init__()
        self.down = nn.ModuleList([self.block(3, 8), self.block(8, 16)])
        self.bottom = self.block(16, 32)
        self.up = nn.ModuleList(
            [nn.ConvTranspose2d(32, 16, 2, 2), nn.ConvTranspose2d(16, 8, 2, 2)]
        )
        self.merge = nn.ModuleList([self.block(32, 16), self.block(16, 8)])
        self.head = nn.Conv2d(8, 2, 1)

    @staticmethod
    def block(channels, features):
        """Return two convolutions with batch norm."""
        return nn.Sequential(
            nn.Conv2d(channels, features, 3, padding=1),
            nn.BatchNorm2d(features),
            nn.ReLU(),
            nn.Conv2d(features, features, 3, padding=1),
            nn.BatchNorm2d(features),
            nn.ReLU(),
        )

    def forward(self, x):
        """Return class scores of each pixel."""
        kept = []
        for block in self.down:
            x = block(x)
            kept.append(x)
            x = nn.functional.max_pool2d(x, 2)
        x = self.bottom(x)
        for up, merge in zip(self.up, self.merge, strict=True):
            x = merge(torch.cat([up(x), kept.pop()], 1))
        return self.head(x)


def unet():
    """Return a U-Net."""
    return vision(Unet(), 32, "x")


def dcgan():
    """Return the generator of DCGAN (Radford et al., 2016)."""
    layers = nn.Sequential(
        nn.ConvTranspose2d(16, 32, 4, 1, 0, bias=False),
        nn.BatchNorm2d(32),
        nn.ReLU(True),
        nn.ConvTranspose2d(32, 16, 4, 2, 1, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(True),
        nn.ConvTranspose2d(16, 3, 4, 2, 1, bias=False),
        nn.Tanh(),
    )
    return (
        layers,
        lambda b, n: {"input": torch.randn(b, 16, 1, 1)},
        {"input": IMAGES},
    )


class Tagger(nn.Module):
    """A recurrent network that classifies each word."""

    def __init__(self, layer, **options):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, 16)
        self.layer = layer(16, 24, 2, batch_first=True, **options)
        self.head = nn.Linear(24 * (1 + self.layer.bidirectional), 5)

    def forward(self, input_ids):
        """Return scores [batch, length, classes]."""
        return self.head(self.layer(self.embedding(input_ids))[0])


def bilstm():
    """Return a bidirectional LSTM of two layers."""
    return words(Tagger(nn.LSTM, bidirectional=True))


def gru():
    """Return a GRU of two layers."""
    return words(Tagger(nn.GRU))


# ---- text ---------------------------------------------------------------------------


def bert():
    """Return a BERT encoder."""
    return text(hf.BertModel(hf.BertConfig(**TEXT)))


def distilbert():
    """Return a DistilBERT encoder."""
    config = hf.DistilBertConfig(
        vocab_size=VOCABULARY, dim=32, hidden_dim=48, n_layers=2, n_heads=4
    )
    return text(hf.DistilBertForSequenceClassification(config))


def roberta():
    """Return a RoBERTa encoder."""
    return text(hf.RobertaForTokenClassification(hf.RobertaConfig(**TEXT)))


def albert():
    """Return an ALBERT encoder, whose layers share weights."""
    return text(hf.AlbertModel(hf.AlbertConfig(embedding_size=16, **TEXT)))


def electra():
    """Return an ELECTRA discriminator."""
    return text(hf.ElectraModel(hf.ElectraConfig(embedding_size=16, **TEXT)))


def gpt2():
    """Return a GPT-2 decoder with learned positions."""
    config = hf.GPT2Config(
        vocab_size=VOCABULARY,
        n_embd=32,
        n_layer=2,
        n_head=4,
        n_positions=64,
        use_cache=False,
    )
    return text(hf.GPT2LMHeadModel(config))


def llama():
    """Return a LLaMA decoder with rotary positions and grouped heads."""
    config = hf.LlamaConfig(num_key_value_heads=2, use_cache=False, **TEXT)
    return text(hf.LlamaForCausalLM(config))


def mistral():
    """Return a Mistral decoder with a sliding window."""
    config = hf.MistralConfig(
        num_key_value_heads=2, use_cache=False, sliding_window=4, **TEXT
    )
    return text(hf.MistralForCausalLM(config))


def mixtral():
    """Return a Mixtral decoder with a mixture of experts."""
    config = hf.MixtralConfig(
        num_key_value_heads=2, use_cache=False, num_local_experts=4, **TEXT
    )
    return text(hf.MixtralForCausalLM(config))


def qwen2():
    """Return a Qwen2 decoder with biases in its projections."""
    config = hf.Qwen2Config(num_key_value_heads=2, use_cache=False, **TEXT)
    return text(hf.Qwen2ForCausalLM(config))


def t5_encoder():
    """Return a T5 encoder with relative positions."""
    return text(hf.T5EncoderModel(t5_config()))


def t5():
    """Return a T5 encoder and decoder."""
    module = hf.T5ForConditionalGeneration(t5_config())
    return (
        module,
        lambda b, n: {"input_ids": ids(b, n), "decoder_input_ids": ids(b, 5)},
        {"input_ids": IDS, "decoder_input_ids": {0: "batch"}},
    )


def t5_config():
    """Return the configuration of a small T5."""
    return hf.T5Config(
        vocab_size=VOCABULARY,
        d_model=32,
        d_kv=8,
        d_ff=48,
        num_layers=2,
        num_heads=4,
        use_cache=False,
    )


def bart():
    """Return a BART encoder and decoder."""
    module = hf.BartModel(hf.BartConfig(max_position_embeddings=64, **ENCODER_DECODER))
    return (
        module,
        lambda b, n: {"input_ids": ids(b, n), "decoder_input_ids": ids(b, 5)},
        {"input_ids": IDS, "decoder_input_ids": {0: "batch"}},
    )


# ---- one step of generation ----------------------------------------------------------


class Cached(nn.Module):
    """A decoder that takes and returns the keys and values of earlier words."""

    def __init__(self, decoder):
        super().__init__()
        self.decoder = decoder

    def forward(self, input_ids, past):
        """Return scores, and keys and values [batch, heads, length, depth]."""
        cache = hf.DynamicCache([tuple(layer) for layer in past])
        found = self.decoder(input_ids, past_key_values=cache, use_cache=True)
        return found.logits, [(x.keys, x.values) for x in found.past_key_values.layers]


def cached(decoder, heads):
    """Return a decoder with its key-value cache as an input."""

    def inputs(batch, length):
        past = torch.randn(2, 2, batch, heads, length, 8)
        return {"input_ids": ids(batch, 3), "past": past}

    axes = {"input_ids": {0: "batch"}, "past": {2: "batch", 4: "length"}}
    return Cached(decoder), inputs, axes


def gpt2_cached():
    """Return GPT-2 with a key-value cache."""
    return cached(gpt2()[0], 4)


def llama_cached():
    """Return LLaMA with a key-value cache; torch.export fixes the grouped heads'
    length.
    """
    return cached(hf.LlamaForCausalLM(hf.LlamaConfig(**TEXT)), 4)


# ---- images -------------------------------------------------------------------------


def vit():
    """Return a vision transformer."""
    return vision(hf.ViTForImageClassification(hf.ViTConfig(**VISION)))


def deit():
    """Return a vision transformer with a distillation token."""
    return vision(hf.DeiTForImageClassification(hf.DeiTConfig(**VISION)))


def swin():
    """Return a transformer over shifted windows."""
    config = hf.SwinConfig(
        image_size=32, patch_size=2, embed_dim=16, depths=[2, 2], num_heads=[2, 4]
    )
    config.window_size = 4
    return vision(hf.SwinForImageClassification(config))


def segformer():
    """Return a hierarchical transformer that segments images."""
    config = hf.SegformerConfig(
        hidden_sizes=[8, 16, 24, 32],
        depths=[1, 1, 1, 1],
        num_attention_heads=[1, 2, 3, 4],
        decoder_hidden_size=16,
        num_labels=3,
    )
    return vision(hf.SegformerForSemanticSegmentation(config), 64)


def resnet():
    """Return a residual network."""
    config = hf.ResNetConfig(
        embedding_size=8, hidden_sizes=[16, 32], depths=[2, 2], layer_type="bottleneck"
    )
    return vision(hf.ResNetForImageClassification(config))


def mobilenet():
    """Return a network of inverted residuals."""
    config = hf.MobileNetV2Config(image_size=64, depth_multiplier=0.35)
    return vision(hf.MobileNetV2ForImageClassification(config), 64)


def convnext():
    """Return a convolutional network with layer norm."""
    config = hf.ConvNextConfig(hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 2, 1])
    return vision(hf.ConvNextForImageClassification(config), 64)


# ---- sound, and several kinds -------------------------------------------------------


def whisper():
    """Return a Whisper model: sound to text."""
    config = hf.WhisperConfig(
        num_mel_bins=8,
        max_source_positions=32,
        max_target_positions=32,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=1,
        decoder_start_token_id=1,
        suppress_tokens=None,
        begin_suppress_tokens=None,
        **ENCODER_DECODER,
    )
    module = hf.WhisperForConditionalGeneration(config)

    def inputs(batch, length):
        sound = torch.randn(batch, 8, 64)
        return {"input_features": sound, "decoder_input_ids": ids(batch, length)}

    return module, inputs, {"input_features": IMAGES, "decoder_input_ids": IDS}


def wav2vec2():
    """Return a Wav2Vec2 model: sound to letters."""
    config = hf.Wav2Vec2Config(
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        conv_dim=(16, 16),
        conv_kernel=(10, 3),
        conv_stride=(5, 2),
        num_feat_extract_layers=2,
        num_conv_pos_embeddings=16,
        num_conv_pos_embedding_groups=4,
        vocab_size=VOCABULARY,
    )
    module = hf.Wav2Vec2ForCTC(config)
    return (
        module,
        lambda b, n: {"input_values": torch.randn(b, 400)},
        {"input_values": IMAGES},
    )


def clip():
    """Return a CLIP model: images and texts."""
    config = hf.CLIPConfig(
        text_config={**TEXT, "projection_dim": 16, "eos_token_id": 1},
        vision_config={**VISION, "projection_dim": 16},
        projection_dim=16,
    )

    def inputs(batch, length):
        pixels = torch.randn(batch, 3, 32, 32)
        return {"input_ids": ids(batch, length), "pixel_values": pixels}

    return (
        hf.CLIPModel(config),
        inputs,
        {"input_ids": IDS, "pixel_values": {0: "images"}},
    )


MODELS = [
    alexnet,
    unet,
    dcgan,
    bilstm,
    gru,
    bert,
    distilbert,
    roberta,
    albert,
    electra,
    gpt2,
    llama,
    mistral,
    mixtral,
    qwen2,
    t5_encoder,
    t5,
    bart,
    gpt2_cached,
    llama_cached,
    vit,
    deit,
    swin,
    segformer,
    resnet,
    mobilenet,
    convnext,
    whisper,
    wav2vec2,
    clip,
]
