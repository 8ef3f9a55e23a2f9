"""Rows of bad input to `ramet grow`, for the table of ``bad_input.py``."""

from __future__ import annotations

from pathlib import Path

from bad_input import BadInput

from ramet.runs import Run

ROWS: list[BadInput] = []


def grow(phrase: str, *arguments: str) -> None:
    """A row of arguments of ``ramet grow``, named by them."""
    row = ["grow", *arguments]
    ROWS.append(BadInput(" ".join(row), lambda folder: row, phrase))


# Names and numbers

grow("a network is one of mlp, vgg, mobilenet, or FILE.py:Name, but got 'resnet'", "--network", "resnet")
grow("there is no", "--network", "nowhere.py:network")
grow("a growth method is one of firefly, even, splitting", "--method", "glowworm")
grow("a list names at least one part", "--method", ",")
grow("methods must be named once each", "--method", "firefly,firefly")
for text in ("200k", "params", "params=", "params=many", "weights=9", "params=9,neurons=9"):
    grow("a budget", "--budget", text)
grow("a budget and its step must be positive", "--budget", "params=0")
grow("patience must be at least 1, but got 0", "--patience", "0")
grow("max_steps must not be negative, but got -1", "--max-steps", "-1")
grow("min_gain must not be negative, but got -0.1", "--patience", "2", "--min-gain=-0.1")
for text in ("0", "1.1"):
    grow("target must be a share of the images", "--target", text)
grow("target must be a number, but got nan", "--target", "nan")
grow("epochs must be at least 1, but got 0", "--epochs", "0")
grow("width must be a whole number of at least 1", "--width", "0")
grow("depth must be a whole number of at least 1", "--depth", "0")
grow("seconds_between_checkpoints must not be negative", "--checkpoint-every", "-1")
grow("device must be one that torch can use here", "--device", "toaster")
for text in ("firefly:3", "firefly:num_new", "firefly:=3"):
    grow("takes no values without a key", "--method", text)
grow("num_new of firefly must be a whole number or none, but got 'many'", "--method", "firefly:num_new=many")
grow("the budget must allow some, but it has none: add layers=1", "--method", "autogrow")
grow("options of firefly are", "--method", "firefly:speed=3")
grow("firefly's counts must not be negative", "--method", "firefly:num_new=-1")
grow("width must be a whole number of at least 1", "--network", "vgg:x")
grow("a growth is compared with plain, scratch, pruned, start or none, but got 'smaller'", "--against", "smaller")
grow("before must be a share of the work, above 0 and below 1, but got 1.0", "--before", "1")
grow("finish is for a growth by work", "--finish", "scratch", "--schedule-over", "round")
grow("firefly's worth is gain, params, flops or both", "--method", "firefly:worth=speed")

# Options that contradict each other or the network

grow("min_gain says what patience waits for", "--min-gain", "0.1")
grow("num_new is there twice", "--method", "firefly:num_new=3,num_new=4")
grow("a budget must be above the network's 330 params, but got 300", "--network", "mlp", "--budget", "params=300")

# Networks of the user's own

HEAD = "import torch\nfrom torch import nn\n"
CALLED = (
    HEAD
    + "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.a = nn.Linear(64, 10)\n"
)


def code_row(name: str, phrase: str, code: str, *arguments: str) -> None:
    def make(folder: Path) -> list[str]:
        path = folder / f"bad_growth_{abs(hash(name))}.py"
        path.write_text(code)
        return ["grow", "--network", f"{path}:network", *arguments]

    ROWS.append(BadInput(f"grow code: {name}", make, phrase))


def made(expression: str) -> str:
    return f"{HEAD}def network(num_classes):\n    return {expression}\n"


code_row("is a number", "is made by a class or a function", "network = 7")
code_row("raises when called", "must run, but raises ZeroDivisionError", "def network(): 1 / 0")
code_row("gives no module", "must make a Module, but made int", "def network(): return 7")
code_row("takes no width", "but got width", made("nn.Flatten()"), "--width", "3")
code_row("other images", "a network must run on images of shape [1, 8, 8]", made("nn.Conv2d(3, num_classes, 8)"))
code_row(
    "too few logits",
    "a network must give outputs of shape [4, 10]",
    made("nn.Sequential(nn.Flatten(), nn.Linear(64, 9))"),
)
code_row(
    "nothing to train",
    "must have parameters that are trained",
    made("nn.Sequential(nn.Flatten(), nn.AdaptiveAvgPool1d(10))"),
)
code_row(
    "nothing to grow",
    "a network must have something that can grow, but got none",
    made("nn.Sequential(nn.Flatten(), nn.Linear(64, num_classes))"),
)
code_row(
    "all frozen but the output",
    "frozen",
    made("nn.Sequential(nn.Flatten(), nn.Linear(64, 4).requires_grad_(False), nn.ReLU(), nn.Linear(4, num_classes))"),
)
code_row(
    "cannot be differentiated",
    "must be differentiable",
    CALLED + "    def forward(self, x):\n        return self.a(x.flatten(1)).detach()\ndef network(): return Net()\n",
)
code_row(
    "a way that depends on values",
    "py:9 turns a tensor into a Python number",
    CALLED + "    def forward(self, x):\n        x = x.flatten(1)\n"
    "        return self.a(x if x.mean() > 0 else -x)\ndef network(): return Net()\n",
)
code_row(
    "nothing that can be followed",
    "a network must have something that can grow, but got none",
    CALLED + "    def forward(self, x):\n        y = self.a(x.flatten(1))\n"
    "        return y + torch.tensor(y.detach().numpy())\ndef network(): return Net()\n",
)


def resumed(config: dict[str, object], phrase: str) -> None:
    def make(folder: Path) -> list[str]:
        Run.create(folder / "run", "grow", config).close()
        return ["resume", str(folder / "run")]

    ROWS.append(BadInput(f"resume: a growth of {config}", make, phrase))


resumed({"speed": 1}, "must hold fields of GrowJob, but has 'speed'")
resumed({"network": 7}, "a network is a text or an nn.Module, but got 7")
resumed({"network": "mine.py:network"}, "code that data name runs only with --trust")
