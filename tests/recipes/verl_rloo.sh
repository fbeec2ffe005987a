# Modelled on verl's examples/rloo_trainer/run_qwen2-7b.sh.
python3 -m verl.trainer.main_ppo \
    algorithm.adv_estimator=rloo \
    data.train_files=rows.jsonl \
    data.val_files=rows.jsonl \
    data.train_batch_size=8 \
    data.max_prompt_length=512 \
    data.max_response_length=8 \
    actor_rollout_ref.model.path=start \
    actor_rollout_ref.actor.optim.lr=1e-6 \
    actor_rollout_ref.actor.ppo_mini_batch_size=2 \
    actor_rollout_ref.actor.use_kl_loss=False \
    actor_rollout_ref.rollout.name=vllm \
    actor_rollout_ref.rollout.n=5 \
    algorithm.use_kl_in_reward=True \
    algorithm.kl_penalty=kl \
    algorithm.kl_ctrl.kl_coef=0.001 \
    trainer.n_gpus_per_node=8 \
    trainer.save_freq=-1 \
    trainer.total_training_steps=100 $@
