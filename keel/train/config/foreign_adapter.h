#pragma once

#include <string>

namespace keel {

class OptionTable;

/// TRL's names of an adapter, those of its ModelConfig (lora_r) and of PEFT's LoraConfig (r).
void add_trl_adapter(OptionTable& table);

/// Whose default it is that an adapter, asked for by a name of TRL's, gives a setting of ours of which nothing is said:
/// "PEFT's default of lora_alpha". Empty where the name says the setting itself.
std::string default_of_trl_adapter(const std::string& name, const std::string& ours);

/// verl's and OpenRLHF's.
void add_adapter_aliases(OptionTable& table);

}  // namespace keel
