"""torch.save and load, pickles, deep copies, state dicts, modules moved between devices."""

import copy
import io
import pickle

import pytest
import torch


def reload(obj, **options):
    file = io.BytesIO()
    torch.save(obj, file)
    file.seek(0)
    return torch.load(file, **options)


def test_save_and_load():
    x = torch.arange(6.0).reshape(2, 3).to("tpu")
    back = reload({"x": x, "row": x[1]})
    assert back["x"].device == torch.device("tpu", 0)
    assert back["x"].tolist() == x.tolist()
    assert back["row"].tolist() == x[1].tolist()
    back["row"].fill_(9)
    assert back["x"][1].tolist() == [9, 9, 9]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64], ids=str)
def test_map_location(dtype, counters):
    cpu = torch.tensor([[0, 1, 1], [1, 0, 1]]).to(dtype)
    on_tpu = reload(cpu, map_location="tpu")
    assert on_tpu.device.type == "tpu" and torch.equal(on_tpu.cpu(), cpu)
    assert reload(cpu.to("tpu"), map_location="cpu").device.type == "cpu"
    assert reload(cpu.to("tpu"), map_location="tpu:2").device.index == 2
    assert reload(cpu.to("tpu:1")).device.index == 1
    assert reload(cpu.to("tpu:1"), map_location={"tpu:1": "tpu:3"}).device.index == 3
    assert torch.equal(reload(cpu.to("tpu:1"), map_location=lambda storage, where: storage).cpu(), cpu)
    assert counters()["compiles"] == 0


def test_loaded_tensor_is_no_bitcast(counters):
    x = reload(torch.arange(6.0), map_location="tpu")
    y = torch.arange(6.0).to("tpu")
    y + 1
    before = counters()["compiles"]
    assert (x + 1).tolist() == [1, 2, 3, 4, 5, 6]
    assert counters()["compiles"] == before


def test_bad_location():
    file = io.BytesIO()
    torch.save(torch.ones(2), file)
    file.seek(0)
    with pytest.raises(RuntimeError, match="device_count"):
        torch.load(file, map_location="tpu:9")


def test_pickle():
    x = torch.arange(6.0).reshape(2, 3).to("tpu")
    y = pickle.loads(pickle.dumps(x.t()))
    assert y.device.type == "tpu" and y.tolist() == x.t().tolist()


def test_deepcopy(counters):
    x = torch.arange(6.0).to("tpu")
    pair = copy.deepcopy([x, x[1:3]])
    assert pair[0].tolist() == x.tolist()
    pair[1].fill_(7)
    assert pair[0].tolist() == [0, 7, 7, 3, 4, 5]
    assert x.tolist() == [0, 1, 2, 3, 4, 5]
    counters_before = counters()["compiles"]
    module = torch.nn.Linear(3, 2).to("tpu")
    twin = copy.deepcopy(module)
    assert counters()["compiles"] == counters_before
    assert torch.equal(twin.weight.cpu(), module.weight.cpu())
    assert twin.weight.data_ptr() != module.weight.data_ptr()


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Linear(3, 3)
        self.b = torch.nn.Linear(3, 3)
        self.b.weight = self.a.weight
        self.register_buffer("steps", torch.zeros(1, dtype=torch.int64))


def test_moving_keeps_weights_tied():
    module = Tied()
    weight = module.a.weight
    module.to("tpu")
    assert module.a.weight is module.b.weight is weight
    assert weight.device.type == "tpu" and module.steps.device.type == "tpu"
    assert isinstance(weight, torch.nn.Parameter)
    module.cpu()
    assert module.a.weight is module.b.weight is weight
    assert weight.device.type == "cpu"
    module.to("tpu", torch.bfloat16)
    assert module.a.weight is module.b.weight and weight.dtype is torch.bfloat16
    module.to("tpu:1")
    assert module.a.weight is module.b.weight is weight and weight.device.index == 1


def test_optimizer_follows_a_moved_module():
    module = torch.nn.Linear(2, 1, bias=False)
    optimizer = torch.optim.SGD(module.parameters(), lr=1.0)
    module.to("tpu")
    module(torch.ones(1, 2, device="tpu")).sum().backward()
    before = module.weight.detach().cpu()
    optimizer.step()
    assert torch.equal(module.weight.detach().cpu(), before - 1)


def test_state_dict(counters):
    cpu = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    tpu = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4)).to("tpu")
    tpu.load_state_dict(cpu.state_dict())
    for key, value in tpu.state_dict().items():
        assert value.device.type == "tpu" and torch.equal(value.cpu(), cpu.state_dict()[key])
    cpu.load_state_dict(reload(tpu.state_dict(), map_location="cpu"))
    tpu.load_state_dict(reload(cpu.state_dict(), map_location="tpu"))
    assert counters()["compiles"] == 0


def test_data_and_parameters():
    parameter = torch.nn.Parameter(torch.ones(2))
    parameter.data = torch.zeros(2).to("tpu")
    assert parameter.device.type == "tpu" and parameter.tolist() == [0, 0]


def test_multiprocessing_of_a_data_loader():
    data = torch.utils.data.TensorDataset(torch.arange(8.0))
    torch.ones(1, device="tpu").cpu()
    loader = torch.utils.data.DataLoader(data, batch_size=4, num_workers=2)
    assert torch.cat([x.to("tpu") for (x,) in loader]).tolist() == list(range(8))
