#!/usr/bin/env bash
# DPPO inside verl: Qwen2.5-0.5B on GSM8K, one node with 8 GPUs; docs/verl.md explains it.
#
#   python3 examples/data_preprocess/gsm8k.py --local_save_dir ~/data/gsm8k    # in a checkout of verl: its data
#   bash dppo_gsm8k.sh trainer.n_gpus_per_node=4                               # later settings override
#
# The first two lines are Keel's. They set the loss, its anchor (the log-probs that vLLM recorded), advantages and
# aggregation as in the DPPO paper. A setting that contradicts one of them is an error at the start.
set -euo pipefail

python3 -m verl.trainer.main_ppo \
  'hydra.searchpath=[pkg://keel.verl]' \
  +keel=dppo_tv \
  data.train_files="$HOME/data/gsm8k/train.parquet" \
  data.val_files="$HOME/data/gsm8k/test.parquet" \
  data.train_batch_size=256 \
  data.max_prompt_length=512 \
  data.max_response_length=1024 \
  actor_rollout_ref.model.path=Qwen/Qwen2.5-0.5B-Instruct \
  actor_rollout_ref.actor.optim.lr=1e-6 \
  actor_rollout_ref.actor.ppo_mini_batch_size=64 \
  actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=16 \
  actor_rollout_ref.rollout.name=vllm \
  actor_rollout_ref.rollout.tensor_model_parallel_size=1 \
  actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=16 \
  actor_rollout_ref.rollout.n=8 \
  trainer.n_gpus_per_node=8 \
  trainer.nnodes=1 \
  trainer.logger='[console]' \
  trainer.project_name=keel_verl \
  trainer.experiment_name=dppo_gsm8k \
  trainer.total_epochs=3 \
  "$@"
