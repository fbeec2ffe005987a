"""Recomputes every method's decisions from the rows and the metadata of a token record: they equal those of training bit for bit."""

import itertools
import json
import shutil
import sys

import support

try:
    import pyarrow.compute
    import pyarrow.parquet
    import torch

    import keel
except ImportError as error:
    print(f"{error}; make build, and scripts/bootstrap.sh --tests")
    sys.exit(77)

# Methods of every scope: token, with each kind of divergence and both anchors; sequence; batch.
SHORT = ("dppo_kl", "drpo_topk_kl", "dppo_full_tv", "tis", "cppo", "gspo", "m2po", "tvpo")
RUN = {"sft": {"steps": 0, "noisy_steps": 0}, "optimizer": {"lr": 0.02}, "train": {"steps": 2, "epochs": 2}, "eval": {"prompts": 0},
       "reward": {"overlong_buffer": 30}, "checkpoint": {"every": 0}, "record": {"tokens": "every_step"}}


def decided_again(file, update):
    """keel.token_coefficients of the rows of one update, whose sequences are complete and in order."""
    metadata = json.loads(file.schema_arrow.metadata[b"keel.step"])
    table = file.read()
    table = table.filter(pyarrow.compute.equal(table["update"], update))

    def column(name):
        return None if table[name].null_count else torch.from_numpy(table[name].to_numpy(zero_copy_only=False).copy())

    rollouts = [(rollout, len(list(rows))) for rollout, rows in itertools.groupby(table["rollout"].to_pylist())]
    group_of = dict(zip(table["rollout"].to_pylist(), table["group"].to_pylist()))
    parameters = dict(metadata["parameters"])
    divergence = parameters.get("divergence", "")
    values = None
    if divergence.startswith(("topk", "full")):  # recorded as numbers: the operator uses an exact divergence as given
        last = "_replace_last" if divergence.startswith("topk") and parameters.get("support") == "replace_last" else ""
        values = column(divergence + last)
        parameters["divergence"] = divergence.replace("topk", "full")
    decision = keel.token_coefficients(
        metadata["method"], parameters, logp=column("log_pi"), behavior_logp=column("log_mu"), advantages=column("advantage"),
        lengths=[length for _, length in rollouts], groups=[group_of[rollout] for rollout, _ in rollouts],
        old_logp=column("log_recomputed"), other_logp=column("log_other_pi"), behavior_other_logp=column("log_other_mu"),
        old_other_logp=column("log_other_recomputed"), divergence=values)
    return decision, {name: column(name) for name in ("coefficient", "kept", "outside", "divergence", "threshold")}


class EveryMethod(support.Test):
    def test_its_decisions_follow_from_the_rows(self):
        moved = 0
        for method in support.count(SHORT, tuple(keel.methods())):
            run = self.folder / method
            critic = {"critic": {"body": "shared"}} if keel.methods()[method]["advantage"] == "gae" else {}
            self.assert_exit(support.train(run, **RUN, **critic, objective={"method": method}), 0)
            for path in sorted((run / "tokens").iterdir()):
                file = pyarrow.parquet.ParquetFile(path)
                for update in range(json.loads(file.schema_arrow.metadata[b"keel.step"])["updates"]):
                    again, then = decided_again(file, update)
                    for name, numbers in (("coefficient", again.coefficient), ("kept", again.keep), ("outside", again.outside),
                                          ("divergence", again.divergence), ("threshold", again.threshold)):
                        self.assertTrue(torch.equal(numbers, then[name]), f"{method}: {name} in update {update} of {path.name}")
                    moved += int(then["outside"].sum())
            shutil.rmtree(run)
        self.assertGreater(moved, 50)


if __name__ == "__main__":
    support.main()
