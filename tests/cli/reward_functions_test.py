"""keel reward: functions with the signatures of TRL, verl and OpenRLHF give the same results as when Python calls them."""

import importlib.util
import json
import random
import statistics
import subprocess
import sys
import types

import support

# From TRL's documentation: a length, a format, a column of the data set, and a task for another function.
TRL = '''
import re

def reward_len(completions, **kwargs):
    return [float(len(completion)) for completion in completions]

def format_reward(completions, **kwargs):
    pattern = r"^<think>.*?</think><answer>.*?</answer>$"
    return [1.0 if re.match(pattern, completion) else 0.0 for completion in completions]

def boxed_reward(completions, ground_truth, **kwargs):
    matches = [re.search(r"\\\\boxed\\{(.*?)\\}", completion) for completion in completions]
    contents = [match.group(1) if match else "" for match in matches]
    return [1.0 if c == gt else 0.0 for c, gt in zip(contents, ground_truth)]

def math_only(prompts, completions, task, **kwargs):
    return [float(str(len(p)) in c) if t == "math" else None for p, c, t in zip(prompts, completions, task)]

def no_keywords(completions, prompts):
    return [len(c) - len(p) for c, p in zip(completions, prompts)]

async def later(completions, **kwargs):
    return [c.count("a") / 7 for c in completions]

def tokens(completion_ids, **kwargs):
    return [float(len(ids)) for ids in completion_ids]

def only_keywords(**kwargs):
    return [len(c) + len(p) + kwargs["trainer_state"].global_step for c, p in zip(kwargs["completions"], kwargs["prompts"])]

def a_column_of_another_form(completions, queries, **kwargs):
    return [len(c) - len(q) for c, q in zip(completions, queries)]

class Counts:
    def __call__(self, prompts, **kwargs):
        return [len(p) for p in prompts]

reward = Counts()
'''

# From TRL's documentation for conversations.
TRL_CHAT = '''
def chat_reward(prompts, completions, **kwargs):
    contents = [completion[0]["content"] for completion in completions]
    return [len(c) / (1 + len(p[-1]["content"])) for p, c in zip(prompts, contents)]
'''

# Like verl's scorer for GSM8K, and one that returns a dictionary.
VERL = '''
import re

def extract_solution(solution_str, method):
    if method == "strict":
        found = re.findall("#### (\\\\-?[0-9\\\\.\\\\,]+)", solution_str)
        return found[-1].replace(",", "").replace("$", "") if found else None
    numbers = [n for n in re.findall("(\\\\-?[0-9\\\\.\\\\,]+)", solution_str) if n not in ("", ".")]
    return numbers[-1] if numbers else None

def compute_score(data_source, solution_str, ground_truth, extra_info=None, format_score=0.1, score=1.0):
    method = "strict" if data_source == "openai/gsm8k" else "flexible"
    answer = extract_solution(solution_str, method)
    if answer is None:
        return 0
    return score if answer == ground_truth else format_score

def with_dictionary(data_source, solution_str, ground_truth, extra_info):
    good = ground_truth in solution_str
    return {"score": good + extra_info["index"] / 3, "acc": good, "pred": solution_str}
'''

OPENRLHF = '''
def reward_func(queries, prompts, labels, **kwargs):
    rewards = [len(q) / len(p) + (q.endswith(l)) for q, p, l in zip(queries, prompts, labels)]
    return {"rewards": rewards, "scores": rewards, "extra_logs": {"dummy_scores": rewards}}
'''


def rows(count):
    """Completions of all kinds: some correct, some only in the correct format, some neither."""
    draw = random.Random(7)
    result = []
    for i in range(count):
        answer = str(draw.randrange(-50, 2000))
        answer_text = answer if draw.random() < 0.5 else str(draw.randrange(-50, 2000))
        completion = draw.choice(["<think>aha</think><answer>{}</answer>", "so \\boxed{{{}}}", "#### {}", "it is {}.",
                                  "caf\u00e9 \u4f60\u597d\n\u2028\"{}\"\\ ", "", "{} dollars, then 7"]).format(answer_text)
        result.append({"prompt": f"Problem {i}: " + "x" * draw.randrange(20), "completion": completion, "answer": answer,
                       "source": draw.choice(["openai/gsm8k", "other"]), "ground_truth": answer,
                       "task": draw.choice(["math", "code"]), "extra_info": {"index": i}})
    return result


class RewardCommand(support.Test):
    def write(self, name, text):
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return path

    def load(self, path):
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    def reward(self, data, *functions, code=0, **options):
        path = self.write("rows.jsonl", "".join(json.dumps(row) + "\n" for row in data))
        options = {"python": sys.executable, "functions": json.dumps(functions), **options}
        result = support.keel("reward", path, *(f"reward.{key}={value}" for key, value in options.items()))
        self.assert_exit(result, code)
        return [json.loads(line) for line in result.stdout.split("\n")[:-1]] if code == 0 else result

    def assert_rewards(self, got, want):
        self.assertEqual([row["reward"] for row in got], [None if w is None else float(w) for w in want])

    def test_trls_functions(self):
        path, data = self.write("trl.py", TRL), rows(60)
        module = self.load(path)
        columns = {"prompts": [r["prompt"] for r in data], "completions": [r["completion"] for r in data]}
        for name in ("reward_len", "format_reward", "boxed_reward", "math_only"):
            want = getattr(module, name)(**columns, ground_truth=[r["ground_truth"] for r in data],
                                         task=[r["task"] for r in data], completion_ids=[], trainer_state=None)
            self.assertGreater(len(set(want)), 1, name)
            self.assert_rewards(self.reward(data, f"python:{path}:{name}"), want)
        self.assert_rewards(self.reward(data, f"python:{path}:no_keywords"), module.no_keywords(**columns))
        self.assert_rewards(self.reward(data, f"python:{path}:only_keywords"), module.only_keywords(
            **columns, trainer_state=types.SimpleNamespace(global_step=0)))
        self.assert_rewards(self.reward(data, f"python:{path}"), [len(r["prompt"]) for r in data])
        for i, row in enumerate(data):
            row["queries"], row["completion_ids"] = "q" * i, [7] * i
        self.assert_rewards(self.reward(data, f"python:{path}:a_column_of_another_form"),
                            [len(r["completion"]) - i for i, r in enumerate(data)])
        self.assert_rewards(self.reward(data, f"python:{path}:tokens"), range(len(data)))
        self.assert_rewards(self.reward(data, f"python:{path}:later"), [r["completion"].count("a") / 7 for r in data])

    def test_a_missing_answer_is_not_invented(self):
        # TRL: TypeError, missing 1 required positional argument.
        text = "".join(f"def of_{name}(completions, {name}, **kwargs):\n    return [float(x is None) for x in {name}]\n"
                       for name in ("answer", "solution", "ground_truth", "label"))
        path = self.write("asks.py", text + "def may_ask(completions, solution=None, **kwargs):\n"
                                            "    return [float(solution is None and 'answer' not in kwargs)] * len(completions)\n")
        data = [{"prompt": "p", "completion": "c", "points": i} for i in range(3)]
        for name in ("answer", "solution", "ground_truth", "label"):
            message = self.reward(data, f"python:{path}:of_{name}", code=5).stderr
            self.assertIn(f'requires "{name}", but no column has that name or is the answer column (columns: points', message)
        self.assert_rewards(self.reward(data, f"python:{path}:may_ask"), [1] * 3)
        for row, answer in zip(data, (None, "7", "8")):  # a row may lack its own answer
            row["answer"] = answer
        self.assert_rewards(self.reward(data, f"python:{path}:of_solution"), [1, 0, 0])

    def test_trls_conversations(self):
        path, data = self.write("chat.py", TRL_CHAT), rows(20)
        for row in data:
            row["prompt"] = [{"role": "system", "content": "s"}, {"role": "user", "content": row["prompt"]}]
        want = self.load(path).chat_reward([r["prompt"] for r in data],
                                           [[{"role": "assistant", "content": r["completion"]}] for r in data])
        self.assert_rewards(self.reward(data, f"python:{path}"), want)

    def test_verls_functions(self):
        path, data = self.write("verl_score.py", VERL), rows(60)
        module = self.load(path)
        want = [module.compute_score(r["source"], r["completion"], r["answer"], r["extra_info"]) for r in data]
        self.assertEqual(set(want), {0, 0.1, 1.0})
        self.assert_rewards(self.reward(data, f"python:{path}"), want)
        want = [module.with_dictionary(r["source"], r["completion"], r["answer"], r["extra_info"])["score"] for r in data]
        self.assert_rewards(self.reward(data, f"python:{path}:with_dictionary"), want)

    def test_openrlhfs_functions(self):
        path, data = self.write("openrlhf.py", OPENRLHF), rows(40)
        want = self.load(path).reward_func([r["prompt"] + r["completion"] for r in data], [r["prompt"] for r in data],
                                           [r["answer"] for r in data])["rewards"]
        self.assert_rewards(self.reward(data, f"python:{path}"), want)

    def test_rows_in_the_formats_of_other_programs(self):
        """keel reward finds prompt, answer, source and completion in the columns of verl, TRL and other programs, like training."""
        path = self.write("seen.py", """
def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    assert extra_info["num_turns"] == 2, extra_info
    return {"a/b": 1, "": 10}[data_source] + (solution_str == "so 7") / 2 + (ground_truth == "7") / 4
""")
        chat = [{"role": "user", "content": "3+4?"}]
        says = [{"role": "assistant", "content": "so 7"}]
        verl = {"data_source": "a/b", "prompt": chat, "ability": "math", "reward_model": {"style": "rule", "ground_truth": "7"},
                "extra_info": {"index": 1}, "response": "so 7"}
        for row, want in [(verl, 1.75), ({**verl, "response": "no"}, 1.25), ({**verl, "data_source": None}, 10.75),
                          ({"prompt": chat, "completion": says, "solution": "7"}, 10.75),  # TRL's conversations
                          ({"question": "3+4?", "answer": "3+4=7\n#### 7", "completion": "so 7"}, 10.75),  # GSM8K
                          ({"prompt_id": 0, "prompt": "3+4?", "gold": "7", "answer": "8", "completion": "so 7", "solved": True}, 10.75),  # keel eval --samples
                          ({"completion": "so 7", "answer": "7"}, 10.75)]:
            self.assert_rewards(self.reward([row], f"python:{path}"), [want])
        self.assert_rewards(self.reward([{**verl, "response": "7"}, {**verl, "response": "8"}], "math"), [1, 0])
        rows_path = self.write("rows.jsonl", json.dumps({"q": "3+4?", "ours": "7", "answer": "8", "from": "a/b", "completion": "so 7"}))
        result = support.keel("reward", rows_path, f'reward.functions=["python:{path}"]', "data.prompt_key=q", "data.answer_key=ours",
                              "data.source_key=from", f"reward.python={sys.executable}")
        self.assertEqual(json.loads(result.stdout)["reward"], 1.75, result.stderr)
        self.assertIn("read as: the configured columns; answer from ours, prompt from q (a text), source from from", result.stderr)

    def test_a_row_may_mark_its_completion_as_truncated(self):
        data = [{"completion": "x"}, {"completion": "x", "finish": "stop"}, {"completion": "x", "finish": "length"},
                {"completion": "x", "finish_reason": "length"}, {"completion": "x", "finish_reason": None}]
        self.assert_rewards(self.reward(data, "stopped"), [1, 1, 0, 0, 1])
        self.assertIn('"finish" is', self.reward([{"completion": "x", "finish": 3}], "stopped", code=3).stderr)

    def test_trls_columns_have_an_entry_for_every_row(self):
        """As in a table of `datasets`: a value that a row lacks is None."""
        path = self.write("columns.py", """
def reward(completions, level, **columns):
    assert all(len(values) == len(completions) for values in (level, columns["hint"]))
    return [(0 if l is None else l) + (0.5 if h is None else 0) for l, h in zip(level, columns["hint"])]
""")
        data = [{"prompt": "a", "completion": "x"}, {"prompt": "b", "completion": "y", "level": 3},
                {"prompt": "c", "completion": "z", "hint": "h", "level": 5}]
        self.assert_rewards(self.reward(data * 2, f"python:{path}"), [0.5, 3.5, 5] * 2)

    def test_rows_whose_keys_are_data_keep_to_their_own(self):
        """A table with as many columns as rows would need time and arguments in the square of the rows."""
        path = self.write("keys.py", "def reward(completions, **columns):\n"
                                     "    return [float(sum(name.startswith('key') for name in columns))] * len(completions)\n")
        data = [{"prompt": "p", "completion": "x", f"key{i}": i} for i in range(3000)]
        self.assert_rewards(self.reward(data, f"python:{path}"), [1] * 3000)

    def test_integers_that_would_be_rounded_are_refused(self):
        large, text = 100000000000000000001, '{"inputs":[[2]],"outputs":[1267650600228229401496703205376],"fn_name":"f"}'
        result = self.reward([{"completion": "\\boxed{100000000000000000000}", "answer": large}], "math", code=3)
        self.assertIn(f'the integer "{large}" does not fit 64 bits; write it as a string', result.stderr)
        self.assert_rewards(self.reward([{"completion": f"\\boxed{{{large}}}", "answer": str(large)}], "math"), [1])
        result = self.reward([{"completion": "def f(x): return 2**100 + 12345", "answer": text}], "code", code=3)
        self.assertIn('in the tests the integer "1267650600228229401496703205376" does not fit 64 bits', result.stderr)

    def test_rows_without_a_prompt_get_none(self):
        rows = self.write("rows.jsonl", json.dumps({"completion": "7", "gold": "7"}))
        result = support.keel("reward", rows, 'reward.functions=["math"]')
        self.assertEqual(json.loads(result.stdout)["reward"], 1, result.stderr)
        self.assertIn("answer from gold, no prompt\n", result.stderr)

    def test_one_event_loop_serves_all_calls(self):
        path = self.write("loops.py", """
import asyncio, functools
session = None
loops = set()

async def reward(completions, **columns):
    global session
    loops.add(asyncio.get_running_loop())
    if session is None:  # as one makes an aiohttp session, in the first call
        session = asyncio.Lock()
    async def one(text):
        async with session:  # who has to wait is bound to its loop
            await asyncio.sleep(0.001)
            return len(text)
    await asyncio.gather(*map(one, "abc"))
    return [len(loops)] * len(completions)

wrapped = functools.partial(reward)
def returns_a_coroutine(completions, **columns):
    return reward(completions, **columns)
async def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    return (await reward([solution_str]))[0]
async def cancelled(completions, **columns):
    raise asyncio.CancelledError()
""")
        for name in ("reward", "wrapped", "returns_a_coroutine", "compute_score"):
            self.assert_rewards(self.reward(rows(5), f"python:{path}:{name}", workers=1), [1] * 5)
        self.assertIn("CancelledError", self.reward(rows(1), f"python:{path}:cancelled", code=5).stderr)

    def test_any_sequence_of_numbers_will_do(self):
        path = self.write("forms.py", """
import itertools
class Array:  # what NumPy's arrays, torch's tensors and pandas' columns have in common
    def __init__(self, values): self.values = values
    def tolist(self): return self.values
class Number:
    def item(self): return 0.5
def generator(completions, **k):
    for c in completions: yield 0.5
def tuples(completions, **k): return tuple(0.5 for c in completions)
def maps(completions, **k): return map(lambda c: 0.5, completions)
def values(completions, **k): return dict.fromkeys(range(len(completions)), 0.5).values()
def array(completions, **k): return Array([0.5] * len(completions))
def numbers(completions, **k): return [Number() for c in completions]
def endless(completions, **k): return itertools.repeat(0.5)
def few(completions, **k): return (x for x in [])
def text(completions, **k): return "1" * len(completions)
def one(completions, **k): return 0.5
def unordered(completions, **k): return {0.5}
""")
        for name in ("generator", "tuples", "maps", "values", "array", "numbers"):
            self.assert_rewards(self.reward(rows(3), f"python:{path}:{name}"), [0.5] * 3)
        for name, message in (("endless", "more than 1 rewards for 1 completions"), ("few", "0 rewards for 1 completions"),
                           ("text", "(str); expected a list"), ("one", "(float); expected a list"), ("unordered", "(set)")):
            self.assertIn(message, self.reward(rows(1), f"python:{path}:{name}", code=5).stderr)

    def test_invalid_utf_8_ends_nothing(self):
        """A lone surrogate in printed text or in a name; an exception that cannot be printed; a long one."""
        path = self.write("odd.py", r"""
import sys
class Silent(Exception):
    def __str__(self): raise RuntimeError("no")
calls = 0
def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    global calls
    calls += 1
    print("\ud800 and", "\udfff", file=(sys.stdout, sys.stderr)[calls % 2])
    if solution_str == "raise": raise ValueError("half \ud800 of it\nin two lines")
    if solution_str == "silent": raise Silent()
    if solution_str == "long": raise ValueError("x" * 10_000_000)
    if solution_str == "name": return "\udc80"
    return calls
""")
        data = [{"completion": c} for c in ("a", "raise", "silent", "long", "name", "b")]
        got = self.reward(data, f"python:{path}", on_error="skip", workers=1)
        self.assert_rewards(got, [1, None, None, None, None, 6])  # one process scored all rows
        for row, message in zip(got[1:5], ("ValueError: half \\ud800 of it in two lines (odd.py:10)", "Silent: ", "xx... (10000000 characters)",
                                        "the reward is '\\udc80' (str)")):
            self.assertIn(message, row["failures"][0])
            self.assertLess(len(row["failures"][0]), 2000)

    def test_a_sum_that_is_not_finite_is_a_failure_of_its_sample(self):
        path = self.write("huge.py", "def reward(completions, **k):\n    return [1e308 if c == 'b' else 1 for c in completions]\n")
        data, functions = [{"completion": c, "prompt": "p"} for c in "abc"], [f"python:{path}"] * 2
        result = self.reward(data, *functions, code=5)
        self.assertIn("the sum of the rewards failed on rollout 2 of prompt 2", result.stderr)
        self.assertIn("inf", result.stderr)
        self.assert_rewards(self.reward(data, *functions, on_error="zero"), [2, 0, 2])
        got = self.reward(data, *functions, on_error="skip")
        self.assert_rewards(got, [2, None, 2])
        self.assertEqual([len(row.get("failures", [])) for row in got], [0, 1, 0])
        self.assertIn("on rollout 2 ", self.reward(data, functions[0], code=5, weights="[10]").stderr)
        self.assertIn("on rollout 2 ", self.reward(data, functions[0], code=5).stderr)  # the mean of such a group is not finite

    def test_weights_and_sources(self):
        path, data = self.write("trl.py", TRL), rows(60)
        module = self.load(path)
        got = self.reward(data, f"python:{path}:reward_len @openai/gsm8k", "stopped", weights="[0.01, 2]")
        lengths = module.reward_len([r["completion"] for r in data])
        self.assert_rewards(got, [2 + 0.01 * n if r["source"] == "openai/gsm8k" else 2 for n, r in zip(lengths, data)])

    def test_a_failure_names_function_and_sample_and_loses_no_other(self):
        path = self.write("bad.py", "import os\ndef compute_score(data_source, solution_str, ground_truth, extra_info=None):\n"
                                    "    if extra_info['index'] == 13: os.abort()\n    return 1\n")
        result = self.reward(rows(30), f"python:{path}", code=5)
        self.assertIn("of prompt 14 (", result.stderr)
        self.assertIn("signal 6", result.stderr)
        got = self.reward(rows(30), f"python:{path}", on_error="zero")
        self.assert_rewards(got, [float(i != 13) for i in range(30)])
        self.assertEqual([i for i, row in enumerate(got) if "failures" in row], [13])

    def test_bad_rows_and_settings_are_refused(self):
        self.write("rows.jsonl", '{"completion": "1", "answer": "1"}\n{"answer": 1}\n')
        result = support.keel("reward", "rows.jsonl", cwd=self.folder)
        self.assert_refused(result, 3, "rows.jsonl:2", "completion")
        self.assertEqual(json.loads(result.stdout)["reward"], 1)
        self.assert_refused(support.keel("reward", "rows.jsonl", "reward.function=x", cwd=self.folder), 2, "did you mean")

    def test_tables_and_lists_get_conversion_commands(self):
        self.write("rows.csv", "prompt,completion,answer\nq,3,3\n")
        self.write("rows.json", '[{"completion": "3", "answer": "3"}]')
        for name, tool in (("rows.csv", "csv.DictReader"), ("rows.json", "jq -c")):
            self.assert_refused(support.keel("reward", name, cwd=self.folder), 3, name, "is not a JSONL file", tool)

    def test_gold_is_the_answer_in_samples_of_eval_only(self):
        row = {"gold": "4", "answer": "3", "completion": "3"}
        self.assert_rewards(self.reward([row], "math"), [1])
        self.assert_rewards(self.reward([{"gold": "3", "completion": "3"}], "math"), [1])
        self.assert_rewards(self.reward([{**row, "prompt_id": 0, "solved": True}], "math"), [0])

    def test_tokens_are_read_from_the_rows_or_required(self):
        data = [{"completion": "x", "completion_ids": [7] * n} for n in (0, 6, 8, 10, 12)]
        self.assert_rewards(self.reward(data, "overlong:10,4"), [0, 0, -0.5, -1, -1])
        self.assert_rewards(self.reward(data, "length:10"), [0, -0.6, -0.8, -1, -1.2])
        for function in ("overlong:10,4", "length:10"):
            self.assertIn("completion_ids", self.reward([{"completion": "x"}], function, code=5).stderr)
        path = self.write("trl.py", TRL)
        self.assertIn("completion_ids", self.reward([{"completion": "x"}], f"python:{path}:tokens", code=5).stderr)
        self.assert_rewards(self.reward([{"completion": "x"}], f"python:{path}:reward_len"), [1])

    def test_an_unused_function_is_refused(self):
        path = self.write("odd.py", "def f(answer, label):\n    return [1]\n")
        self.assertIn("f(answer, label) is not a supported reward function", self.reward(rows(1), f"python:{path}", code=5).stderr)
        path = self.write("two.py", "def brevity(completions):\n    return [1]\n\n\ndef form(completions):\n    return [1]\n")
        for name, message in ((":breviti", "has no function breviti (it has brevity, form)"), ("", "several or no functions")):
            self.assertEqual([message in line for line in self.reward(rows(1), f"python:{path}{name}", code=5).stderr.splitlines()], [True])

    def test_the_rewards_of_an_earlier_run_are_replaced(self):
        data = [{"completion": "A", "answer": "A", "rewards": r, "reward": r, "failures": r} for r in (7, {"math": 1}, None)]
        for row in self.reward(data, "exact"):
            self.assertEqual(row, {"completion": "A", "answer": "A", "reward": 1, "rewards": {"exact": 1}})

    def test_rows_of_the_wrong_type_are_refused(self):
        for wrong in ({"prompt": 7}, {"prompt": None}, {"completion": 7}, {"completion_ids": 7}, {"completion_ids": ["a"]}, {"completion_ids": [-1]}):
            result = self.reward([{"completion": "1", "answer": "1", **wrong}], "exact", code=3)
            self.assertRegex(result.stderr, f"rows.jsonl:1: .*\\b{list(wrong)[0]}\\b.* is ")

    def test_verify_keeps_the_order_of_many_rows(self):
        data = [{"i": i, "gold": str(i), "answer": str(i if i % 3 else i + 1)} for i in range(5000)]
        text = "".join(json.dumps(row) + "\n" for row in data)
        result = subprocess.run([support.KEEL, "verify", "--batch", "-"], input=text, capture_output=True, text=True)
        self.assert_exit(result, 0)
        self.assertEqual([json.loads(line) for line in result.stdout.splitlines()],
                         [{**row, "correct": row["i"] % 3 != 0} for row in data])
        result = subprocess.run([support.KEEL, "verify", "--batch", "-"], input=text + '{"gold": 1, "answer": 3.14159265358979323846}\n',
                                capture_output=True, text=True)
        self.assert_refused(result, 3, "standard input:5001", "more digits than a double holds")
        self.assertEqual(len(result.stdout.splitlines()), 5000)


# Scores by the length of the text, without a reward for odd lengths; logs its rewards.
IN_PART = '''
import json
def reward(prompts, completions, **columns):
    rewards = [None if len(c) % 2 else float(len(c) % 7) for c in completions]
    with open("NOTE", "a") as note:
        note.write(json.dumps([prompts[0], completions, rewards]) + "\\n")
    return rewards
'''


class Unscored(support.Test):
    def test_completions_without_reward_are_excluded_from_a_step(self):
        """Compares means, deviations and advantages with values computed by hand from the logged rewards."""
        note, run = self.folder / "note", self.folder / "run"
        (self.folder / "part.py").write_text(IN_PART.replace("NOTE", str(note)))
        result = support.train(run, reward={"functions": json.dumps([f"python:{self.folder / 'part.py'}"]), "workers": 1, "python": sys.executable},
                               record={"samples_per_step": 100}, objective={"method": "grpo"}, eval={"prompts": 0})
        self.assert_exit(result, 0)
        groups = [json.loads(line) for line in note.read_text().splitlines()]
        rows = [row for row in support.metrics(run) if row["phase"] == "rl"]
        samples = [row for row in support.read_jsonl(run / "samples.jsonl") if row["phase"] == "rl"]
        self.assertEqual((len(groups), len(rows)), (16, 4))
        left_out = 0
        for step, row in enumerate(rows):
            mine = groups[4 * step:4 * step + 4]
            scored = {prompt: [r for r in rewards if r is not None] for prompt, _, rewards in mine}
            every = [r for rewards in scored.values() for r in rewards]
            left_out += 16 - len(every)
            self.assertEqual(row.get("reward/unscored", 0), 16 - len(every))
            self.assertAlmostEqual(row["reward/mean"], statistics.mean(every))
            self.assertAlmostEqual(row["reward/std"], statistics.stdev(every))
            self.assertEqual(row["reward/zero_std_groups"], sum(len(set(rewards)) < 2 for rewards in scored.values()) / 4)
            seen = [sample for sample in samples if sample["step"] == row["step"]]
            self.assertEqual(sorted((s["prompt"], s["reward"]) for s in seen), sorted((p, r) for p, rewards in scored.items() for r in rewards))
            for sample in seen:
                rewards = scored[sample["prompt"]]
                flat = len(set(rewards)) < 2
                want = 0 if flat else (sample["reward"] - statistics.mean(rewards)) / (statistics.stdev(rewards) + 1e-6)
                self.assertAlmostEqual(sample["advantage"], want, places=5)
        self.assertGreater(left_out, 10)


if __name__ == "__main__":
    support.main()
