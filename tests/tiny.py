"""Small models for tests, made in a second: they have the form of real ones and random numbers."""

import json
from pathlib import Path

import numpy as np

WORDS = [f"w{number}" for number in range(200)]
UNKNOWN = "[UNK]"
SPECIAL = ["[PAD]", UNKNOWN, "[CLS]", "[SEP]"]
MAX_TOKENS = 32
"""What the small transformers take."""


def write_tokenizer(folder: Path) -> None:
    """A tokenizer with one token for each word, `[CLS]` before them and `[SEP]` after."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    vocabulary = {word: number for number, word in enumerate([*SPECIAL, *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    special = {"pad_token": "[PAD]", "unk_token": UNKNOWN, "cls_token": "[CLS]", "sep_token": "[SEP]"}
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": MAX_TOKENS, **special}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))


def write_transformer(
    folder: Path, *, labels: int = 0, max_tokens: int = MAX_TOKENS, layers: int = 1, width: int = 16
) -> None:
    """A BERT, by default with one narrow layer; with `labels`, one that scores pairs of texts."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification, BertModel

    torch.manual_seed(7)
    config = BertConfig(
        vocab_size=len(SPECIAL) + len(WORDS),
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=max(width // 64, 2),
        intermediate_size=4 * width,
        max_position_embeddings=max_tokens,
        num_labels=labels or 2,
        initializer_range=0.5,
    )
    model = BertForSequenceClassification(config) if labels else BertModel(config)
    write_tokenizer(folder)
    model.save_pretrained(folder)


def write_sentence_transformer(
    folder: Path,
    prompts: dict[str, str] | None = None,
    *,
    max_tokens: int = MAX_TOKENS,
    layers: int = 1,
    width: int = 16,
) -> Path:
    """A model in the form of sentence-transformers: BERT, then the mean."""
    write_transformer(folder, max_tokens=max_tokens, layers=layers, width=width)
    modules = [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir()
    pooling = {"word_embedding_dimension": width, "pooling_mode_mean_tokens": True}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": max_tokens}))
    (folder / "config_sentence_transformers.json").write_text(json.dumps({"prompts": prompts or {}}))
    return folder


REMOTE_CODE = """
import torch
from transformers import PretrainedConfig, PreTrainedModel


class TinyConfig(PretrainedConfig):
    model_type = "tiny-plamo"

    def __init__(self, vocab_size=204, hidden_size=16, max_position_embeddings=128, **rest):
        self.vocab_size, self.hidden_size = vocab_size, hidden_size
        self.max_position_embeddings = max_position_embeddings
        super().__init__(**rest)


class TinyModel(PreTrainedModel):
    config_class = TinyConfig

    def __init__(self, config):
        super().__init__(config)
        self.embeddings = torch.nn.Embedding(config.vocab_size, config.hidden_size)
        self.post_init()

    def _init_weights(self, module):
        module.weight.data.normal_()

    def forward(self, input_ids):
        return self.embeddings(input_ids)

    def encode(self, sentences, tokenizer, shift):
        sentences = [sentences] if isinstance(sentences, str) else sentences
        rows = []
        for sentence in sentences:
            found = tokenizer(sentence, truncation=True, max_length=self.config.max_position_embeddings)["input_ids"]
            ids = torch.tensor(found, device=self.device)
            rows.append(self(ids).mean(dim=0) + shift)
        return torch.nn.functional.normalize(torch.stack(rows), dim=1)

    def encode_query(self, sentences, tokenizer):
        return self.encode(sentences, tokenizer, 0.5)

    def encode_document(self, sentences, tokenizer):
        return self.encode(sentences, tokenizer, 0.0)
"""


def write_remote_code(folder: Path) -> Path:
    """A model in the form of PLaMo: its own code, with `encode_query` and `encode_document`."""
    import torch
    from safetensors.torch import save_file

    write_tokenizer(folder)
    (folder / "modeling_tiny.py").write_text(REMOTE_CODE)
    config = {
        "architectures": ["TinyModel"],
        "auto_map": {"AutoConfig": "modeling_tiny.TinyConfig", "AutoModel": "modeling_tiny.TinyModel"},
        "model_type": "tiny-plamo",
        "vocab_size": len(SPECIAL) + len(WORDS),
        "hidden_size": 16,
    }
    (folder / "config.json").write_text(json.dumps(config))
    table = torch.randn(len(SPECIAL) + len(WORDS), 16, generator=torch.Generator().manual_seed(3))
    save_file({"embeddings.weight": table}, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def write_onnx(folder: Path, *, int8: bool = False) -> Path:
    """A model in ONNX: a table of words, one layer, and a vector for each token; with `int8`, quantised."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    write_tokenizer(folder)
    numbers = np.random.default_rng(5)
    table = numbers.standard_normal((len(SPECIAL) + len(WORDS), 32)).astype(np.float32)
    layer = numbers.standard_normal((32, 16)).astype(np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("Gather", ["table", "input_ids"], ["words"]),
            helper.make_node("MatMul", ["words", "layer"], ["last_hidden_state"]),
        ],
        "tiny",
        [
            helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "tokens"]),
            helper.make_tensor_value_info("attention_mask", TensorProto.INT64, ["batch", "tokens"]),
        ],
        [helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, ["batch", "tokens", 16])],
        [numpy_helper.from_array(table, "table"), numpy_helper.from_array(layer, "layer")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    (folder / "config.json").write_text(json.dumps({"max_position_embeddings": MAX_TOKENS}))
    onnx.save(model, folder / "model.onnx")
    if int8:
        from onnxruntime.quantization import quantize_dynamic

        quantize_dynamic(folder / "model.onnx", folder / "model_int8.onnx")
        (folder / "model.onnx").unlink()
    return folder
