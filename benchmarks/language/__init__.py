"""A small language model on Penn Treebank by characters: grown, searched, and taught a second text."""
