#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>

#include "cli/commands.h"
#include "keel/core/console.h"
#include "keel/model/folder/model_folder.h"
#include "keel/model/formats/gguf/gguf_model.h"

namespace keel::cli {
namespace {

struct ConvertArguments {
  std::string input, output, dtype = "float32";
};

}  // namespace

Action add_convert(CLI::App& app) {
  const auto arguments = std::make_shared<ConvertArguments>();
  CLI::App* command = app.add_subcommand("convert", "GGUF to a Hugging Face folder");
  command->add_option("IN", arguments->input, "A GGUF file of a llama, qwen2 or qwen3 model")->required();
  command->add_option("OUT", arguments->output, "The folder to write; must not exist, or be empty")->required();
  command->add_option("--dtype", arguments->dtype, "Of the weights: float32, float16 or bfloat16")
      ->check(CLI::IsMember({"float32", "float16", "bfloat16"}))
      ->capture_default_str();
  return [arguments] {
    const GgufModel model = GgufModel::open(arguments->input);
    write_gguf_as_folder(model, arguments->output, dtype_named(arguments->dtype, "--dtype"));
    Console().line(arguments->output + ": " + model.config()["architectures"][0].get<std::string>() + ", " +
                   format_count(model.parameter_count()) + " parameters in " + arguments->dtype);
    return ExitCode::kDone;
  };
}

}  // namespace keel::cli
