"""A small CNN learns to read handwritten digits (scikit-learn's 1,797 real images) on device tpu.

Every batch has the same shape, so nothing is compiled after the second step; the example checks that by the counters.

    python examples/digits.py                 # trains, prints accuracy and compiles, draws digits_loss.png
    python examples/digits.py --device cpu    # the same training elsewhere
"""

from __future__ import annotations

import argparse
import sys
import time

import matplotlib
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

matplotlib.use("Agg")  # no screen is needed
from matplotlib import pyplot

WANTED = 0.97


def data() -> tuple[TensorDataset, TensorDataset]:
    """Training and test images [n, 1, 8, 8] in 0..1, with their digits; the same split each time."""
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
    labels = torch.tensor(digits.target)
    train, test = train_test_split(range(len(labels)), test_size=0.2, random_state=0, stratify=digits.target)
    return TensorDataset(images[train], labels[train]), TensorDataset(images[test], labels[test])


def network() -> nn.Module:
    """Two convolutions, a pool and two linear layers."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 4 * 4, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )


def compiles(device: torch.device) -> int:
    """Programs compiled so far; 0 on devices that keep no count."""
    if device.type != "tpu":
        return 0
    from torch_tpu import metrics

    return metrics.counters()["compiles"]


def train(
    model: nn.Module, loader: DataLoader, device: torch.device, epochs: int, rate: float
) -> tuple[list[float], list[int]]:
    """Loss and number of compiles of each step."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    criterion = nn.CrossEntropyLoss()
    losses, compiled = [], []
    for epoch in range(epochs):
        start = time.perf_counter()
        for images, labels in loader:
            before = compiles(device)
            images, labels = images.to(device), labels.to(device)
            loss = criterion(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            compiled.append(compiles(device) - before)
        mean = sum(losses[-len(loader) :]) / len(loader)
        print(f"epoch {epoch + 1:2d}/{epochs}: loss {mean:.4f}, {time.perf_counter() - start:.1f} s", flush=True)
    return losses, compiled


@torch.no_grad()
def accuracy(model: nn.Module, dataset: TensorDataset, device: torch.device) -> float:
    """Share of the images that are read right."""
    images, labels = (tensor.to(device) for tensor in dataset.tensors)
    return (model.eval()(images).argmax(1) == labels).float().mean().item()


def draw(losses: list[float], path: str) -> None:
    """The loss of each step as a PNG."""
    figure, axes = pyplot.subplots(figsize=(7, 4))
    axes.plot(losses, linewidth=1)
    axes.set(xlabel="step", ylabel="cross entropy", yscale="log", title="digits: training loss")
    axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="tpu")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rate", type=float, default=2e-3, help="learning rate of AdamW")
    parser.add_argument("--out", default="digits_loss.png", help="where the loss curve goes")
    args = parser.parse_args()

    device = torch.device(args.device)
    torch.manual_seed(0)
    train_set, test_set = data()
    loader = DataLoader(train_set, batch_size=args.batch, shuffle=True, drop_last=True)
    model = network().to(device)
    losses, compiled = train(model, loader, device, args.epochs, args.rate)
    share = accuracy(model, test_set, device)
    draw(losses, args.out)
    print(f"test accuracy {100 * share:.1f} % on {device}; loss curve in {args.out}")
    if device.type == "tpu":
        rest = sum(compiled[2:])
        print(f"compiles: step 1: {compiled[0]}, step 2: {compiled[1]}, the other {len(compiled) - 2} steps: {rest}")
        late = [step + 1 for step, count in enumerate(compiled) if step >= 2 and count]
        if late:
            sys.exit(f"steps {late} compiled")
    if share < WANTED:
        sys.exit(f"accuracy {share:.3f} is below {WANTED}: more epochs?")


if __name__ == "__main__":
    main()
