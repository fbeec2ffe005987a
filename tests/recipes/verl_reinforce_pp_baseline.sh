# Modelled on verl's examples/reinforce_plus_plus_trainer/run_qwen2-7b_math_rf_baseline.sh.
train_path=rows.jsonl
train_files="['$train_path', '$train_path']"

python3 -m verl.trainer.main_ppo \
    algorithm.adv_estimator=reinforce_plus_plus_baseline \
    data.train_files="$train_files" \
    data.val_files="['$train_path']" \
    data.train_batch_size=8 \
    data.max_prompt_length=1024 \
    data.max_response_length=8 \
    actor_rollout_ref.model.path=start \
    actor_rollout_ref.actor.optim.lr=3e-6 \
    actor_rollout_ref.actor.ppo_mini_batch_size=8 \
    actor_rollout_ref.actor.use_kl_loss=False \
    actor_rollout_ref.actor.kl_loss_coef=0.001 \
    actor_rollout_ref.actor.kl_loss_type=mse \
    actor_rollout_ref.rollout.n=8 \
    algorithm.use_kl_in_reward=True \
    trainer.n_gpus_per_node=16 \
    trainer.total_training_steps=100 $@
