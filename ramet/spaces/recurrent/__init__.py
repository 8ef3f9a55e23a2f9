"""The recurrent space of ENAS: cells of language models."""
