"""Keel's trust regions in TRL's GRPOTrainer:

    from keel.trl import KeelGRPOTrainer as GRPOTrainer                 # in place of: from trl import GRPOTrainer
    trainer = GRPOTrainer(model=..., reward_funcs=..., args=..., method="dppo_tv", parameters={"low": 0.15, "high": 0.15})

Generation, rewards, advantages, loss aggregation, gradient accumulation, distributed training, logging and checkpoints
are TRL's. docs/trl.md explains it and lists unsupported settings.
"""

from . import _options

_options.require_version()

from ._trainer import KeelGRPOTrainer  # noqa: E402  imports TRL internals, which need a tested version

__all__ = ["KeelGRPOTrainer"]
