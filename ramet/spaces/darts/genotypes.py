"""Genotypes in DARTS' own form: reading and writing them."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from ramet.errors import ConfigError

Gene = tuple[str, int]
"""An operation and the number of the input that it is applied to; 0 and 1 are the two cells before."""
FIELDS = ("normal", "normal_concat", "reduce", "reduce_concat")

DARTS_V2 = (
    "Genotype(normal=[('sep_conv_3x3', 0), ('sep_conv_3x3', 1), ('sep_conv_3x3', 0), ('sep_conv_3x3', 1), "
    "('sep_conv_3x3', 1), ('skip_connect', 0), ('skip_connect', 0), ('dil_conv_3x3', 2)], "
    "normal_concat=[2, 3, 4, 5], reduce=[('max_pool_3x3', 0), ('max_pool_3x3', 1), ('skip_connect', 2), "
    "('max_pool_3x3', 1), ('max_pool_3x3', 0), ('skip_connect', 2), ('skip_connect', 2), ('max_pool_3x3', 1)], "
    "reduce_concat=[2, 3, 4, 5])"
)
"""The genotype that DARTS found by its second order on CIFAR-10."""


def write_genotype(normal: Sequence[Gene], reduce: Sequence[Gene]) -> str:
    """The text of a genotype whose cells concatenate all their nodes.

    >>> write_genotype([("skip_connect", 0), ("none", 1)], [("none", 0), ("none", 1)])[:60]
    "Genotype(normal=[('skip_connect', 0), ('none', 1)], normal_c"
    """
    nodes = list(range(2, 2 + len(normal) // 2))
    values = (list(normal), nodes, list(reduce), nodes)
    return f"Genotype({', '.join(f'{name}={value!r}' for name, value in zip(FIELDS, values, strict=True))})"


def read_genotype(text: str, operations: Sequence[str], num_nodes: int) -> tuple[list[Gene], list[Gene]]:
    """The genes of both cells, two for each node; nothing of the text is executed."""
    fields = _fields(text)
    for name in ("normal_concat", "reduce_concat"):
        nodes = list(range(2, 2 + num_nodes))
        if fields[name] != nodes:
            raise ConfigError(f"{name} must be all nodes, {nodes}, but got {fields[name]}.")
    return (
        _genes("normal", fields["normal"], operations, num_nodes),
        _genes("reduce", fields["reduce"], operations, num_nodes),
    )


def _fields(text: str) -> dict[str, object]:
    try:
        call = ast.parse(text.strip(), mode="eval").body
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.func.id != "Genotype":
            raise ValueError
        if call.args or sorted(str(keyword.arg) for keyword in call.keywords) != sorted(FIELDS):
            raise ValueError
        return {str(keyword.arg): _literal(keyword.value) for keyword in call.keywords}
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        shown = text if len(text) < 80 else text[:77] + "..."
        raise ConfigError(
            f"a genotype reads Genotype(normal=[('sep_conv_3x3', 0), ...], normal_concat=[2, ...], reduce=..., "
            f"reduce_concat=...), but got {shown!r}."
        ) from None


def _literal(node: ast.expr) -> object:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range":
        return list(range(*(int(ast.literal_eval(argument)) for argument in node.args)))
    return ast.literal_eval(node)


def _genes(cell: str, genes: object, operations: Sequence[str], num_nodes: int) -> list[Gene]:
    if not isinstance(genes, list) or len(genes) != 2 * num_nodes:
        raise ConfigError(f"the {cell} cell must be a list of {2 * num_nodes} operations, but got {genes}.")
    for place, gene in enumerate(genes):
        if not isinstance(gene, tuple) or len(gene) != 2 or gene[0] not in operations:
            raise ConfigError(f"an operation of the {cell} cell is one of {', '.join(operations)}, but got {gene}.")
        if type(gene[1]) is not int or not 0 <= gene[1] < 2 + place // 2:
            raise ConfigError(f"node {place // 2} of the {cell} cell has inputs 0 to {1 + place // 2}, but got {gene}.")
    return genes
