#pragma once

#include "keel/compat/key_table.h"

namespace keel::compat {

// The keys that are read together: TRL 1.16.0 (with transformers 5 and PEFT 0.21.2), verl 0.9.1.

void add_grpo_rules(KeyTable& table);
void add_sft_rules(KeyTable& table);
void add_verl_rules(KeyTable& table);

}  // namespace keel::compat
