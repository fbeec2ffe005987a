"""Keel's trust regions as policy losses of verl: `keel_dppo_tv`, `keel_drpo`, ...

    python3 -m verl.trainer.main_ppo ... 'hydra.searchpath=[pkg://keel.verl]' +keel=dppo_tv

Importing this module registers every row of `keel.methods()` that verl can run in verl's own table of policy losses.
`rows()` lists them, `refused()` says why the others are not there. docs/verl.md is the page about it.
"""

from ._rows import NEWEST, OLDEST, refused, require_tested, rows

require_tested()

from ._loss import register  # noqa: E402  what they import of verl is only known to be there in a tested version
from ._settings import PolicyLoss  # noqa: E402

__all__ = ["NEWEST", "OLDEST", "PolicyLoss", "refused", "rows"]

register()
