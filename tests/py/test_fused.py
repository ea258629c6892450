"""Fused mode: what is recorded, where it is cut, what runs as one program, and that numbers and errors are strict mode's."""

import threading

import pytest
import torch
from torch import nn

import torch_tpu
from torch_tpu import metrics

FUSED = torch.tpu.EagerMode.DEFER_AND_FUSE
STRICT = torch.tpu.EagerMode.DEFER_NEVER


@pytest.fixture(autouse=True)
def fused():
    with torch.tpu.set_eager_mode(FUSED):
        yield


def counted(fn, *names):
    """The function's result and how much each counter grew."""
    torch.tpu.synchronize()  # what other tests recorded is not counted
    before = metrics.counters()
    value = fn()
    after = metrics.counters()
    return value, {name: after[name] - before[name] for name in names}


def chain():
    x = torch.arange(6.0).tpu()
    y = x.view(2, 3).t() * 2
    y[1:].add_(x[:2])
    return (y.exp().sum() - y.max()).item()


def test_a_graph_is_compiled_when_met_again_and_then_runs_as_one_program():
    want = chain()
    with torch.tpu.set_eager_mode(STRICT):
        assert chain() == pytest.approx(want, rel=1e-6)
    chain()
    value, grown = counted(chain, "compiles", "executes")
    assert value == pytest.approx(want, rel=1e-6)
    assert grown == {"compiles": 0, "executes": 1}


def test_a_graph_goes_on_op_by_op_while_it_is_compiled():
    def work():
        x = torch.arange(12.0).view(3, 4).tpu()
        return (torch.special.erfcx(x @ x.t()).tan() + x.sum()).sum().item()

    with torch.tpu.set_eager_mode(STRICT):
        want = work()
    ways = []
    for _ in range(3):
        told = torch_tpu.explain(work)
        assert told.value == pytest.approx(want, rel=1e-5)
        ways.append([cut.way for cut in told.cuts if cut.nodes > 2])
        metrics.counters()  # waits for the compilers
    assert ways[0] == ["op by op"] and ways[1] in (["op by op, compiling"], ["compiled"]) and ways[2] == ["hit"]


def test_a_first_graph_runs_with_the_programs_of_strict_mode():
    def work():
        x = torch.full((3, 5), 2.0).tpu()
        return ((x * 3 + 1).sqrt() - x).sum().item()

    with torch.tpu.set_eager_mode(STRICT):
        want = work()
    value, grown = counted(work, "compiles")
    assert value == want and grown["compiles"] == 0


def test_what_nobody_can_see_is_not_run():
    def work():
        x = torch.ones(4).tpu()
        for _ in range(10):
            y = x * 2
        del y
        return torch_tpu._C.graph_cut(0)

    _, grown = counted(work, "executes")
    assert grown["executes"] == 0


def test_numbers_that_change_compile_nothing():
    def work(rate):
        x = torch.ones(7).tpu()
        return (x * rate + rate).sum().item()

    for rate in (0.5, 0.25):
        work(rate)
    value, grown = counted(lambda: work(0.125), "compiles", "executes")
    assert value == 7 * 0.25 and grown == {"compiles": 0, "executes": 1}


def train(device, steps, read):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 3)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    x = torch.linspace(-1, 1, 20).view(4, 5).to(device)
    target = torch.tensor([0, 1, 2, 1]).to(device)
    losses = []
    for step in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), target)
        loss.backward()
        optimizer.step()
        if read and step % read == 0:
            losses.append(loss.item())
    return losses, [p.detach().cpu() for p in model.parameters()]


@pytest.mark.parametrize("read", [1, 3, 0])
def test_training_is_cpus(read):
    want, got = train("cpu", 7, read), train("tpu", 7, read)
    torch.testing.assert_close(got[0], want[0], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(got[1], want[1], rtol=1e-4, atol=1e-5)


def test_a_training_step_becomes_one_program():
    torch.manual_seed(0)
    model = nn.Linear(3, 2).tpu()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    x = torch.ones(4, 3).tpu()

    def step():
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.item()

    for _ in range(4):
        step()
    _, grown = counted(step, "compiles", "executes")
    assert grown == {"compiles": 0, "executes": 1}


def test_a_loop_without_reads_is_cut_at_its_body():
    def loop(turns):
        y, half = torch.zeros(8).tpu(), torch.full((8,), 0.5).tpu()
        for _ in range(turns):
            y = y * half + 1
        return y[0].item()

    loop(2000)
    with torch_tpu.explain() as told:
        assert loop(5000) == 2.0
    reasons = told.reasons()
    assert reasons["loop body"] > 50 and "limit: nodes" not in reasons
    hits = [cut for cut in told.cuts if cut.reason == "loop body" and cut.way == "hit"]
    assert len(hits) > 50 and max(cut.nodes for cut in hits) < 100  # bounded
    assert len({cut.program for cut in hits}) == 1


def test_equal_layers_are_not_taken_for_a_loop():
    def layers():
        x = torch.ones(4).tpu()
        for _ in range(12):
            x = (x * 0.5).tanh() + 1
        return x.sum().item()

    layers(), layers()
    with torch_tpu.explain() as told:
        layers()
    assert told.reasons() == {"host read": 1} and told.programs == 1


def test_graphs_that_never_repeat_are_never_compiled():
    def odd(turn):
        x = torch.ones(4).tpu()
        for bit in range(8):
            x = x + 1 if turn >> bit & 1 else x * 2
        return x.sum().item()

    def right(turn):
        x = 1.0
        for bit in range(8):
            x = x + 1 if turn >> bit & 1 else x * 2
        return 4 * x

    odd(0b01010101), odd(0b10101010)  # the programs of the single ops
    values, grown = counted(lambda: [odd(turn) for turn in range(40, 60)], "compiles")
    assert values == [right(turn) for turn in range(40, 60)] and grown["compiles"] == 0


def test_a_fault_spoils_only_what_hangs_on_it():
    x = torch.ones(3).tpu()
    bad = x[torch.tensor([9]).tpu()] * 2
    good = x + 1
    depends = bad + good[:1]
    with pytest.raises(IndexError, match="size 3"):
        depends.cpu()
    assert good.tolist() == [2, 2, 2] and x.tolist() == [1, 1, 1]
    with pytest.raises(IndexError):
        bad.cpu()


def test_autograds_thread_records_too():
    x = torch.ones(4, 4).tpu().requires_grad_()

    def step():
        x.grad = None
        (x @ x).tanh().sum().backward()
        return x.grad.sum().item()

    step(), step()
    _, grown = counted(step, "executes")
    assert grown["executes"] == 1


def test_modes_belong_to_threads():
    seen = []

    def other():
        with torch.tpu.set_eager_mode(STRICT):
            _, grown = counted(lambda: (torch.ones(3).tpu() + 1) * 2, "executes")
            seen.append((torch.tpu.get_eager_mode(), grown["executes"]))

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert seen == [(STRICT, 2)] and torch.tpu.get_eager_mode() is FUSED
    with torch.tpu.set_eager_mode(STRICT):
        with torch.tpu.set_eager_mode(FUSED):
            assert torch.tpu.get_eager_mode() is FUSED
        assert torch.tpu.get_eager_mode() is STRICT


def test_explain_tells_what_was_cut():
    def work():
        x = torch.ones(3).tpu()
        a = (x + 1).sum().item()
        (x * 2).sum().cpu()
        return a

    work(), work()
    told = torch_tpu.explain(work)
    assert told.value == 6 and [cut.way for cut in told.cuts] == ["hit", "hit"] and told.ops == 4
    text = str(told)
    assert "host read" in text and "2 executions" in text and told.svg().count("<rect") == 2
    assert torch_tpu.explain(lambda: None).cuts == []


def test_random_numbers_do_not_repeat_and_follow_the_seed():
    def draw():
        torch.manual_seed(3)
        return torch.rand(4, device="tpu"), torch.rand(4, device="tpu")

    a, b = draw()
    c, d = draw()
    with torch.tpu.set_eager_mode(STRICT):
        e, f = draw()
    assert not torch.equal(a.cpu(), b.cpu())
    assert torch.equal(a.cpu(), c.cpu()) and torch.equal(b.cpu(), d.cpu())
    assert torch.equal(a.cpu(), e.cpu()) and torch.equal(b.cpu(), f.cpu())


def test_many_results_held_back_are_bounded():
    keep = [torch.full((1 << 20,), float(i)).tpu() for i in range(3)]
    with torch_tpu.explain() as told:
        made = [keep[i % 3] + i for i in range(700)]  # 4 MB each
        assert made[-1][0].item() == keep[699 % 3][0].item() + 699
    assert told.reasons().get("limit: bytes") == 1


def test_parts_and_places_of_dims(counters):
    """Parts (chunk, split, all but one) are fixed slices of the program; places that a loop steps through share one."""
    x = torch.arange(2 * 6 * 4 * 8.0).reshape(2, 6, 32)
    heads = x.view(2, 6, 4, 8).transpose(1, 2)
    device, heads_device = x.tpu(), x.tpu().view(2, 6, 4, 8).transpose(1, 2)
    for cut in (lambda x: x.chunk(2, -1), lambda x: x.split(2, -1), lambda x: x.split(3, -1)):
        for a, b in zip(cut(heads), cut(heads_device), strict=True):
            assert torch.equal((b * 2).cpu(), a * 2)
    assert torch.equal((device[:, 1:] - device[:, :-1]).cpu(), x[:, 1:] - x[:, :-1])
    (device[0, 0, 0:1] + 1).cpu()
    before = counters()["compiles"]
    for i in range(1, 20):
        assert torch.equal((device[1, 2, i : i + 1] + 1).cpu(), x[1, 2, i : i + 1] + 1)
    assert counters()["compiles"] == before


def test_parts_are_written():
    def work(x):
        heads = x.view(3, 4, 8).transpose(0, 1)
        a, b = heads.chunk(2, -1)
        a.add_(b)
        b[:, 1:].mul_(2)
        heads[1:3, :, 3:5] = -1
        x.view(3, 32)[1:, 30:] += 100
        return x, heads.sum(-1)

    want = work(torch.arange(96.0).view(3, 32))
    for _ in range(3):
        got = work(torch.arange(96.0).view(3, 32).tpu())
        assert torch.equal(got[0].cpu(), want[0]) and torch.equal(got[1].cpu(), want[1])


def test_a_window_less_one_of_its_own_elements():
    """XLA updates windows in place, in the loop that computes them: it must not read there what it has just written."""
    start = (torch.arange(24.0).view(4, 6) % 7) - 3

    def diagonal(x):
        d = x.diagonal()
        s = d.select(0, 0)
        s.sub_(s, alpha=2).clamp_(-8, 8)
        d.sub_(s.clone(), alpha=2).clamp_(-8, 8)
        return x

    def shifted(x):
        x[1:, 2].add_(x[0, 2].clone())
        x[:, 1:3].mul_(x[2, 2].clone())
        return x

    def scattered(x):
        y = x * 2
        return y.slice_scatter(y[1:2, :].expand(3, 6) - y[2, 2], 0, 1, 4)

    for work in (diagonal, shifted, scattered):
        want = work(start.clone())
        for mode in (STRICT, FUSED, FUSED, FUSED):
            with torch.tpu.set_eager_mode(mode):
                assert torch.equal(work(start.tpu()).cpu(), want), (work, mode)
                metrics.counters()  # waits for the compilers


def test_backward_passes_stay_in_their_thread():
    def runs_here():
        here = []
        y = torch.ones(3, device="tpu", requires_grad=True) * 2
        y.register_hook(lambda _: here.append(threading.get_ident() == me))
        y.sum().backward()
        return here == [True], torch._C._is_multithreading_enabled()

    me = threading.get_ident()
    assert runs_here() == (True, False)  # these tests run in fused mode
    with torch.tpu.set_eager_mode(STRICT):
        assert runs_here() == (False, True)
        with torch.tpu.set_eager_mode(FUSED):
            assert runs_here() == (True, False)
        assert runs_here() == (False, True)
    with torch.tpu.set_eager_mode(STRICT), torch.autograd.set_multithreading_enabled(False):
        with torch.tpu.set_eager_mode(FUSED):
            pass
        assert runs_here() == (True, False)  # whoever asked for that keeps it
