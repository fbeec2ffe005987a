# Modelled on the command in TRL's examples/scripts/gspo.py.
accelerate launch \
    --config_file examples/accelerate_configs/deepspeed_zero3.yaml \
    examples/scripts/gspo.py \
    --model_name_or_path start \
    --dataset_name rows.jsonl \
    --output_dir gspo-Qwen3-0.6B \
    --learning_rate 1e-5 \
    --lr_scheduler_type constant \
    --dtype bfloat16 \
    --max_completion_length 8 \
    --max_steps 4 \
    --use_peft \
    --lora_dropout 0 \
    --lora_target_modules "q_proj", "v_proj" \
    --log_completions \
    --per_device_train_batch_size 8 \
    --num_generations 8 \
    --importance_sampling_level sequence \
    --epsilon 3e-4 \
    --epsilon_high 4e-4 \
    --beta 0.0 \
    --loss_type grpo \
    --gradient_accumulation_steps 2 \
    --steps_per_generation 8
