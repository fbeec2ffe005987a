# Modelled on verl's examples/gmpo_trainer/test_dapo_7b_math.sh. It sets loss_agg_mode, which this loss ignores.
loss_mode=geo_mean
python3 -m verl.trainer.main_ppo \
    data.train_files=rows.jsonl \
    data.train_batch_size=8 \
    data.max_response_length=8 \
    actor_rollout_ref.rollout.n=4 \
    algorithm.adv_estimator=grpo \
    algorithm.use_kl_in_reward=False \
    actor_rollout_ref.actor.use_kl_loss=False \
    actor_rollout_ref.actor.policy_loss.loss_mode=${loss_mode} \
    actor_rollout_ref.actor.clip_ratio_low=0.4 \
    actor_rollout_ref.actor.clip_ratio_high=0.4 \
    actor_rollout_ref.actor.loss_agg_mode="token-mean" \
    actor_rollout_ref.actor.entropy_coeff=0 \
    actor_rollout_ref.actor.optim.lr=1e-6 \
    actor_rollout_ref.actor.optim.lr_warmup_steps=10 \
    actor_rollout_ref.actor.ppo_mini_batch_size=1 \
    actor_rollout_ref.model.path=start \
    actor_rollout_ref.actor.checkpoint.save_contents="['model', 'optimizer', 'extra']" \
    trainer.nnodes="${NNODES:-8}" \
    trainer.total_training_steps=200
