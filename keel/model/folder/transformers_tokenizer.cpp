#include "keel/model/folder/transformers_tokenizer.h"

#include <vector>

#include "keel/core/files/file.h"
#include "keel/core/files/json_file.h"
#include "keel/core/str_cat.h"
#include "keel/core/strings.h"

namespace keel {
namespace {

/// PRETOKENIZE_REGEX of transformers/models/qwen2/tokenization_qwen2.py (5.17 and 5.23).
constexpr const char* kQwen2Regex =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

/// Returns the value at a path of keys and indices, or null.
Json value_at(const Json& json, const char* pointer) {
  const Json::json_pointer path(pointer);
  return json.contains(path) ? json.at(path) : Json();
}

std::string text_at(const Json& json, const char* key) {
  const Json value = json.value(key, Json());
  return value.is_string() ? value.get<std::string>() : "";
}

/// Returns whether AutoTokenizer builds Qwen2Tokenizer. For qwen2 it ignores the class that the folder names, and for
/// mistral it always uses the file.
bool builds_qwen2_tokenizer(const std::string& model_type, std::string tokenizer_class) {
  if (tokenizer_class.ends_with("Fast")) tokenizer_class.resize(tokenizer_class.size() - 4);
  if (model_type == "qwen2") return true;
  if (tokenizer_class.empty()) return model_type == "qwen3";
  return tokenizer_class == "Qwen2Tokenizer" && model_type != "mistral";
}

/// Returns the parts of tokenizer.json that differ from those of Qwen2Tokenizer.
std::vector<std::string> find_differences(const Json& tokenizer, bool add_prefix_space) {
  std::vector<std::string> parts;
  if (value_at(tokenizer, "/model/type") != "BPE") parts.emplace_back("model");
  if (value_at(tokenizer, "/normalizer/type") != "NFC") parts.emplace_back("normalizer");
  const Json steps = value_at(tokenizer, "/pre_tokenizer/pretokenizers");
  const bool is_same = steps.size() == 2 && value_at(steps, "/0/pattern/Regex") == kQwen2Regex &&
                       value_at(steps, "/0/behavior") == "Isolated" && value_at(steps, "/0/invert") == false &&
                       value_at(steps, "/1/type") == "ByteLevel" && value_at(steps, "/1/use_regex") == false &&
                       value_at(steps, "/1/add_prefix_space") == add_prefix_space;
  if (!is_same) parts.emplace_back("pre_tokenizer");
  return parts;
}

}  // namespace

std::string find_tokenizer_mismatch(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "tokenizer.json";
  if (folder.empty() || !path_exists(file)) return "";
  const Json config = json_if_any(folder / "config.json"), roles = json_if_any(folder / "tokenizer_config.json");
  const std::string model_type = text_at(config, "model_type"), named = text_at(roles, "tokenizer_class"),
                    tokenizer_class = named.empty() ? text_at(config, "tokenizer_class") : named;
  if (!builds_qwen2_tokenizer(model_type, tokenizer_class)) return "";
  const std::vector<std::string> parts =
      find_differences(json_if_any(file), roles.value("add_prefix_space", Json()) == true);
  if (parts.empty()) return "";
  return str_cat(
      folder.string(), ": AutoTokenizer of transformers 5 ignores ", joined(parts, " and "),
      " of this tokenizer.json and builds those of Qwen2Tokenizer, so its tokens may differ from Keel's. Fix: ",
      "load the tokenizer there with PreTrainedTokenizerFast.from_pretrained");
}

}  // namespace keel
