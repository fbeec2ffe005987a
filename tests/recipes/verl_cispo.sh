# Modelled on verl's examples/cispo_trainer/run_cispo_qwen2_5_0_5b_gsm8k.sh.
python3 -m verl.trainer.main_ppo \
    algorithm.adv_estimator=grpo \
    actor_rollout_ref.actor.policy_loss.loss_mode=cispo \
    actor_rollout_ref.actor.clip_ratio_low=10 \
    actor_rollout_ref.actor.clip_ratio_high=0.2 \
    data.train_files="['rows.jsonl']" \
    data.val_files="['rows.jsonl']" \
    data.train_batch_size=4 \
    data.max_prompt_length=1024 \
    data.max_response_length=8 \
    actor_rollout_ref.model.path=start \
    actor_rollout_ref.model.torch_dtype=bfloat16 \
    actor_rollout_ref.actor.optim.lr=1e-6 \
    actor_rollout_ref.actor.ppo_mini_batch_size=2 \
    actor_rollout_ref.actor.use_kl_loss=True \
    actor_rollout_ref.actor.kl_loss_coef=0.001 \
    actor_rollout_ref.actor.kl_loss_type=low_var_kl \
    actor_rollout_ref.rollout.n=5 \
    trainer.n_gpus_per_node=1 \
    trainer.nnodes=1 \
    trainer.total_training_steps=100 $@
