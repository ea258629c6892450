"""A language model with real weights answers a prompt on device tpu, token by token.

The decode loop has fixed shapes: the prompt goes in by chunks of 8 and single tokens, the key/value cache has a fixed size, so
every step after the first of its kind runs programs that exist already.

    python examples/chat.py "What is the capital of France?"
    python examples/chat.py --check          # greedy tokens equal those of device cpu, and of model.generate
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

import smollm2
import torch
import transformers

CHUNK = 8
ROOM = 256  # slots of the key/value cache


@torch.inference_mode()
def stream(model: transformers.PreTrainedModel, ids: torch.Tensor, most: int, stop: int) -> Iterator[int]:
    """Greedy tokens, one at a time: at most `most`, ending with `stop`. `ids` is [1, n] on the model's device."""
    cache = transformers.StaticCache(config=model.config, max_cache_len=ROOM)
    steps = [ids[:, i : i + CHUNK] for i in range(0, ids.shape[1] - CHUNK + 1, CHUNK)]
    done = len(steps) * CHUNK
    steps += [ids[:, i : i + 1] for i in range(done, ids.shape[1])]
    for step in steps:
        logits = model(input_ids=step, cache=cache, use_cache=True).logits
    for _ in range(most):
        token = logits[:, -1:].argmax(-1)
        value = int(token)
        yield value
        if value == stop:
            return
        logits = model(input_ids=token, cache=cache, use_cache=True).logits


def timed(model: transformers.PreTrainedModel, ids: torch.Tensor, most: int, stop: int, show) -> tuple[list[int], float, float]:
    """Tokens, seconds to the first one, and steady tokens a second (first two steps left out)."""
    start, marks, tokens = time.perf_counter(), [], []
    for token in stream(model, ids, most, stop):
        marks.append(time.perf_counter())
        tokens.append(token)
        show(token)
    rate = (len(marks) - 3) / (marks[-1] - marks[2]) if len(marks) > 3 else float("nan")
    return tokens, marks[0] - start, rate


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("prompt", nargs="?", default="What is the capital of France?")
    parser.add_argument("--device", default="tpu")
    parser.add_argument("--tokens", type=int, default=40, help="most tokens to generate, at least 4")
    parser.add_argument("--check", action="store_true", help="compare with device cpu and with model.generate")
    args = parser.parse_args()

    model, tokenizer = smollm2.load()
    ids = smollm2.prompt_ids(tokenizer, args.prompt)
    if args.tokens < 4:
        raise SystemExit(f"--tokens {args.tokens}: at least 4")
    if ids.shape[1] + args.tokens > ROOM:
        raise SystemExit(f"prompt and answer need {ids.shape[1] + args.tokens} places, the cache has {ROOM}")
    stop = tokenizer.eos_token_id
    reference = None
    if args.check:
        reference, _, cpu_rate = timed(model, ids, args.tokens, stop, lambda token: None)
    model.to(args.device)
    print(f"> {args.prompt}")
    words: list[int] = []

    def show(token: int) -> None:
        before = tokenizer.decode(words, skip_special_tokens=True)
        words.append(token)
        print(tokenizer.decode(words, skip_special_tokens=True)[len(before) :], end="", flush=True)

    tokens, first, rate = timed(model, ids.to(args.device), args.tokens, stop, show)
    print(f"\n[{args.device}: {rate:.1f} tokens/s, first token after {first:.2f} s]")
    if args.check:
        again, first, rate = timed(model, ids.to(args.device), args.tokens, stop, lambda token: None)
        print(f"[once more, nothing left to compile: {rate:.1f} tokens/s, first token after {first:.2f} s]")
        print(f"[cpu: {cpu_rate:.1f} tokens/s]")
        short = min(len(reference), 12)
        made = model.generate(ids.to(args.device), attention_mask=torch.ones_like(ids).to(args.device), max_new_tokens=short)
        generated = made[0, ids.shape[1] :].tolist()
        if tokens != reference or again != reference:
            raise SystemExit(f"tokens differ from cpu's:\n cpu {reference}\n {args.device} {tokens}")
        if generated != reference[:short]:
            raise SystemExit(f"model.generate gave other tokens:\n cpu {reference[:short]}\n {args.device} {generated}")
        print(f"check: {len(tokens)} greedy tokens equal cpu's; model.generate's first {short} as well")


if __name__ == "__main__":
    main()
