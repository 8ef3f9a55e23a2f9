"""The search for grow sequences: what is searched, by which sampler, in which storage, and what it found."""
