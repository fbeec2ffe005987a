#!/bin/bash
# The arguments of TRL's trl/scripts/sft.py with LoRA, on two processes; sizes are small, and nothing is packed.
accelerate launch --num_processes 2 trl/scripts/sft.py \
    --model_name_or_path model \
    --dataset_name talks.jsonl \
    --learning_rate 2.0e-4 \
    --num_train_epochs 1 \
    --packing False \
    --per_device_train_batch_size 2 \
    --gradient_accumulation_steps 8 \
    --eval_strategy steps \
    --eval_steps 100 \
    --use_peft \
    --lora_r 32 \
    --lora_alpha 16 \
    --output_dir runs/sft-lora \
    --push_to_hub
