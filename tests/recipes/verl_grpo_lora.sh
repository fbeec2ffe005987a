# Modelled on verl's examples/grpo_trainer/run_qwen2_5-3b_gsm8k_grpo_lora.sh.
set -x

python3 -m verl.trainer.main_ppo \
    algorithm.adv_estimator=grpo \
    trainer.val_before_train=False \
    data.train_files=rows.jsonl \
    data.val_files=rows.jsonl \
    data.train_batch_size=4 \
    data.max_prompt_length=512 \
    data.max_response_length=8 \
    data.shuffle=False \
    actor_rollout_ref.model.path=start \
    actor_rollout_ref.model.lora_rank=64 \
    actor_rollout_ref.model.lora_alpha=32 \
    actor_rollout_ref.actor.optim.lr=3e-6 \
    actor_rollout_ref.actor.ppo_mini_batch_size=4 \
    actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=40 \
    actor_rollout_ref.actor.use_kl_loss=True \
    actor_rollout_ref.actor.kl_loss_coef=0.001 \
    actor_rollout_ref.actor.kl_loss_type=low_var_kl \
    actor_rollout_ref.rollout.name=vllm \
    actor_rollout_ref.rollout.n=5 \
    actor_rollout_ref.rollout.load_format=safetensors \
    actor_rollout_ref.rollout.layered_summon=True \
    algorithm.use_kl_in_reward=False \
    trainer.critic_warmup=0 \
    trainer.logger='["console","wandb"]' \
    trainer.n_gpus_per_node=2 \
    trainer.save_freq=20 \
    trainer.test_freq=5 \
    trainer.total_training_steps=100 $@

    # actor_rollout_ref.actor.ppo_mini_batch_size=256 \
