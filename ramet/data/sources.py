"""The named data sets: what they are, where their authors publish them, and the checksums of their files.

The addresses and sums are facts about the sets, kept as data. Sets without an address are read in a prepared form,
and can be fetched from a mirror that holds it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ramet.data.cifar import CIFAR10_TEST, CIFAR10_TRAIN, CIFAR100_FILES
from ramet.data.idx import FILES as IDX_FILES
from ramet.errors import DataError, hint_at


@dataclass(frozen=True)
class SourceFile:
    """A file to download, by its path in the data folder, its length in bytes and its checksum.

    ``members`` are, for an archive, the files in it that are wanted, relative to the data folder, and their sizes.
    """

    path: str
    size: int
    sha256: str
    members: Mapping[str, int] = field(default_factory=dict)

    @property
    def file_name(self) -> str:
        """The last part of the path, which is also the last part of its address."""
        return self.path.rsplit("/", 1)[-1]


@dataclass(frozen=True)
class Source:
    """A named data set; the title is what its authors call it, the shape channels, height and width of an image.

    Attributes:
        files: What to download; empty for a set that comes with a library.
        addresses: Folders on the web that hold the files, in the order in which they are tried.
        licence: The terms that its authors state, or that they state none.
    """

    name: str
    title: str
    num_classes: int
    shape: tuple[int, int, int]
    licence: str
    citation: str
    files: tuple[SourceFile, ...] = ()
    addresses: tuple[str, ...] = ()


def find_source(name: str, beside: Sequence[str] = ()) -> Source:
    """The source of a name, or a ``DataError`` that suggests the nearest name, of sets or of folders ``beside``."""
    if name in SOURCES:
        return SOURCES[name]
    hint = hint_at(name, (*SOURCES, *beside))
    raise DataError(f"a data set must be one of {', '.join(SOURCES)}, or a path, but got {name!r}{hint}")


def _idx(folder: str, *sizes_and_sums: tuple[int, str]) -> tuple[SourceFile, ...]:
    files = zip(IDX_FILES, sizes_and_sums, strict=True)
    return tuple(SourceFile(f"{folder}/{file}", size, checksum) for file, (size, checksum) in files)


_NONE_STATED = "none stated by the authors"
_TINY_IMAGES = "A. Krizhevsky, Learning multiple layers of features from tiny images, 2009"
_TORONTO = ("https://www.cs.toronto.edu/~kriz/",)

# fmt: off
_TABLE = (
    Source("digits", "Optical recognition of handwritten digits, the test set as scikit-learn ships it", 10, (1, 8, 8),
           "CC BY 4.0", "E. Alpaydin and C. Kaynak, UCI Machine Learning Repository, 1998"),
    Source("mnist", "MNIST", 10, (1, 28, 28),
           "CC BY-SA 3.0", "Y. LeCun, L. Bottou, Y. Bengio and P. Haffner, Proceedings of the IEEE, 1998",
           _idx("mnist",
                (9912422, "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"),
                (28881, "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"),
                (1648877, "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"),
                (4542, "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6")),
           # The authors' own page often refuses downloads, so the copy that PyTorch keeps comes first.
           ("https://ossci-datasets.s3.amazonaws.com/mnist/", "http://yann.lecun.com/exdb/mnist/")),
    Source("fashion-mnist", "Fashion-MNIST", 10, (1, 28, 28),
           "MIT", "H. Xiao, K. Rasul and R. Vollgraf, arXiv 1708.07747, 2017",
           _idx("fashion-mnist",
                (26421880, "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84"),
                (29515, "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845"),
                (4422102, "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073"),
                (5148, "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5")),
           ("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",)),
    Source("cifar10", "CIFAR-10", 10, (3, 32, 32), _NONE_STATED, _TINY_IMAGES,
           (SourceFile("cifar-10-binary.tar.gz", 170052171,
                       "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
                       {f"cifar-10-batches-bin/{file}": 30730000 for file in (*CIFAR10_TRAIN, CIFAR10_TEST)}),),
           _TORONTO),
    Source("cifar100", "CIFAR-100", 100, (3, 32, 32), _NONE_STATED, _TINY_IMAGES,
           (SourceFile("cifar-100-binary.tar.gz", 168513733,
                       "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
                       {f"cifar-100-binary/{CIFAR100_FILES[0]}": 50000 * 3074,
                        f"cifar-100-binary/{CIFAR100_FILES[1]}": 10000 * 3074}),),
           _TORONTO),
    Source("usps", "USPS digits", 10, (1, 16, 16),
           _NONE_STATED, "J. J. Hull, IEEE Transactions on Pattern Analysis and Machine Intelligence, 1994",
           (SourceFile("usps.npz", 2767235, "f34cb13a6c080d765aa70fb2c073632162477463e063c974fd509000552cfc4e"),)),
    Source("notmnist", "notMNIST, 10,000 letters from A to J", 10, (1, 28, 28),
           "none stated by the author", "Y. Bulatov, notMNIST dataset, 2011",
           (SourceFile("notmnist_10k.npz", 3212520,
                       "af85c06d5c91a4859d017a8ff4ba734b00c07edba63aa0f1392371cd52d16b77"),)),
    Source("omniglot", "Omniglot, 1,623 characters of 50 alphabets", 1623, (1, 28, 28),
           "MIT", "B. M. Lake, R. Salakhutdinov and J. B. Tenenbaum, Science, 2015",
           (SourceFile("omniglot_28.npz", 3010404,
                       "f2a1d03b91a9124b5531c78f0d35d79ea30c2d1af4867126fa38ca89cb376f7d"),)),
    Source("gtsrb", "German traffic signs, a subset of 4,694 images", 43, (3, 32, 32),
           "free to use with citation", "J. Stallkamp, M. Schlipsing, J. Salmen and C. Igel, Neural Networks, 2012",
           (SourceFile("gtsrb_32.npz", 11647001,
                       "c4bdc254c62622f7530153715b5c1d780e096d73746b931d9889c927a793a16b"),)),
)
# fmt: on

SOURCES: dict[str, Source] = {source.name: source for source in _TABLE}
"""Every named data set, by its name."""
