#pragma once

namespace keel {

class OptionTable;

/// TRL's names of an adapter, those of its ModelConfig (lora_r) and of PEFT's LoraConfig (r).
void add_trl_adapter(OptionTable& table);

/// verl's and OpenRLHF's.
void add_adapter_aliases(OptionTable& table);

}  // namespace keel
