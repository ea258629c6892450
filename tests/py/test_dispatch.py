"""The boxed kernel: forms of a row, kinds of arguments, results, devices, plans, decompositions and the host fallback."""

import os
import subprocess
import sys
import warnings

import pytest
import torch

import torch_tpu


def report():
    """What the glue has bound: {schema: row}, and {name: reason} of what it has not."""
    bound, skipped = {}, {}
    for line in torch.ops.tpu._row_report():
        state, name, text = line.split("|", 2)
        (bound if state == "ok" else skipped)[name] = text
    return bound, skipped


def test_every_row_finds_its_schema():
    _, skipped = report()
    assert [name for name, why in skipped.items() if "no such op" in why] == []


@pytest.mark.parametrize(
    ("row", "forms"),
    [
        ("add.Tensor", ["add.Tensor", "add_.Tensor", "add.out"]),
        ("sqrt", ["sqrt", "sqrt_", "sqrt.out"]),
        ("sum.dim_IntList", ["sum.dim_IntList", "sum.IntList_out"]),
        ("clamp", ["clamp", "clamp_", "clamp.out"]),
        ("_foreach_add.List", ["_foreach_add.List", "_foreach_add_.List"]),
    ],
)
def test_one_row_serves_all_forms(row, forms):
    bound, _ = report()
    assert {form: bound.get(f"aten::{form}") for form in forms} == dict.fromkeys(forms, row)


def test_composite_implicit_ops_without_gradient_are_left_to_pytorch():
    bound, _ = report()
    for name in bound:
        if torch._C._dispatch_has_kernel_for_dispatch_key(name, "CompositeImplicitAutograd"):
            assert torch._C._dispatch_has_kernel_for_dispatch_key(name, "Autograd"), name


def test_in_place_returns_self_and_bumps_the_version():
    x = torch.ones(3, device="tpu")
    version = x._version
    assert x.add_(2) is x
    assert x._version == version + 1
    assert x.tolist() == [3.0, 3.0, 3.0]


def test_in_place_on_a_view_reaches_the_base():
    base = torch.zeros(2, 3, device="tpu")
    base[:, 1].add_(torch.tensor([1.0, 2.0], device="tpu"))
    assert base.tolist() == [[0, 1, 0], [0, 2, 0]]


def test_out_is_filled_and_returned():
    out = torch.empty(3, device="tpu")
    assert torch.add(torch.ones(3, device="tpu"), 1, out=out) is out
    assert out.tolist() == [2.0, 2.0, 2.0]


def test_out_of_another_dtype():
    out = torch.empty(3, dtype=torch.float64, device="tpu")
    torch.mul(torch.full((3,), 1.5, device="tpu"), 2, out=out)
    assert out.tolist() == [3.0, 3.0, 3.0]


def test_empty_out_is_resized_silently():
    out = torch.empty(0, device="tpu")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.sum(torch.ones(3, 4, device="tpu"), 1, out=out)
    assert out.tolist() == [4.0, 4.0, 4.0]


def test_wrong_out_is_resized_with_pytorchs_warning():
    out = torch.empty(2, device="tpu")
    with pytest.warns(UserWarning, match="was resized since it had shape"):
        torch.add(torch.ones(3, device="tpu"), 1, out=out)
    assert out.tolist() == [2.0, 2.0, 2.0]


def test_out_of_a_data_dependent_size():
    out = torch.empty(0, dtype=torch.int64, device="tpu")
    torch.nonzero(torch.tensor([0, 5, 0, 7], device="tpu"), out=out)
    assert out.tolist() == [[1], [3]]


def test_several_outs():
    values, indices = torch.empty(2, device="tpu"), torch.empty(2, dtype=torch.int64, device="tpu")
    result = torch.max(torch.tensor([[1.0, 9.0], [8.0, 2.0]], device="tpu"), 1, out=(values, indices))
    assert result[0] is values
    assert values.tolist() == [9.0, 8.0]
    assert indices.tolist() == [1, 0]


def test_lists_in_and_out():
    a = [torch.ones(2, device="tpu"), torch.ones(3, device="tpu")]
    added = torch._foreach_add(a, 1)
    assert [t.tolist() for t in added] == [[2, 2], [2, 2, 2]]
    torch._foreach_mul_(a, 3.0)
    assert [t.tolist() for t in a] == [[3, 3], [3, 3, 3]]


def test_numbers_and_cpu_scalars_mix_with_tensors():
    x = torch.arange(3, device="tpu")
    assert (x * 2).dtype == torch.int64
    assert (x * 0.5).tolist() == [0.0, 0.5, 1.0]
    assert (x + torch.tensor(1.5)).tolist() == [1.5, 2.5, 3.5]
    assert (x + torch.tensor(1.5, dtype=torch.float64)).dtype == torch.float64
    assert (x * 0.5 + torch.tensor(1.5, dtype=torch.float64)).dtype == torch.float32
    assert (x.to(torch.float16) * 0.1).dtype == torch.float16
    assert (x + 1j).tolist() == [1j, 1 + 1j, 2 + 1j]


def test_undefined_results_follow_the_output_mask():
    x = torch.randn(1, 2, 5, 5)
    w = torch.randn(3, 2, 3, 3)
    for needs in ((True, False), (False, True), (True, True)):
        cpu = [x.clone().requires_grad_(needs[0]), w.clone().requires_grad_(needs[1])]
        tpu = [x.to("tpu").requires_grad_(needs[0]), w.to("tpu").requires_grad_(needs[1])]
        for _ in range(2):  # a miss, then a hit
            torch.nn.functional.conv2d(*cpu).sum().backward()
            torch.nn.functional.conv2d(*tpu).sum().backward()
        for ours, theirs in zip(tpu, cpu, strict=True):
            assert (ours.grad is None) == (theirs.grad is None)
            if ours.grad is not None:
                torch.testing.assert_close(ours.grad.cpu(), theirs.grad, rtol=1e-4, atol=1e-4)


def test_like_ops_may_leave_the_device():
    x = torch.ones(2, 3, device="tpu")
    assert torch.zeros_like(x, device="cpu").device.type == "cpu"
    assert torch.full_like(x, 3.0, device="cpu").sum().item() == 18
    assert torch.rand_like(x, device="cpu").device.type == "cpu"
    assert x.new_ones(2, device="cpu").device.type == "cpu"
    assert torch.zeros_like(x, device="tpu:1").device.index == 1


def test_factories_choose_their_device():
    assert torch.arange(3, device="tpu:2").device.index == 2
    with torch.tpu.device(1):
        assert torch.ones(2, device="tpu").device.index == 1
    assert torch.rand(2, device="tpu:3").device.index == 3


def test_the_second_call_is_a_plan_hit(counters):
    x = torch.ones(5, 7, device="tpu")
    x * 1.25
    before = counters()
    x * 2.5  # another number, the same program
    after = counters()
    assert after["plan_misses"] == before["plan_misses"]
    assert after["compiles"] == before["compiles"]
    assert after["plan_hits"] == before["plan_hits"] + 1


def test_the_default_dtype_is_part_of_the_plan():
    x = torch.ones(2, dtype=torch.int64, device="tpu")
    assert (x / 2).dtype == torch.float32
    torch.set_default_dtype(torch.float64)
    try:
        assert (x / 2).dtype == torch.float64
        assert torch.arange(0, 1, 0.5, device="tpu").dtype == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    assert (x / 2).dtype == torch.float32


def test_memory_formats_are_part_of_the_plan():
    x = torch.randn(2, 3, 4, 5, device="tpu")
    plain = x.clone()
    last = x.clone(memory_format=torch.channels_last)
    assert plain.is_contiguous()
    assert last.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(plain, last)


def test_masks_become_indices():
    x = torch.arange(12.0, device="tpu").view(3, 4)
    assert x[x > 8].tolist() == [9, 10, 11]
    assert x[:, torch.tensor([True, False, True, False])].tolist() == [[0, 2], [4, 6], [8, 10]]
    y = x.clone()
    y[y > 5] = 0
    assert y.sum().item() == 15
    y[torch.tensor([True, False, True], device="tpu")] = torch.tensor([7.0], device="tpu")
    assert y[0].tolist() == [7, 7, 7, 7]


def test_a_masked_number_needs_no_host_read(counters):
    x = torch.arange(12.0, device="tpu")
    mask = x > 5
    x[mask] = 0.0
    assert counters()["host_waits"] == 0
    assert x.sum().item() == 15


def test_cpu_indices_come_to_the_device():
    x = torch.arange(6.0, device="tpu")
    assert x[torch.tensor([4, 1])].tolist() == [4, 1]
    x[torch.tensor([0])] = 9.0
    assert x[0].item() == 9


def test_autograd_goes_through_the_kernel():
    x = torch.tensor([1.0, 4.0], device="tpu", requires_grad=True)
    x.sqrt().sum().backward()
    assert x.grad.tolist() == [0.5, 0.25]


def test_grad_of_a_fused_form_with_a_formula():
    x = torch.randn(5)
    ours = x.to("tpu").requires_grad_()
    theirs = x.clone().requires_grad_()
    torch.nn.functional.silu(ours).sum().backward()
    torch.nn.functional.silu(theirs).sum().backward()
    torch.testing.assert_close(ours.grad.cpu(), theirs.grad)


def test_a_decomposition_is_one_program(counters):
    """A registered op of our own whose decomposition is three ops."""
    library = torch.library.Library("tpt_test", "DEF")
    library.define("three(Tensor x) -> Tensor")
    torch._decomp.register_decomposition(torch.ops.tpt_test.three.default)(lambda x: (x + 1) * 2 - 3)
    x = torch.ones(4, device="tpu")
    torch.tpu.synchronize()
    before = counters()
    assert torch.ops.tpt_test.three(x).tolist() == [1, 1, 1, 1]  # the read cuts, should the mode be fused
    after = counters()
    assert after["decompositions"] == before["decompositions"] + 1
    assert after["executes"] == before["executes"] + 1


def test_in_place_form_through_a_functional_decomposition():
    library = torch.library.Library("tpt_test", "FRAGMENT")
    library.define("four(Tensor x) -> Tensor")
    library.define("four_(Tensor(a!) x) -> Tensor(a!)")
    torch._decomp.register_decomposition(torch.ops.tpt_test.four.default)(lambda x: x + 4)
    x = torch.ones(2, device="tpu")
    assert torch.ops.tpt_test.four_(x) is x
    assert x.tolist() == [5, 5]


def test_a_failing_decomposition_leaves_the_device_usable():
    library = torch.library.Library("tpt_test", "FRAGMENT")
    library.define("bad(Tensor x) -> Tensor")

    def bad(x):
        x + 1
        raise ValueError("as told")

    torch._decomp.register_decomposition(torch.ops.tpt_test.bad.default)(bad)
    with pytest.raises(ValueError, match="as told"):
        torch.ops.tpt_test.bad(torch.ones(2, device="tpu"))
    executes = torch_tpu.metrics.counters()["executes"]
    x = torch.ones(2, device="tpu") + 1
    assert x.tolist() == [2, 2]
    assert torch_tpu.metrics.counters()["executes"] > executes


FALLBACK = """
import warnings, torch, torch_tpu
library = torch.library.Library("tpt_test", "DEF")
library.define("hosted(Tensor x) -> Tensor")
library.impl("hosted", lambda x: x * 2 + 1, "CPU")
x = torch.ones(3, device="tpu")
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    for _ in range(2):
        y = torch.ops.tpt_test.hosted(x)
assert y.device.type == "tpu" and y.tolist() == [3, 3, 3]
assert sum("runs on the host" in str(w.message) for w in seen) == 1, seen
assert torch_tpu.metrics.counters()["fallbacks"] == 2
"""


def test_bincount_has_the_size_of_its_values():
    x = torch.tensor([4, 0, 4, 1])
    for kw in ({}, {"minlength": 8}, {"weights": torch.tensor([0.5, 1, 2, 4])}):
        ours = {k: v.to("tpu") if isinstance(v, torch.Tensor) else v for k, v in kw.items()}
        assert torch.equal(torch.bincount(x.to("tpu"), **ours).cpu(), torch.bincount(x, **kw))
    with pytest.raises(RuntimeError, match="1-d non-negative integral"):
        torch.bincount(torch.tensor([-1], device="tpu"))


def test_host_fallback_when_asked():
    env = dict(os.environ, TORCH_TPU_CPU_FALLBACK="1")
    done = subprocess.run([sys.executable, "-c", FALLBACK], env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


def test_first_calls_import_nothing_big() -> None:
    """Arithmetic on strided tensors needs none of PyTorch's Python meta kernels, whose import takes seconds."""
    code = """
import sys, torch
x = torch.arange(24.0).view(4, 6).to("tpu").t()
y = torch.ones(6, 4, device="tpu")
x + y, x * 2, x // 2, x % 5, x.clamp(2, 9), (x > 3) & (x < 9), x.exp(), x.sum(1), x.mean(), x.softmax(1), x.lerp(y, 0.5)
x.add_(y), x.mul_(2), x.addcmul_(x, y), x.sqrt_()
torch.tpu.synchronize()
assert "torch._dynamo" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ | {"TORCH_TPU_CACHE": "0"})


def test_donation_does_not_wait_for_readers(counters):
    """A CPU plugin of 0.81 waits for the users of a buffer that it takes over: only one that none has used lately is given."""
    x = torch.ones(64, 64).to("tpu")
    if torch_tpu._C.platform()["api_minor"] > 81:
        pytest.skip("later plugins never wait")
    made = torch.ones(64, 64).to("tpu").mul_(2)  # its program: while one is being made, its thread holds what goes in and out
    assert (made + 1).sum().item() == 3 * 64 * 64
    reads = x + 1
    reads.sum().item()
    before = counters()["donations"]
    x.mul_(2)
    assert counters()["donations"] == before + 1  # its readers were done at the host read
    x.mul_(2)
    assert counters()["donations"] == before + 2  # perhaps still being made, which nothing waits for
    again = x + 1
    x.mul_(2)
    assert counters()["donations"] == before + 2  # perhaps still being read
    assert torch.equal(x.cpu(), torch.full((64, 64), 8.0)) and reads.sum().item() == 2 * 64 * 64
    assert again.sum().item() == 5 * 64 * 64
