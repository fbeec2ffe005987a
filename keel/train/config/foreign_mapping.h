#pragma once

#include "keel/train/config/foreign_names.h"

namespace keel {

/// What GRPOConfig and SFTConfig take as a mapping or as JSON in a text. (fsdp_config and deepspeed, which are such as
/// well, are of several processes, and left out whatever they say.)
inline const Names kTrlMappings = {"model_init_kwargs",
                                   "chat_template_kwargs",
                                   "generation_kwargs",
                                   "lr_scheduler_kwargs",
                                   "gradient_checkpointing_kwargs",
                                   "activation_checkpointing_kwargs",
                                   "dataset_kwargs",
                                   "accelerator_config"};

/// Such a text as transformers reads it: words true and false, in any case, and numbers lose their quotes. An Error
/// where it is no JSON; what is no text, or none that begins with {, stays as it is.
Json mapping_in_text(const Json& value);

}  // namespace keel
