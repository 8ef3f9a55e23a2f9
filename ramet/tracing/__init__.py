"""What a network's tensors have to do with each other, read from one run of it: which channels change size together."""
