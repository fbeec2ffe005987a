"""Keel's trust regions as policy losses of verl: `keel_dppo_tv`, `keel_drpo`, ...

    python3 -m verl.trainer.main_ppo ... 'hydra.searchpath=[pkg://keel.verl]' +keel=dppo_tv

Importing this module registers every method of `keel.methods()` that verl can run as a verl policy loss. `rows()` lists
them, `refused()` lists the others with the reason. docs/verl.md explains it.
"""

from ._rows import NEWEST, OLDEST, refused, require_tested, rows

require_tested()

from ._loss import register  # noqa: E402  imports verl internals, which need a tested version
from ._settings import PolicyLoss  # noqa: E402

__all__ = ["NEWEST", "OLDEST", "PolicyLoss", "refused", "rows"]

register()
