"""Keel's trust regions in TRL's GRPOTrainer:

    from keel.trl import KeelGRPOTrainer as GRPOTrainer                 # in place of: from trl import GRPOTrainer
    trainer = GRPOTrainer(model=..., reward_funcs=..., args=..., method="dppo_tv", parameters={"low": 0.15, "high": 0.15})

Generation, rewards, advantages, averages over tokens, accumulation, processes, logging and checkpoints are TRL's.
docs/trl.md is the page about it, and says what is refused and why.
"""

from . import _options

_options.require_version()

from ._trainer import KeelGRPOTrainer  # noqa: E402  what it imports of TRL is only known to be there in a tested version

__all__ = ["KeelGRPOTrainer"]
