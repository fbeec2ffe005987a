#include "keel/compat/conversions.h"

#include <sstream>

#include "keel/compat/import.h"
#include "keel/core/error.h"
#include "keel/core/strings.h"
#include "keel/model/network/lora_options.h"

namespace keel::compat {

Json list_of_one(const Json& value) {
  if (value.is_null()) return kSetsNothing;
  return value.is_array() ? value : Json::array({value});
}

Json unless_null(const Json& value) { return value.is_null() ? kSetsNothing : value; }

Json template_arguments(const Json& value) {
  if (value.is_null()) return kSetsNothing;
  if (!value.is_object())
    fail(ExitCode::kBadConfiguration, "got ", value.dump(), ", expected a mapping, as {enable_thinking: false}");
  Json arguments = Json::array();
  for (const auto& [name, argument] : value.items()) arguments.push_back(name + "=" + argument.dump());
  return arguments;
}

std::string one_of(const char* words, const Json& value) {
  std::istringstream list(words);
  std::vector<std::string> names;
  for (std::string word; list >> word;) {
    const size_t equals = word.find('=');
    names.push_back(word.substr(0, equals));
    if (names.back() == word_of(value)) return word.substr(equals + 1);
  }
  fail(ExitCode::kBadConfiguration, "got ", value.dump(), ", expected one of ", joined(names));
}

Json converted(Import& r, const std::string& key, const std::function<Json(const Json& value)>& conversion) try {
  return conversion(r.value(key));
} catch (const Error& error) {
  r.refuse(key, error.what());
  return kSetsNothing;
}

std::string translated(Import& r, const std::string& key, const char* words) {
  const Json ours = converted(r, key, [&](const Json& value) { return Json(one_of(words, value)); });
  return ours.is_discarded() ? "" : ours.get<std::string>();
}

void set_warmup_share(Import& r, const std::string& target, const std::string& key) {
  if (r.number(key) < 1) return r.set(target, r.value(key), key);
  r.refuse(key, "got " + r.word(key) + ", expected a share below 1");  // ours from 1 on is a number of updates
}

Json precision_name(const Json& value) {
  if (value.is_null() || value == "auto") return kSetsNothing;
  return one_of("bfloat16=bf16 bf16=bf16 float16=fp16 fp16=fp16 half=fp16 float32=float32 fp32=float32 float=float32",
                value);
}

Json adamw_moments(const Json& value) {
  if (value.is_null()) return kSetsNothing;
  return one_of(
      "adamw_torch=float32 adamw_torch_fused=float32 adamw_hf=float32 AdamW=float32 adamw_8bit=8bit "
      "adamw_bnb_8bit=8bit AdamW8bit=8bit",
      value);
}

Json schedule_word(const Json& value) {
  if (value.is_null()) return kSetsNothing;
  return one_of("constant=constant constant_with_warmup=constant linear=linear cosine=cosine cosine_with_min_lr=cosine",
                value);
}

Json adapter_layers(const Json& value) {
  if (value == "all-linear" || value == Json::array({"all-linear"})) return LoraOptions().target_modules;
  return list_of_one(value);
}

Json kl_estimator(const Json& value) {
  if (value.is_null()) return kSetsNothing;
  return one_of("kl=k1 k1=k1 mse=k2 k2=k2 low_var_kl=k3 k3=k3", value);
}

int64_t count_of(const Import& r, const char* target) {
  const Json value = r.ours(target);
  return value.is_number_integer() ? std::max<int64_t>(value.get<int64_t>(), 1) : 1;
}

void set_tools(Import& r, const std::string& key) {
  const Json tools = r.given(key) ? list_of_one(r.value(key)) : Json::array();
  for (const Json& value : tools) {
    const std::string tool = word_of(value);
    if (tool == "tensorboard" || tool == "all")
      r.set("record.tensorboard", true, key);
    else if (tool == "wandb" || tool == "mlflow")
      r.remark(key + ": " + tool + " is not switched on, because it needs a Python package. Fix: record." + tool +
               "=true");
    else if (!tool.empty() && tool != "none" && tool != "console")
      r.remark(key + ": for " + tool + " there is `keel export RUN --csv FILE`");
  }
}

}  // namespace keel::compat
