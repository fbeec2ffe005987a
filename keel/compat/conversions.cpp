#include "keel/compat/conversions.h"

#include <sstream>

#include "keel/compat/import.h"
#include "keel/core/error.h"
#include "keel/core/strings.h"
#include "keel/model/network/lora_options.h"

namespace keel::compat {

Json to_list(const Json& value) {
  if (value.is_null()) return kNoValue;
  return value.is_array() ? value : Json::array({value});
}

Json skip_null(const Json& value) { return value.is_null() ? kNoValue : value; }
Json negative_to_zero(const Json& value) { return value == -1 ? Json(0) : skip_null(value); }

Json to_assignments(const Json& value) {
  if (value.is_null()) return kNoValue;
  if (!value.is_object())
    fail(ExitCode::kBadConfiguration, "got ", value.dump(), ", expected a mapping such as {enable_thinking: false}");
  Json arguments = Json::array();
  for (const auto& [name, argument] : value.items()) arguments.push_back(name + "=" + argument.dump());
  return arguments;
}

std::string look_up(const char* pairs, const Json& value) {
  std::istringstream list(pairs);
  std::vector<std::string> names;
  for (std::string pair; list >> pair;) {
    const size_t equals = pair.find('=');
    names.push_back(pair.substr(0, equals));
    if (names.back() == as_text(value)) return pair.substr(equals + 1);
  }
  fail(ExitCode::kBadConfiguration, "got ", value.dump(), ", expected one of ", joined(names));
}

Json convert_key(Import& r, const std::string& key, const std::function<Json(const Json& value)>& conversion) try {
  return conversion(r.value(key));
} catch (const Error& error) {
  r.refuse(key, error.what());
  return kNoValue;
}

std::string translate(Import& r, const std::string& key, const char* pairs) {
  const Json translated = convert_key(r, key, [&](const Json& value) { return Json(look_up(pairs, value)); });
  return translated.is_discarded() ? "" : translated.get<std::string>();
}

void set_warmup_fraction(Import& r, const std::string& target, const std::string& key) {
  if (r.number(key) < 1) return r.set(target, r.value(key), key);
  r.refuse(key, "got " + r.text(key) + ", expected a fraction below 1");  // Keel reads 1 or more as a number of updates
}

Json to_precision(const Json& value) {
  if (value.is_null() || value == "auto") return kNoValue;
  return look_up("bfloat16=bf16 bf16=bf16 float16=fp16 fp16=fp16 half=fp16 float32=float32 fp32=float32 float=float32",
                 value);
}

Json to_moments(const Json& value) {
  if (value.is_null()) return kNoValue;
  return look_up(
      "adamw_torch=float32 adamw_torch_fused=float32 adamw_hf=float32 AdamW=float32 adamw_8bit=8bit "
      "adamw_bnb_8bit=8bit AdamW8bit=8bit",
      value);
}

Json to_schedule(const Json& value) {
  if (value.is_null()) return kNoValue;
  return look_up(
      "constant=constant constant_with_warmup=constant linear=linear cosine=cosine cosine_with_min_lr=cosine", value);
}

Json to_target_modules(const Json& value) {
  if (value == "all-linear" || value == Json::array({"all-linear"})) return LoraOptions().target_modules;
  return to_list(value);
}

Json kl_estimator(const Json& value) {
  if (value.is_null()) return kNoValue;
  return look_up("kl=k1 k1=k1 mse=k2 k2=k2 low_var_kl=k3 k3=k3", value);
}

int64_t keel_count(const Import& r, const char* target) {
  const Json value = r.setting(target);
  return value.is_number_integer() ? std::max<int64_t>(value.get<int64_t>(), 1) : 1;
}

void set_trackers(Import& r, const std::string& key) {
  const Json tools = r.find(key) ? to_list(r.value(key)) : Json::array();
  for (const Json& value : tools) {
    const std::string tool = as_text(value);
    if (tool == "tensorboard" || tool == "all")
      r.set("record.tensorboard", true, key);
    else if (tool == "wandb" || tool == "mlflow")
      r.remark(key + ": " + tool + " is off by default, because it needs a Python package. To enable it, set record." +
               tool + "=true");
    else if (!tool.empty() && tool != "none" && tool != "console")
      r.remark(key + ": " + tool + " is not supported; use `keel export RUN --csv FILE`");
  }
}

}  // namespace keel::compat
