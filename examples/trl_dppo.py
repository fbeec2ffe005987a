"""TRL's GRPOTrainer with the DPPO trust region: one line differs from a TRL script. A tiny Llama learns from rewards to double a
digit.

    pip install torch trl && pip install . && python examples/trl_dppo.py       (in two processes: torchrun --nproc_per_node 2 examples/trl_dppo.py)
"""

import sys

from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, set_seed
from trl import GRPOConfig

from keel.trl import KeelGRPOTrainer as GRPOTrainer  # was: from trl import GRPOTrainer

set_seed(0)
words = {word: i for i, word in enumerate([*"0123456789", "<stop>", "<pad>", "="])}
tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel(words, unk_token="<pad>")), eos_token="<stop>",
                                    pad_token="<pad>", padding_side="left")
tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
model = LlamaForCausalLM(LlamaConfig(vocab_size=len(words), hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
                                     eos_token_id=words["<stop>"], pad_token_id=words["<pad>"], bos_token_id=words["="]))


def double(prompts, completion_ids, **_):
    """Returns the fraction of correct digits of the doubled number, the stop token included."""
    expected = [[words[figure] for figure in str(2 * int(prompt[0]))] + [words["<stop>"]] for prompt in prompts]
    return [sum(got == right for got, right in zip(ids, row)) / len(row) for ids, row in zip(completion_ids, expected)]


trainer = GRPOTrainer(
    model=model, processing_class=tokenizer, reward_funcs=double, train_dataset=Dataset.from_dict({"prompt": [f"{d} =" for d in range(10)] * 100}),
    args=GRPOConfig(output_dir="runs/trl_dppo", per_device_train_batch_size=64, num_generations=8, steps_per_generation=4, max_completion_length=3,
                    learning_rate=2e-3, lr_scheduler_type="constant", max_steps=int(sys.argv[1]) if len(sys.argv) > 1 else 160, logging_steps=20,
                    loss_type="dr_grpo", scale_rewards="none", entropy_coef=0.01, use_cpu=True, bf16=False, gradient_checkpointing=False, disable_tqdm=True,
                    report_to=[], save_strategy="no"))
trainer.train()
for row in trainer.state.log_history:
    if "trust_region/masked" in row:
        print(f"step {row['step']}: reward {row['reward']:.2f}, blocked {row['trust_region/masked']:.1%}, largest ratio {row['ratio/max']:.2f}")
