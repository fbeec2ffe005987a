"""keel help explains a name from the tables of the program."""

import re

import support
from support import keel


class Help(support.Test):
    def help(self, *topic):
        result = keel("help", *topic)
        self.assert_exit(result, 0)
        return result.stdout

    def assert_says(self, topic, *parts):
        text = self.help(topic)
        for part in parts:
            self.assertIn(part, text)

    def test_without_a_topic_prints_the_overview(self):
        overview = keel("--help").stdout
        self.assertTrue(self.help().startswith(overview.rstrip("\n")), self.help())
        self.assertIn("keel help TOPIC", self.help())

    def test_explains_a_command(self):
        for command in ("quickstart", "export", "help", "completion"):
            self.assertEqual(self.help(command).strip(), keel(command, "--help").stdout.strip())
        for both in ("eval", "train"):  # a command and a section
            self.assertTrue(self.help(both).startswith(keel(both, "--help").stdout.rstrip("\n")))
        self.assert_says("eval", "\neval.samples=")
        self.assert_says("train", "\ntrain.steps=")

    def test_the_help_of_training_fits_a_screen_and_names_every_section(self):
        page = (support.ROOT / "docs" / "configuration.md").read_text()
        sections = re.findall(r"(?m)^## (\w+)$", page)
        self.assertIn("rollout", sections)
        for command in ("train", "sft"):
            result = keel(command, "--help")
            self.assert_exit(result, 0)
            lines = result.stdout.splitlines()
            self.assertLessEqual(len(lines), 24)
            self.assertLessEqual(max(map(len, lines)), 80)
            text = " ".join(result.stdout.split())
            self.assertIn("keel help TOPIC", text)
            self.assertEqual(text.partition("or a section: ")[2].split(", "), sections)
        listed = set(re.findall(r"(?m)^  ([a-z_.0-9]+)=", self.help("settings")))
        self.assertEqual(listed, set(re.findall(r"(?m)^\| `([a-z_.0-9]+)` \|", page)))

    def test_explains_a_setting(self):
        # docs/configuration.md is generated from the same table.
        self.assert_says("run.precision", "run.precision=auto\n", "Compute dtype of the network; ", "Must be one of auto, float32, bf16, fp16.")
        self.assert_says("data.files", "data.files=[]", "Must be a list of strings")
        self.assert_says("samples_per_prompt", "rollout.samples_per_prompt=")
        self.assert_says("health.steps", "health.steps was removed. Fix: remove it")

    def test_explains_a_section(self):
        text = self.help("rollout")
        self.assertTrue(text.startswith("rollout: "))
        self.assertIn("\nrollout.temperature=1", text)
        self.assertNotIn("train.steps=", text)

    def test_explains_a_method_and_a_task(self):
        self.assertEqual(self.help("dppo_tv"), keel("methods", "dppo_tv").stdout)
        self.assert_says("countdown", "countdown, a built-in task: ")

    def test_methods_are_grouped_as_on_their_page(self):
        page = (support.ROOT / "docs" / "methods.md").read_text()
        documented = {heading: re.findall(r"(?m)^### `(\w+)`$", part) for heading, part in re.findall(r"(?ms)^## ([^\n]+)\n(.*?)(?=^## |\Z)", page)}
        listed = keel("methods").stdout
        groups = {heading: re.findall(r"(?m)^[* ] (\w+)", rows) for heading, rows in re.findall(r"(?m)^([A-Z].*)\n((?:[* ] .*\n)+)", listed)}
        self.assertEqual(groups, {heading: names for heading, names in documented.items() if names})
        recommended = re.findall(r"`(\w+)`", re.search(r"(?m)^Start with .*$", page)[0])
        self.assertEqual(len(recommended), 5)
        self.assertCountEqual(re.findall(r"(?m)^\* (\w+)", listed), recommended)

    def test_a_method_shows_only_the_parameters_that_it_uses(self):
        self.assertNotRegex(self.help("dppo_tv"), r"(?m)^  (k|support) ")  # for top-K divergences
        self.assertRegex(self.help("dppo_topk_tv"), r"(?m)^  k +20$")
        self.assertRegex(self.help("dppo_topk_tv"), r"(?m)^  support +union$")

    def test_explains_a_reward(self):
        for row in re.findall(r"(?m)^\| (`.*?) \|", (support.ROOT / "docs" / "rewards.md").read_text().split("\n\n`reward.over")[0]):
            name = re.match(r"`(\w+)", row)[1]
            self.assert_says(name, f"{name}, for reward.functions: ")
        self.assert_says("math", "the math verifier")

    def test_a_part_of_several_names_lists_them(self):
        self.assert_refused(keel("help", "kl"), 2, "kl is not a name by itself; names that contain it are", "reference.kl_coefficient")
        self.assert_refused(keel("help", "resume"), 2, "resume_from_checkpoint")

    def test_explains_a_trl_or_verl_name(self):
        self.assert_says("num_generations", "TRL's num_generations is rollout.samples_per_prompt")
        self.assert_says("ppo_mini_batch_size", "verl's actor_rollout_ref.actor.ppo_mini_batch_size", "train.sequences_per_update")
        self.assert_says("use_vllm", "does not change the training")
        self.assert_says("off_policy_mask_threshold", "set objective.method=ds_v32")

    def test_an_unknown_name_gets_a_suggestion(self):
        self.assert_refused(keel("help", "trian"), 2, "trian is unknown; did you mean train?")
        self.assert_refused(keel("help", "rollout.temprature"), 2, "did you mean rollout.temperature?")
        self.assert_refused(keel("help", "num_generation"), 2, "did you mean num_generations?")
        self.assert_refused(keel("help", "x\x1b[1m"), 2, "x\\x1b[1m is unknown; expected a command, a setting, ")


if __name__ == "__main__":
    support.main()
