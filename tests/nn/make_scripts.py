"""Makes the TorchScript files of fixtures/: make_scripts.py FOLDER. Needs torch."""
import os
import sys

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
    torch.save(net.state_dict(), os.path.join(folder, "weights.pt"))
    torch.save({"input": picture, "logits": net.eval()(picture).detach()}, os.path.join(folder, "evaluated.pt"))


main(sys.argv[1])
