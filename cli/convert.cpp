#include <filesystem>
#include <memory>

#include "cli/commands.h"
#include "keel/core/console.h"
#include "keel/core/files/file.h"
#include "keel/model/folder/convert_folder.h"
#include "keel/train/checkpoint/checkpoint.h"
#include "keel/train/checkpoint/run_models.h"
#include "keel/train/start/starting_model.h"

namespace keel::cli {
namespace {

struct ConvertArguments {
  std::string input, output, dtype;
};

ExitCode convert(const ConvertArguments& arguments) {
  Console messages(stderr);
  const std::string name = model_named(arguments.input, &messages);
  const bool is_file = std::filesystem::path(name).extension() == ".gguf";
  const std::filesystem::path path = is_file ? std::filesystem::path(name) : find_model(name);
  std::optional<at::ScalarType> dtype;
  if (!arguments.dtype.empty()) dtype = dtype_named(arguments.dtype, "--dtype");
  const auto tell = [&](const std::string& architecture, int64_t parameters) {
    Console().line(arguments.output + ": " + architecture + ", " + format_count(parameters) + " parameters" +
                   (dtype ? " in " + dtype_name(*dtype) : ""));
    return ExitCode::kDone;
  };
  if (is_folder(path)) {
    require_undamaged(path);
    const ModelFolder model = ModelFolder::open(path);
    const std::optional<WeightSource> trained = float32_weights(path);
    write_model_alone(model, trained ? *trained : model.weights(), arguments.output, dtype);
    return tell(model.config.model_type, model.config.parameter_count());
  }
  const GgufModel model = GgufModel::open(path);
  if (!dtype) dtype = at::kFloat;
  write_gguf_as_folder(model, arguments.output, *dtype);
  return tell(model.config()["architectures"][0], model.parameter_count());
}

}  // namespace

Action add_convert(CommandLine& line) {
  const auto arguments = std::make_shared<ConvertArguments>();
  Command command = line.add("convert", "A Hugging Face folder from a GGUF file or a run");
  command
      .option("IN", arguments->input,
              "A GGUF file of a llama, qwen2 or qwen3 model, the folder of a run (its newest sound checkpoint) or "
              "of a model, or owner/name in the local cache")
      .required();
  command.option("OUT", arguments->output, "The folder to write; must not exist, or be empty").required();
  command
      .option("--dtype", arguments->dtype,
              "Of the weights: float32, float16 or bfloat16; else a folder's stay as they are, and a GGUF file's "
              "become float32")
      .among({"float32", "float16", "bfloat16"});
  return [arguments] { return convert(*arguments); };
}

}  // namespace keel::cli
