#!/usr/bin/env python3
"""Writes the lists of this folder: the gradients of published models, in the order in which a backward pass has them ready.

  make_buckets.py FOLDER

A line is a number of elements and the name of the gradient. As trainers do, neighbours are put together until they have
64 KiB in 16-bit floats, and what is larger than 64 MiB is cut into equal parts.
"""
import os
import sys

LEAST, MOST = 32 << 10, 32 << 20  # elements


def gpt2(vocabulary=50257, context=1024, width=768, layers=12):
    """Parameters of GPT-2 (124 M) in forward order; the output layer is the embedding."""
    yield "wte", vocabulary * width
    yield "wpe", context * width
    for i in range(layers):
        yield f"h.{i}.ln_1", 2 * width
        yield f"h.{i}.attn.c_attn.weight", width * 3 * width
        yield f"h.{i}.attn.c_attn.bias", 3 * width
        yield f"h.{i}.attn.c_proj.weight", width * width
        yield f"h.{i}.attn.c_proj.bias", width
        yield f"h.{i}.ln_2", 2 * width
        yield f"h.{i}.mlp.c_fc.weight", width * 4 * width
        yield f"h.{i}.mlp.c_fc.bias", 4 * width
        yield f"h.{i}.mlp.c_proj.weight", 4 * width * width
        yield f"h.{i}.mlp.c_proj.bias", width
    yield "ln_f", 2 * width


def llama3_8b(vocabulary=128256, width=4096, inner=14336, layers=32, key_value_width=1024):
    """Parameters of Llama 3 8B in forward order: 32 heads of 128, 8 of them for keys and values."""
    yield "embed_tokens", vocabulary * width
    for i in range(layers):
        yield f"layers.{i}.input_layernorm", width
        yield f"layers.{i}.q_proj", width * width
        yield f"layers.{i}.k_proj", key_value_width * width
        yield f"layers.{i}.v_proj", key_value_width * width
        yield f"layers.{i}.o_proj", width * width
        yield f"layers.{i}.post_attention_layernorm", width
        yield f"layers.{i}.gate_proj", inner * width
        yield f"layers.{i}.up_proj", inner * width
        yield f"layers.{i}.down_proj", width * inner
    yield "norm", width
    yield "lm_head", vocabulary * width


def bucket(parameters):
    """(elements, name) of each bucket, last parameter first."""
    names, waiting = [], 0
    for name, elements in reversed(list(parameters)):
        names.append(name)
        waiting += elements
        if waiting >= LEAST:
            yield from cut(waiting, "+".join(names))
            names, waiting = [], 0
    if waiting:
        yield waiting, "+".join(names)


def cut(elements, name):
    parts = -(-elements // MOST)
    for part in range(parts):
        share = elements * (part + 1) // parts - elements * part // parts
        yield share, name if parts == 1 else f"{name}[{part + 1}/{parts}]"


MODELS = {"gpt2.txt": ("GPT-2, 124 M parameters", gpt2), "llama3-8b.txt": ("Llama 3 8B", llama3_8b)}


def text_of(title, parameters):
    lines = [f"{elements} {name}" for elements, name in bucket(parameters())]
    total = sum(elements for _, elements in parameters())
    return "\n".join([f"# {title}: {total} parameters in {len(lines)} buckets, by make_buckets.py", *lines, ""])


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    for name, (title, parameters) in MODELS.items():
        with open(os.path.join(sys.argv[1], name), "w", encoding="utf-8") as file:
            file.write(text_of(title, parameters))


if __name__ == "__main__":
    main()
