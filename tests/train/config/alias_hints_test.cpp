// What is said of a name that nobody knows.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/train/config/loaded_settings.h"

namespace keel {
namespace {

using testing::HasSubstr;

TEST(ConfigAliases, AHintNeverNamesAnotherThing) {
  const std::vector<std::pair<std::string, std::string>> hints = {
      {"objective.method=dppo", "did you mean dppo_tv?"},
      {"objective.method=DPPO", "did you mean dppo_tv?"},
      {"data.files=a.jsonl,b.jsonl", "write [a.jsonl, b.jsonl]"},
      {"task.q=8", "keys of task are"},
      {"critic.learning_rate=1", "did you mean critic.lr?"},
      {"sft.learning_rate=1", "did you mean sft.lr?"},
      {"optimizer.epsilon=1", "set optimizer.eps"},
      {"optimizer.warmup_steps=1", "warmup_steps is optimizer.warmup_updates and optimizer.warmup_ratio here"},
      {"betas=[0.9, 0.95]", "set optimizer.beta1 and optimizer.beta2"},
      {"rollout.samples=4", "set rollout.samples_per_prompt"},
      {"rollout.prompts=4", "set train.prompts_per_step"},
      {"rollout.batch=4", "set train.prompts_per_step"},
      {"train.batch=4", "set train.prompts_per_step"},
      {"local_rank=0", "a run has one device"},
      {"use_lora=true", "set lora.rank"},
      {"critic.ppo_epochs=2", "in the policy's updates"},
      {"critic.ppo_mini_batch_size=2", "in the policy's updates"},
      {"critic.grad_clip=1", "optimizer is the policy's"},
      {"reward.path=r.py", "reward.functions"},
      {"reward_model.path=x", "reward.functions"},
      {"lora.path=x", "set lora.adapter"},
      {"checkpoint.path=x", "run.dir"},
      {"run.dtype=bf16", "set run.precision"},
      {"filter_groups.enable=true", "did you mean algorithm.filter_groups?"},
      {"kl_ctrl.type=fixed", "did you mean algorithm.kl_ctrl?"},
      {"horizon=10000", "set reference.kl_in_reward_horizon"},
      {"actor_rollout_ref.rollout.mode=batch", "Keel samples itself"},
      {"lora.overlong_buffer=4", "before rollout.max_new_tokens, in which"},  // up to the end of a sentence
      {"reward.weights=1,2", "write [1, 2]"},
      {"eval.ks=1, 2", "write [1, 2]"},
      {"reward_weights=1.0 0.5", "write [1.0, 0.5]"},
      {"optimizer.type=adamw", "keys of optimizer are"},
      {"optimizer.name=adamw", "keys of optimizer are"},
      {"data.type=x", "keys of data are"},
      {"reward.type=x", "keys of reward are"},
      {"rollout.enable=true", "keys of rollout are"},
      {"rollout.name=vllm", "keys of rollout are"},
      {"rollout.mode=async", "keys of rollout are"},
      {"rollout.len=4", "keys of rollout are"},
      {"eval.enable=false", "keys of eval are"},
      {"eval.metric=x", "keys of eval are"},
      {"lora.enable=true", "set lora.rank"},
      {"critic.enable=true", "set that"},
      {"critic.enabled=true", "did you mean critic.enable? Of that: a critic is there where critic.body says so"},
      {"reward.math=1", "functions are named in reward.functions"},
      {"reward_funcs=rw.py", "written python:rw.py"},
      {"checkpoint.save_every=1", "set checkpoint.every"},
      {"rollout.max_tokens=1", "set rollout.max_new_tokens"},
      {"rollout.group_size=4", "set rollout.samples_per_prompt"},
      {"train.total_steps=4", "set train.steps"},
      {"train.prompts_per_step=${data.train_batch_size}", "`keel import` resolves what ${...} refers to"},
      {"rollout.n=4", "is rollout.samples_per_prompt here"},
      {"train.epsilon=0.2", "objective.delta_high here: for a loss that clips the ratio"},
      {"objective.clip_ratio=0.2", "a method that clips it"},
      {"objective.method=rloo", "set objective.advantage=rloo"},
      {"objective.method=reinforce", "objective.advantage=reinforce_pp"},
      {"objective.method=reinforce++", "objective.advantage=reinforce_pp"},
      {"max_completion_length=null", "set rollout.max_new_tokens"},
      {"gradient_accumulation=4", "with these words: TRL's gradient_accumulation_steps is train.prompts_per_step"},
      {"grad_accum=4", "TRL's gradient_accumulation_steps is train.prompts_per_step"},
      {"per_device_batch_size=4", "TRL's per_device_train_batch_size is train.prompts_per_step"},
      {"mini_batch_size=4", "verl's actor_rollout_ref.actor.ppo_mini_batch_size is train.sequences_per_update here"},
      {"num_epochs=4", "TRL's num_train_epochs is train.data_epochs here"},
      {"train.new_tokens=4", "rollout.max_new_tokens (Longest completion"},
      {"accumulation=4", "sections are"},           // one word is in too many names
      {"steps_of_accumulation=4", "sections are"},  // nor in another order
      {"reward_model.colour=x", "keys of reward_model are overlong_buffer, reward_kwargs"}};
  for (const auto& [setting, hint] : hints) EXPECT_THAT(refusal_of({setting}), HasSubstr(hint)) << setting;
  EXPECT_THAT(refusal_of({"model.path=m", R"(data.files=["a.jsonl"])"}), HasSubstr("TRL's default is 512 tokens"));
  const std::vector<std::pair<std::string, std::string>> misleading = {
      {"lr=1", "l2"},
      {"grad_clip=1", "dual_clip"},
      {"max_new_tokens=64", "max_tokens"},
      {"mini_batch=1", "micro"},
      {"samples=4", "max_samples"},
      {"policy=x", "policy_loss_type"},
      {"run.precision=float16", "float32"},
      {"value_coef=1", "value_clip"},
      {"actor_rollout_ref.rollout.mode=batch", "task.mode (Chains)"}};
  for (const auto& [setting, other] : misleading)
    EXPECT_THAT(refusal_of({setting}), testing::Not(HasSubstr(other + "?"))) << setting;
  EXPECT_THAT(refusal_of({"data.chat=true"}), testing::AllOf(HasSubstr("always"), testing::Not(HasSubstr("quotes"))));
  EXPECT_THAT(refusal_of({"max_new_tokens=64"}), HasSubstr("rollout.max_new_tokens (Longest completion"));
  EXPECT_THAT(refusal_of({"train.temperature=1"}),
              testing::AllOf(HasSubstr("rollout.temperature ("), HasSubstr("eval.temperature (")));
}

/// What a file of this text is refused with.
std::string refusal_of_file(const std::string& yaml) {
  return error_of(2, [&] {
    std::vector<std::string> notes;
    load_config(parse_config(yaml, "grpo.yaml"), notes);
  });
}

TEST(AliasHints, ARecipeThatIsRefusedIsSentToImport) {
  const std::string way = "`keel import grpo.yaml -o keel.yaml`";
  for (const char* recipe : {"num_generations: 8\nload_in_4bit: true\n", "GRPOConfig: {num_generations: 8}\n",
                             "num_generations: 8\nnum_generation: 8\n", "model_name_or_path: m\nreport_to: [wandb]\n"})
    EXPECT_THAT(refusal_of_file(recipe), testing::AllOf(HasSubstr(way), HasSubstr("TRL's"))) << recipe;
  EXPECT_THAT(refusal_of_file("algorithm: {adv_estimator: grpo, foo: 1}\ntrainer: {nnodes: 2}\n"),
              testing::AllOf(HasSubstr(way), HasSubstr("verl's")));
  for (const char* ours : {"rollout: {temperatur: 1}\n", "num_generations: 8\ntrain: {steps: 3, stepz: 4}\n"})
    EXPECT_THAT(refusal_of_file(ours), testing::Not(HasSubstr("keel import"))) << ours;
  const std::string twice = refusal_of_file("num_generations: 8\npacking: true\n");
  EXPECT_EQ(twice.find("keel import"), twice.rfind("keel import")) << twice;
}

}  // namespace
}  // namespace keel
