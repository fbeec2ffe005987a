#!/usr/bin/env bash
# Modelled on verl's recipe/dapo/run_dapo_qwen2.5_32b.sh, without its cluster job. It filters groups by acc, which is not
# supported together with the overlong penalty; this one filters by seq_reward.
set -euxo pipefail

project_name='DAPO'
clip_ratio_low=0.2
clip_ratio_high=0.28
train_prompt_bsz=4
gen_prompt_bsz=$((train_prompt_bsz * 3))
n_resp_per_prompt=16
max_response_length=$((1024 / 128))

python3 -m verl.trainer.main_ppo \
    data.train_files=rows.jsonl \
    data.val_files=rows.jsonl \
    data.prompt_key=prompt \
    data.truncation='left' \
    data.max_prompt_length=2048 \
    data.max_response_length=${max_response_length} \
    data.gen_batch_size=${gen_prompt_bsz} \
    data.train_batch_size=${train_prompt_bsz} \
    actor_rollout_ref.rollout.n=${n_resp_per_prompt} \
    algorithm.adv_estimator=grpo \
    algorithm.use_kl_in_reward=False \
    algorithm.kl_ctrl.kl_coef=0.0 \
    actor_rollout_ref.actor.use_kl_loss=False \
    actor_rollout_ref.actor.kl_loss_coef=0.0 \
    actor_rollout_ref.actor.clip_ratio_low=${clip_ratio_low} \
    actor_rollout_ref.actor.clip_ratio_high=${clip_ratio_high} \
    actor_rollout_ref.actor.clip_ratio_c=10.0 \
    algorithm.filter_groups.enable=True \
    algorithm.filter_groups.max_num_gen_batches=10 \
    algorithm.filter_groups.metric=seq_reward \
    actor_rollout_ref.model.path=start \
    +actor_rollout_ref.model.override_config.attention_dropout=0. \
    actor_rollout_ref.actor.optim.lr=1e-6 \
    actor_rollout_ref.actor.optim.lr_warmup_steps=10 \
    actor_rollout_ref.actor.optim.weight_decay=0.1 \
    actor_rollout_ref.actor.ppo_mini_batch_size=2 \
    actor_rollout_ref.actor.fsdp_config.param_offload=True \
    actor_rollout_ref.actor.entropy_coeff=0 \
    actor_rollout_ref.actor.grad_clip=1.0 \
    actor_rollout_ref.actor.loss_agg_mode=token-mean \
    actor_rollout_ref.actor.fsdp_config.fsdp_size=-1 \
    actor_rollout_ref.rollout.max_num_batched_tokens=$((2048 + max_response_length)) \
    reward_model.reward_manager=dapo \
    reward_model.overlong_buffer.enable=True \
    reward_model.overlong_buffer.len=$((max_response_length / 2)) \
    reward_model.overlong_buffer.penalty_factor=1.0 \
    trainer.logger=['console','wandb'] \
    trainer.project_name="${project_name}" \
    trainer.n_gpus_per_node=8 \
    trainer.nnodes=16 \
    +trainer.val_before_train=True \
    trainer.save_freq=5 \
    trainer.total_training_steps=100 \
    trainer.resume_mode=auto
