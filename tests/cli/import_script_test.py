"""Shell scripts, as `keel import` reads them and as bash runs them.

Bash itself runs each script, with programs in place of python3 and trl that only write down what they were handed. What is imported of
the script must be what is imported of those words, or the script is refused: never another configuration.
"""

import os
import subprocess

import support

VERL = ("algorithm.adv_estimator=grpo data.train_files=rows.jsonl data.train_batch_size=8 actor_rollout_ref.actor.ppo_mini_batch_size=8 "
        "trainer.total_training_steps=10")
N, BATCH = "actor_rollout_ref.rollout.n", "data.train_batch_size"
RUN = f"python3 -m verl.trainer.main_ppo {VERL} "
TRL = "trl grpo --dataset_name rows.jsonl --reward_funcs accuracy_reward --num_generations 4 --max_steps 8 "

# Before a training with n=$N. Whether the answer can be known without running the script is written beside each.
READ = {
    "plain": "N=4",
    "one by the other": "M=4 N=$M",
    "two in a line": "N='4' M=\"x y\"",
    "export": "export N=4",
    "export of what is set": "N=4; export N",
    "declare -x": "N=4\ndeclare -x N=8",
    "typeset": "N=4\ntypeset N=8",
    "readonly": "readonly N=8",
    "first of a chain": "export N=4 && echo ok",
    "set": "set -euxo pipefail\nset -x\nset -o pipefail\nN=4",
    "added to a number": "N=1\nN+=6",
    "function that is not called": "N=4\nsetup() {\n  N=16\n}",
    "function with its word": "N=4\nfunction setup {\n  N=16\n}",
    "function that sets another": "N=4\nsay() { echo \"$1\"; M=3; }\nsay hello",
    "here-document": "N=4\ncat <<X\nN=8\nX",
    "here-document with tabs": "N=4\ncat <<-'X' > /dev/null; M=3\n\tN=8\n\tX\n",
    "here-string": "N=4\ncat <<< N=8",
    "for the command alone": "N=4\nN=8 echo hi",
    "default": "N=${UNSET_NAME:-6}",
    "default of a default": "N=${UNSET_NAME:-${OTHER_UNSET_NAME:-\"6\"}}",
    "default without colon": "N=${UNSET_NAME-6}",
    "sum": "M=3\nN=$(( (M + 1) * 2 / ${M} ))",
    "sum of a sum": "M=1+2\nN=$((M * 2))",
    "negative sum": "N=$((-7/2+8))",
    "case elsewhere": "N=4\ncase x in\n  x) M=16 ;;\nesac",
    "if elsewhere": "N=4\nif true; then\n  M=16\nfi",
    "if, then set again": "if true; then N=3; fi\nN=4",
    "test without consequence": "N=4\n[[ \"$N\" == 4 && 3 < 4 ]] || echo no",
    "program in the background": "N=4\nsleep 0 &",
    "comment": "N=4 # N=8\n# N=9",
    "continued": "N=\\\n4",
    "environment of Python's": "mkdir -p v/bin; echo > v/bin/activate\nN=4\nsource v/bin/activate",
    "directory": "N=4\ncd .",
    "quotes in a command": "N=4\nX=$(echo \"a ) b\")",
    "first element": "N=(4 8)",
}
READ_OR_REFUSED = {
    "case in a line": "N=4\ncase big in big) N=16 ;; esac",
    "case over lines": "N=4\ncase big in\n  small|tiny) N=2 ;;\n  (big) N=16 ;;\nesac",
    "arithmetic command": "N=4\n((N*=2))",
    "arithmetic command with blanks": "N=4\n(( N *= 2 ))",
    "let": "N=4\nlet N=N*2",
    "source": "N=4\necho N=16 > env.sh\nsource ./env.sh",
    "dot": "N=4\necho N=16 > env.sh\n. ./env.sh",
    "source, default": "echo N=16 > env.sh\nsource ./env.sh\nN=${N:-4}",
    "subshell": "N=4\n(N=8)",
    "subshell over lines": "N=4\n(\nN=8\n)",
    "for": "N=4\nfor N in 8; do :; done",
    "for with numbers": "N=4\nfor ((N=0; N<8; N++)); do :; done",
    "default that is set": ": \"${N:=6}\"",
    "default that is set over another": "N=4\necho ${M:=6} ${N:=8}",
    "integer": "declare -i N=4+4",
    "unset": "N=4\nunset N\nN=${N:-6}",
    "choice in a sum": "M=8\nN=$((M>4?8:4))",
    "and": "N=4\nfalse && N=8",
    "and, true": "N=4\ntrue && N=8",
    "and over lines": "N=4\nfalse &&\n  # why\n  N=8",
    "or over lines": "N=4\nfalse ||\nN=8",
    "or": "N=4\ntest 1 = 2 || N=8",
    "test and": "N=4; [ \"${BIG:-0}\" = 1 ] && N=8",
    "test and group": "N=4\n[[ 1 -gt 2 ]] && { N=8; }",
    "local": "N=4\nf() { local N=9; }\nf",
    "function": "N=4\nf() { N=8; }\nf",
    "function with blanks": "N=4\nf ()\n{\n  N=8\n}\nf",
    "function of a function": "f() { N=8; }\ng() { f; }\nN=4\ng",
    "function in an if": "N=4\nf() {\n  N=8\n}\nif true; then f; fi",
    "function by a variable": "N=4\nf() { N=8; }\nF=f\n$F",
    "arguments": "set -- 9\nN=${1:-4}",
    "arguments behind a flag": "set -e -- 9\nN=${1:-4}",
    "while": "N=4\nwhile false; do N=8; done",
    "until": "N=4\nuntil false; do N=8; break; done",
    "element": "M=(4 8)\nN=${M[1]}",
    "element set": "N=(4 8)\nN[0]=6",
    "text added to an array": "N=(4 8)\nN+=1",
    "array over a text": "N=4\nN=(8 9)",
    "pipe": "N=4\necho x | N=8",
    "pipe over lines": "N=4\necho x |\nN=8",
    "in the background": "N=4\nN=8 &",
    "from the front cut": "N=10#8\nN=${N#*#}",
    "octal": "N=$((010))",
    "octal in a variable": "N=04\nN=$((N+4))",
    "if": "N=4\nif false; then N=8; fi\nN=$N",
    "not": "N=4\n! N=8",
    "group": "N=4\n{ N=8; }",
    "read": "read N <<< 8\nN=${N:-4}",
    "read into several": "N=4\nread -r M N <<< '1 8'",
    "mapfile": "N=4\nmapfile -t N <<< 8",
    "eval": "N=4\neval 'N=8'",
    "eval of a variable": "N=4\nX=N=8\neval $X",
    "printf": "N=4\nprintf -v N 8",
    "getopts": "N=4\nset -- -b\ngetopts b N\nN=${#N}",
    "builtin": "N=4\nbuiltin read N <<< 8",
    "command": "N=4\ncommand eval N=8",
    "export in quotes": "N=4\nexport \"N=8\"",
    "increment": "N=4\necho $((N++))",
    "increment in a here-document": "N=4\ncat <<X\n$((N++))\nX",
    "one-line if before an if": "{ if true; then echo; fi; }\nN=4\nif true; then\nN=8\nfi",
    "one-line function before an if": "f() { if true; then echo; fi; }\nN=4\nif true; then\nN=8\nfi",
    "constant": "readonly N=4\nN=8 || true",
    "trap": "N=4\ntrap 'N=8' DEBUG",
    "alias": "shopt -s expand_aliases\nalias M=N=8\nN=4\nM",
    "the length": "M=four\nN=${#M}",
    "number of arguments": "N=4$#",
    "quoting of C": "N=$'4'",
    "command in quotes": "N=\"`echo 4`\"",
    "old sum": "N=$[2+2]",
    "random": "N=${SHLVL:-4}",
    "export of what it sets itself": "N=4\nexport N=8 M=$N\nN=$M",
    "element with its place": "N=([1]=4 [0]=8)",
    "constant by its name": "N=4\nreadonly N\nN=8 || true",
    "constant by declare": "declare -r N=4\nN=8 || true",
    "first of a sum": "M=x\nx=4\nN=$((M))",
}
# Whole scripts.
SCRIPTS_READ = {
    "text that is added to": f'ARGS="{N}=4"\nARGS+=" {N}=8 {BATCH}=16"\n{RUN} $ARGS',
    "array that is added to": f'A=({N}=4)\nA+=("{BATCH}=16")\n{RUN} "${{A[@]}}"',
    "redirection in the middle": f"{RUN} {N}=4 > log.txt {BATCH}=16 2>&1",
    "here-string in the middle": f"{RUN} {N}=4 <<< x {BATCH}=16",
    "pipe behind": f"{RUN} {N}=4 2>&1 | tee log.txt",
    "and behind": f"{RUN} {N}=4 && echo a=1",
    "or behind": f"{RUN} {N}=4 || exit 1",
    "in the background": f"{RUN} {N}=4 &> log.txt &\nwait",
    "behind a directory": f"cd . && {RUN} {N}=4",
    "quotes in a word": f"{RUN} {N}='1''6'\"4\"",
    "quotes in a default": f"{RUN} {N}=4 trainer.default_local_dir=\"${{NO_SUCH:-'a b'}}\"",
    "no arguments": f'{RUN} {N}=4 "$@" $@',
    "home": f"D=~/data\n{RUN} {N}=4 trainer.default_local_dir=$D/x data.val_files=~/y.jsonl",
    "an exit behind": f"{RUN} {N}=4\nexit 0",
    "other programs": f"python3 examples/data_preprocess/gsm8k.py --local_dir x\npython3 -m verl.model_merger merge --backend fsdp\n{RUN} {N}=4",
    "TRL with a log": TRL + "--learning_rate 1e-5 2>&1 | tee log.txt",
    "TRL with a list and a log": TRL + "--use_peft --lora_dropout 0 --lora_target_modules q_proj v_proj 2>&1 | tee log.txt",
    "variable for the command": "CUDA_VISIBLE_DEVICES=0 " + TRL + "--learning_rate 1e-5",
}
SCRIPTS_REFUSED = {
    "text added in a condition": f'A=()\n[ x ] && A+=({N}=4)\n{RUN} {N}=2 "${{A[@]}}"',
    "training in a condition": f"false && {RUN} {N}=4",
    "training in a here-document": f"cat > job.sh <<'EOF'\n{RUN} {N}=4\nEOF",
    "training in a function": f"f() {{\n{RUN} {N}=4\n}}\nf",
    "training by a function": f"python3() {{ :; }}\n{RUN} {N}=4",
    "training that is printed": f"echo {RUN} {N}=4",
    "training behind the end": f"exit 0\n{RUN} {N}=4",
    "settings behind a comment": f"{RUN} \\\n {N}=4 \\\n# {BATCH}=8 \\\n {BATCH}=16",
    "arguments": f'set -- {N}=4\n{RUN} {N}=2 "$@"',
    "several words of one": f"{RUN} {N}={{4,8}}",
    "other blanks": f'X="{N}=4,{BATCH}=16"\nIFS=,\n{RUN} $X',
    "array without quotes": f'A=("trainer.default_local_dir=a {N}=8")\n{RUN} {N}=4 ${{A[@]}}',
    "files": f"A=*\n{TRL} --report_to $A",
    "other defaults": f"{RUN} {N}=4 --config-path=/home/me/conf --config-name=ppo_trainer",
}

# Writes its arguments, each behind a line of its own, and nothing but the last call counts.
STUB = """#!/bin/bash
case "$*" in *main_ppo*|grpo*) printf '%s\\0' "$@" > called ;; esac
"""


class Scripts(support.Test):
    def setUp(self):
        super().setUp()
        programs = self.folder / "programs"
        programs.mkdir()
        for name in ("python3", "trl"):
            (programs / name).write_text(STUB)
            (programs / name).chmod(0o755)
        self.path = f"{programs}:{os.environ['PATH']}"

    def settings_by_bash(self, script):
        """The words behind the program, as key=value; None where no training was started."""
        called = self.folder / "called"
        called.unlink(missing_ok=True)
        subprocess.run(["bash", str(script)], cwd=self.folder, env={**os.environ, "PATH": self.path}, capture_output=True, timeout=20)
        if not called.exists():
            return None
        words = called.read_text().split("\0")[:-1]
        if "-m" in words:
            return words[words.index("-m") + 2:]
        settings, words = [], words[words.index("grpo") + 1:]
        for word in words:
            if word.startswith("--"):
                settings.append([word[2:]])
            else:
                settings[-1].append(word)
        return [f"{key}={'[' + ', '.join(values) + ']' if len(values) > 1 else values[0] if values else 'true'}" for key, *values in settings]

    def imported(self, *words):
        result = support.keel("import", *words, cwd=str(self.folder))
        lines = [line.partition("#")[0].rstrip() for line in result.stdout.splitlines()]
        return result, [line for line in lines if line]

    def check(self, name, text, must_read, may_read=True):
        with self.subTest(script=name):
            script = self.folder / "run.sh"
            script.write_text(text + "\n")
            result, read = self.imported(script)
            if result.returncode == 0:
                self.assertTrue(may_read, "a training was read")
                by_bash = self.settings_by_bash(script)
                self.assertIsNotNone(by_bash, "bash starts no training")
                expected, lines = self.imported(*by_bash)
                self.assertEqual(expected.returncode, 0, expected.stderr)
                self.assertEqual(read, lines)
            else:
                self.assertEqual(result.returncode, 2, result.stderr)
                self.assertIn("run.sh:", result.stderr)
                self.assertFalse(must_read, result.stderr)

    def test_what_is_sure_is_read_as_bash_runs_it(self):
        for name, lines in READ.items():
            self.check(name, f"{lines}\n{RUN} {N}=$N", must_read=True)
        for name, text in SCRIPTS_READ.items():
            self.check(name, text, must_read=True)

    def test_what_is_not_sure_is_read_as_bash_runs_it_or_refused(self):
        for name, lines in READ_OR_REFUSED.items():
            self.check(name, f"{lines}\n{RUN} {N}=$N", must_read=False)
            if support.count(0, 1):
                self.check(name + ", by default", f"{lines}\n{RUN} {N}=${{N:-3}}", must_read=False)
        for name, text in SCRIPTS_REFUSED.items():
            self.check(name, text, must_read=False, may_read=False)


if __name__ == "__main__":
    support.main()
