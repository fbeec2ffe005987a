"""A tiny model, tokenizer, data set and reward for TRL's trainer, and samplers that need no model."""

import random
import tempfile

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, OPTConfig, OPTForCausalLM, PreTrainedTokenizerFast, PrinterCallback
from trl import GRPOConfig

WORDS = [f"w{i}" for i in range(28)]
LONGEST = 12


def tokenizer():
    names = ["<pad>", "<bos>", "<eos>", "<unk>", *WORDS]
    words = Tokenizer(models.WordLevel({name: i for i, name in enumerate(names)}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", bos_token="<bos>", eos_token="<eos>", unk_token="<unk>",
                                   padding_side="left")


def model(seed=0, **changes):
    torch.manual_seed(seed)
    return LlamaForCausalLM(LlamaConfig(
        vocab_size=4 + len(WORDS), hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64, pad_token_id=0, bos_token_id=1, eos_token_id=2, tie_word_embeddings=False, **changes))


def model_of_opt():
    """A model with default dropout, applied through torch.nn.functional."""
    return OPTForCausalLM(OPTConfig(vocab_size=4 + len(WORDS), hidden_size=32, ffn_dim=48, num_hidden_layers=1, num_attention_heads=4,
                                    max_position_embeddings=64, word_embed_proj_dim=32, pad_token_id=0, bos_token_id=1, eos_token_id=2))


def prompts(number=64):
    draw = random.Random(0)
    return Dataset.from_dict({"prompt": [" ".join(draw.choices(WORDS, k=draw.randint(2, 5))) for _ in range(number)]})


def reward(completions, **_):
    """The fraction of even words, which changes within a few updates."""
    return [sum(int(word[1:]) % 2 == 0 for word in text.split() if word in WORDS) / LONGEST for text in completions]


def config(**changes):
    settings = dict(
        output_dir=tempfile.mkdtemp(prefix="keel-trl-"), per_device_train_batch_size=8, num_generations=4, max_completion_length=LONGEST,
        gradient_accumulation_steps=1, steps_per_generation=2, num_iterations=2, learning_rate=3e-3, max_steps=4, seed=7,
        logging_steps=1, report_to=[], save_strategy="no", use_cpu=True, bf16=False, gradient_checkpointing=False, disable_tqdm=True,
        lr_scheduler_type="constant", dataloader_pin_memory=False)
    return GRPOConfig(**{**settings, **changes})


def trainer(kind, changes=None, **more):
    """A trainer that records the exact loss of every micro-batch in `losses`."""
    class Remembering(kind):
        def _compute_loss(self, *arguments):
            loss = super()._compute_loss(*arguments)
            self.losses.append(loss.item())
            return loss

    network = more.pop("model", None) or model()
    made = Remembering(model=network, reward_funcs=reward, args=config(**(changes or {})), train_dataset=prompts(),
                       processing_class=tokenizer(), **more)
    made.losses = []
    made.remove_callback(PrinterCallback)
    return made


def weights_of(network):
    return torch.cat([parameter.detach().flatten().double() for parameter in network.parameters()])


def weights(made):
    return weights_of(made.accelerator.unwrap_model(made.model))


def fixed_rollout(texts, made):
    """Completions and sampler log-probabilities that only depend on the position in the batch."""
    ids, completions, logprobs = [], [], []
    for i, text in enumerate(texts):
        place = made.accelerator.process_index * len(texts) + i
        draw = random.Random(1000 * made.state.global_step + place)
        completion = [draw.randrange(4, 4 + len(WORDS)) for _ in range(draw.randint(3, LONGEST - 1))] + [2]
        ids.append(made.processing_class(text)["input_ids"])
        completions.append(completion)
        logprobs.append([-3.4 + draw.uniform(-0.4, 0.4) for _ in completion])
    return {"prompt_ids": ids, "completion_ids": completions, "logprobs": logprobs}


class Vllm:
    """Replaces TRL's VLLMGeneration: the same completions, and a list of log-probabilities for each token, the sampled one's first."""

    def __init__(self, **_):
        self.trainer = None

    def sync_weights(self):
        pass

    def generate(self, prompts, **_):
        rollout = fixed_rollout(["w1"] * len(prompts), self.trainer)
        return prompts, rollout["completion_ids"], [[[value] for value in row] for row in rollout["logprobs"]], None
