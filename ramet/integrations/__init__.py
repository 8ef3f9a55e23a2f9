"""Guards in the loops of others: Hugging Face's ``Trainer`` and TRL, Lightning, accelerate.

Each library has a file of its own here, which is imported only by name: ``from ramet.integrations.transformers import
TrainerGuard``. All of them do the same: the guard is attached to the optimizer (``ramet.guards.attach``) for as long as
the training lasts.
"""
