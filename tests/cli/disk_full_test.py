"""A disk that fills up, or a file that may not grow: exit code 4, the path, and a run that can be resumed."""

import subprocess

import support
from support import train

# "keel", but with files of at most so many blocks of 1 KiB.
LIMITED = ["bash", "-c", 'ulimit -f "$1"; shift; exec "$@"', "bash"]


class DiskFull(support.Test):
    def setUp(self):
        super().setUp()
        self.whole = self.folder / "whole"
        self.assert_exit(train(self.whole), 0)

    def assert_stopped_and_resumable(self, result, run):
        self.assertEqual(result.returncode, 4, result.stdout + result.stderr)
        self.assertRegex(result.stderr, r'keel: cannot \w+.* "' + str(run))
        self.assertNotIn("internal error", result.stderr)
        self.assertEqual([p.name for p in run.rglob("*.partial")], [])
        for name in support.checkpoints(run):
            support.verify_checkpoint(run / "checkpoints" / name)

    def test_a_file_size_limit_stops_the_run_and_it_goes_on_when_lifted(self):
        run = self.folder / "run"
        self.assert_exit(train(run, train={"steps": 1}), 0)
        size = (run / "checkpoints" / support.checkpoints(run)[-1] / "model.safetensors").stat().st_size
        result = train(run, "--resume", prefix=[*LIMITED, str(size // 2048)])
        self.assert_stopped_and_resumable(result, run)
        self.assertIn("model.safetensors", result.stderr)
        self.assertIn("ulimit -f", result.stderr)
        self.assertEqual(support.checkpoints(run)[-1], "step-000009")
        self.assert_exit(train(run, "--resume"), 0)
        for name in self.final_files(self.whole):
            self.assertEqual((run / name).read_bytes(), (self.whole / name).read_bytes(), name)

    def test_a_log_that_may_not_grow_stops_the_run_too(self):
        run = self.folder / "run"
        result = train(run, prefix=[*LIMITED, "3"], checkpoint={"every": 0})
        self.assert_stopped_and_resumable(result, run)
        for line in (run / "metrics.jsonl").read_text().splitlines():
            self.assertTrue(line.endswith("}"), line)  # whole lines only

    def test_a_full_disk_stops_the_run_and_it_goes_on_when_there_is_space(self):
        # In a mount namespace of its own: nothing of it is seen outside, nothing is left mounted.
        disk, copy = self.folder / "disk", self.folder / "copy"
        disk.mkdir()
        bytes_of_a_run = sum(p.stat().st_size for p in self.whole.rglob("*") if p.is_file())
        command = [support.KEEL, "train", support.QUICKSTART, *support.settings(run={"dir": disk / "run"})]
        script = f"""
            mount -t tmpfs -o size={bytes_of_a_run * 6 // 10} keel '{disk}' || exit 77
            "$@"
            echo "$?" > '{self.folder}/code'
            cp -r '{disk}/run' '{self.folder}/stopped' && mount -o remount,size=64m '{disk}' &&
            "$@" --resume && cp -r '{disk}/run' '{copy}'
        """
        for unshare in (["unshare", "-m"], ["unshare", "-rm"]):
            result = subprocess.run([*unshare, "bash", "-c", script, "bash", *command], env=support.environment(),
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120)
            if result.returncode != 77 and "unshare" not in result.stderr:
                break
        else:
            self.skipTest("no small disk can be mounted here: " + result.stderr.strip())
        self.assertEqual((self.folder / "code").read_text(), "4\n", result.stdout + result.stderr)
        self.assertIn("No space left on device", result.stderr)
        self.assertIn(f'"{disk}/run/', result.stderr)
        self.assertIn("free some space", result.stderr)
        stopped = self.folder / "stopped"
        self.assertTrue(support.checkpoints(stopped))
        for name in support.checkpoints(stopped):
            support.verify_checkpoint(stopped / "checkpoints" / name)
        self.assertEqual([p.name for p in stopped.rglob("*.partial")], [])
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assert_same_run(copy, self.whole)


if __name__ == "__main__":
    support.main()
