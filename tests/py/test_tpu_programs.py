"""What programs for a TPU must look like to be fast there: facts that its compiler's estimates hang on (`make bench-tpu`).

Recorded on the fake plugin, which lowers as for a TPU and runs nothing; values are compared in the other tests."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SCRIPT = """
import sys
import torch, torch_tpu
sys.path.insert(0, sys.argv[1])
import tpu_models
tpu_models.WIDTH, tpu_models.HEADS, tpu_models.LENGTH, tpu_models.BATCH, tpu_models.HIDDEN = 64, 4, 32, 2, 96
step = tpu_models.llama_block(backward=True, plain=sys.argv[2] != "sdpa", formula=sys.argv[2] == "formula")
with torch.tpu.set_eager_mode(torch.tpu.EagerMode.DEFER_AND_FUSE):
    step()
    torch.tpu.synchronize()
    with torch_tpu.explain() as told:
        kept = step()
(cut,) = told.cuts
assert (cut.inputs, cut.results, cut.gathers) == (12, 11, 0), told
print(f"{cut.program:016x}.mlir")
"""


@pytest.fixture(scope="module", params=["plain", "formula", "sdpa"])
def block(request, tmp_path_factory):
    """(kind, text) of a Llama block, forward and backward, which must be one program."""
    folder = tmp_path_factory.mktemp("dump")
    settings = {
        "TORCH_TPU_PJRT_PLUGIN": "null",
        "TORCH_TPU_CACHE": "0",
        "TORCH_TPU_FUSE_LAZY": "0",
        "TORCH_TPU_DUMP": str(folder),
    }
    command = [sys.executable, "-c", SCRIPT, str(ROOT / "bench"), request.param]
    done = subprocess.run(command, env=os.environ | settings, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return request.param, (folder / done.stdout.split()[-1]).read_text()


@pytest.fixture
def program(block):
    return block[1]


def test_dots_have_one_batch_dim_and_give_halves(block):
    name, program = block
    dots = re.findall(r"dot_general.*?lhs_batching_dimensions = \[(.*?)\].*-> \(tensor<\w*x(\w+)>\)", program)
    # Nine forward, two for the gradients of each; the fused attention's gradient has the scores anew, which the compiler sees.
    assert len(dots) == (28 if name == "sdpa" else 27)
    assert {batch for batch, _ in dots} == {"", "0"}
    # A compiler that may keep excess precision stores what a dot gives as it is. The fused attention wants its scores, twice,
    # and their gradient in float32.
    assert sum(dtype != "bf16" for _, dtype in dots) == (3 if name == "sdpa" else 0)


def test_halves_of_heads_are_plain_slices(program):
    assert "dynamic_slice" not in program and '"stablehlo.pad"' not in program and '"stablehlo.gather"' not in program


def test_rows_are_summed_at_once(program):
    """Rows cut in two, as processors like it, move data there."""
    reduced = re.findall(r"dimensions = array<i64: ([\d, ]+)>}> \({\n(?:.*\n){3} *}\) : \(tensor<([\dx]+)xf32>", program)
    assert reduced
    assert all(len(shape.split("x")) <= 4 for _, shape in reduced)


def test_softmax_gradient_holds_its_row_sums(program):
    """Without the barrier "reduce, then broadcast" becomes windows over whole score matrices."""
    assert re.search(r"optimization_barrier.*tensor<(2x4|8)x32x1xf32>", program)
