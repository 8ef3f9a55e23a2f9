"""One way in for every seam: a name, a file, an installed package or an object; see docs/names.md."""

from ramet.registry.entries import Entry, Option, describe_source
from ramet.registry.references import anchored, anchored_parts, check_trust, reference_to, resolve_reference
from ramet.registry.registry import KINDS, Registry, registry_of
from ramet.registry.specs import (
    Spec,
    file_name,
    parse_chain,
    parse_list,
    parse_options,
    parse_spec,
    quantity,
    split_chain,
    split_list,
)

__all__ = ["KINDS", "Entry", "Option", "Registry", "Spec", "anchored", "anchored_parts", "check_trust"]
__all__ += ["describe_source", "file_name", "parse_chain", "parse_list", "parse_options", "parse_spec", "quantity"]
__all__ += ["reference_to", "registry_of", "resolve_reference", "split_chain", "split_list"]
