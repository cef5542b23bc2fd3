"""Makes the TorchScript files of fixtures/: make_scripts.py FOLDER. Needs torch."""
import os
import sys
from typing import Optional

import torch
from torch import nn


class Net(nn.Module):
    """A bit of everything that trains and evaluates differently."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.drop = nn.Dropout(0.25)
        self.fc = nn.Linear(8, 4)

    def forward(self, x):
        x = torch.relu(self.norm(self.conv(x)))
        return self.fc(self.drop(x.mean((2, 3))))


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(6, 6)
        self.second = nn.Linear(6, 6)
        self.second.weight = self.first.weight

    def forward(self, x):
        return self.second(torch.tanh(self.first(x)))


class TwoInputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x, y):
        return self.fc(x + y)


class Seeding(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        torch.manual_seed(5)
        return self.fc(x) + torch.rand_like(x)


class Bound(nn.Module):
    """Traced, it is bound to the number of samples."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(12, 4)

    def forward(self, x):
        return self.fc(x.reshape(int(x.shape[0]), 12))


class Cuts(nn.Module):
    """Two buffers that are cut from one memory."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        whole = torch.arange(8.0)
        self.register_buffer("a", whole[:4])
        self.register_buffer("b", whole[4:])

    def forward(self, x):
        return self.fc(x) * self.a + self.b


def noisy(x):
    return torch.dropout(x, 0.5, True)


def seeded(x):
    torch.manual_seed(5)
    return x


class Forking(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        return self.fc(torch.jit.wait(torch.jit.fork(noisy, x)))


class CallsSeeding(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        return self.fc(seeded(x))


class MaybeBuffer(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.count: Optional[torch.Tensor]
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x):
        count = self.count
        if count is not None:
            count.add_(1)
        return self.fc(x)


class OtherWhenEvaluating(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(12, 4)

    def forward(self, x):
        y = self.fc(x.flatten(1))
        if self.training:
            return y
        return y.argmax(1)


class AsWritten(nn.Module):
    """Scripted, with a frozen norm and a dropout that is always on."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("var", torch.ones(4))

    def forward(self, x):
        x = torch.batch_norm(x, None, None, self.mean, self.var, False, 0.1, 1e-5, False)
        return torch.dropout(self.fc(x), 0.5, True)


def main(folder):
    torch.manual_seed(0)
    picture = torch.randn(4, 3, 6, 6)

    def save(module, name):
        module.save(os.path.join(folder, name))

    net = Net()
    save(torch.jit.script(net), "scripted.pt")
    save(torch.jit.trace(net.train(), picture, check_trace=False), "traced.pt")
    save(torch.jit.trace(net.eval(), picture), "traced_for_evaluation.pt")
    save(torch.jit.freeze(torch.jit.script(net.eval())), "frozen.pt")
    save(torch.jit.script(Net().double()), "double.pt")
    save(torch.jit.script(Tied()), "tied.pt")
    save(torch.jit.script(TwoInputs()), "two_inputs.pt")
    save(torch.jit.script(Seeding()), "seeding.pt")
    save(torch.jit.trace(Bound(), torch.randn(4, 3, 2, 2)), "bound.pt")
    save(torch.jit.script(Cuts()), "cuts.pt")
    save(torch.jit.script(Forking()), "forking.pt")
    save(torch.jit.script(CallsSeeding()), "calls_seeding.pt")
    save(torch.jit.script(MaybeBuffer()), "maybe_buffer.pt")
    save(torch.jit.script(OtherWhenEvaluating()), "other_when_evaluating.pt")
    save(torch.jit.script(AsWritten()), "as_written.pt")
    torch.save(net.state_dict(), os.path.join(folder, "weights.pt"))
    torch.save({"input": picture, "logits": net.eval()(picture).detach()}, os.path.join(folder, "evaluated.pt"))


main(sys.argv[1])
