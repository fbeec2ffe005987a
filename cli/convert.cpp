#include <cctype>
#include <filesystem>
#include <memory>

#include "cli/commands.h"
#include "cli/generation_settings.h"
#include "keel/core/console.h"
#include "keel/core/files/file.h"
#include "keel/core/strings.h"
#include "keel/model/folder/convert_folder.h"
#include "keel/model/gguf_export.h"
#include "keel/train/checkpoint/checkpoint.h"
#include "keel/train/checkpoint/run_models.h"
#include "keel/train/start/starting_model.h"
#include "libs/hftext/characters/utf8.h"

namespace keel::cli {
namespace {

struct ConvertArguments {
  std::string input, output, dtype;
};

constexpr const char* kQ8_0 = "q8_0";

bool is_gguf_name(const std::filesystem::path& path) { return path.extension() == ".gguf"; }

/// The GGUF format of a dtype; by default that of the embedding.
const GgufFormat& gguf_format(const std::string& dtype, const LoadedModel& loaded) {
  const std::string name = dtype.empty() ? dtype_name(loaded.dtypes.get("model.embed_tokens.weight")) : dtype;
  return *find_gguf_format(name == kQ8_0        ? std::string_view("Q8_0")
                           : name == "float16"  ? "F16"
                           : name == "bfloat16" ? "BF16"
                                                : "F32");
}

ExitCode convert_to_gguf(const ConvertArguments& arguments, const std::filesystem::path& path, Console& messages) {
  std::error_code ignored;  // symlink_status() also finds dangling links
  if (std::filesystem::exists(std::filesystem::symlink_status(arguments.output, ignored)))
    fail(ExitCode::kBadConfiguration, "cannot write ", arguments.output,
         ": it exists; remove it or choose another name");
  std::string name = std::filesystem::path(full_path(arguments.input)).filename().string();
  if (!is_folder(path)) name = GgufFile::open(path).metadata().text("general.name").value_or(path.stem().string());
  LoadedModel loaded = load_trained_model(path.string(), "", {at::kCPU}, messages);
  loaded.model = loaded.model.merged({});
  name = text::lossy_utf8(name);  // folder names may be invalid UTF-8
  const GgufFormat& format = gguf_format(arguments.dtype, loaded);
  const ModelConfig& config = loaded.model.config();
  write_gguf(loaded, arguments.output, format, name, path.string());
  if (const int64_t context = gguf_context_length(config, path.string()); context < config.max_position_embeddings)
    messages.line("GGUF has no field for the attention window of " + config.model_type +
                  ", so the context length is reduced from " + format_count(config.max_position_embeddings) + " to " +
                  format_count(context) + " tokens");
  const std::vector<std::string> lost_stop_tokens = stop_tokens_lost_in_gguf(loaded),
                                 sampling = describe_file_sampling(loaded.generation);
  if (!lost_stop_tokens.empty())
    messages.line("stop tokens dropped, since GGUF stores at most three: " + joined(lost_stop_tokens));
  if (!sampling.empty())
    messages.line("sampling settings of generation_config.json are not stored in GGUF, set them at inference: " +
                  joined(sampling));
  const GgufMatrices matrices = gguf_matrices(config, format, path.string());
  if (matrices.in_f16 > 0)
    messages.line(format_count(matrices.in_f16) + " parameters are stored in F16: their rows are not divisible into " +
                  std::string(format.name) + " blocks of " + std::to_string(format.block_elements));
  Console().line(arguments.output + ": " + config.model_type + ", " + format_count(config.parameter_count()) +
                 " parameters in " + std::string(matrices.main_format(format)));
  return ExitCode::kDone;
}

/// Rejects the endings of other file formats. A new folder's name may end with a number: Qwen2.5, SmolLM2-1.7B.
void check_output_name(const std::string& output) {
  if (output.empty()) fail(ExitCode::kBadConfiguration, "OUT is empty; expected NAME.gguf or a folder");
  const std::string ending = std::filesystem::path(output).extension().string();
  const bool is_format = ending.size() > 1 && std::isalpha(static_cast<unsigned char>(ending[1])) != 0;
  if (is_format && !is_gguf_name(output) && !is_folder(output))
    fail(ExitCode::kBadConfiguration, "OUT is ", output, ": keel convert does not write ", ending,
         " files; expected NAME.gguf or a folder. Fix: for a folder with this name, write ", output, "/");
}

ExitCode convert(const ConvertArguments& arguments) {
  check_output_name(arguments.output);
  Console messages(stderr);
  const std::string name = resolve_model(arguments.input, &messages);
  const std::filesystem::path path = is_gguf_name(name) ? std::filesystem::path(name) : locate_model(name);
  if (is_gguf_name(arguments.output)) return convert_to_gguf(arguments, path, messages);
  if (arguments.dtype == kQ8_0)
    fail(ExitCode::kBadConfiguration, "--dtype ", kQ8_0, " is for GGUF files, and OUT is the folder ", arguments.output,
         "; name it FILE.gguf, or choose float32, float16 or bfloat16");
  std::optional<at::ScalarType> dtype;
  if (!arguments.dtype.empty()) dtype = parse_dtype(arguments.dtype, "--dtype");
  const auto report = [&](const std::string& architecture, int64_t parameters) {
    Console().line(arguments.output + ": " + architecture + ", " + format_count(parameters) + " parameters" +
                   (dtype ? " in " + dtype_name(*dtype) : ""));
    return ExitCode::kDone;
  };
  if (is_folder(path)) {
    LoadedModel loaded = load_trained_model(path.string(), "", {at::kCPU}, messages);
    loaded.model = loaded.model.merged({});
    write_model_only(loaded.model, loaded.tokenizer, loaded.generation, dtype ? WeightDtypes(*dtype) : loaded.dtypes,
                     arguments.output);
    return report(loaded.model.config().model_type, loaded.model.config().parameter_count());
  }
  const GgufModel model = GgufModel::open(path);
  if (!dtype) dtype = at::kFloat;
  write_gguf_as_folder(model, arguments.output, *dtype);
  return report(model.config()["architectures"][0], model.parameter_count());
}

}  // namespace

CommandHandler add_convert(CommandLine& line) {
  const auto arguments = std::make_shared<ConvertArguments>();
  Command command =
      line.add("convert", "Convert a run, a model folder or a GGUF file to a Hugging Face folder or a GGUF file");
  command
      .option("IN", arguments->input,
              "A GGUF file of a llama, qwen2, qwen3, gemma2 or gemma3 model, the folder of a run (its newest valid "
              "checkpoint) or of a model, or owner/name in the local cache")
      .required()
      .files();
  command
      .option("OUT", arguments->output,
              "Output: NAME.gguf for a GGUF file, which must not exist; else a folder, which must be new or empty")
      .required()
      .files();
  command
      .option("--dtype", arguments->dtype,
              "Dtype of the weights: float32, float16, bfloat16 or, for GGUF output, q8_0 (default: unchanged for a "
              "folder, float32 for GGUF input). Norms and biases in GGUF files are float32")
      .among({"float32", "float16", "bfloat16", kQ8_0});
  return [arguments] { return convert(*arguments); };
}

}  // namespace keel::cli
