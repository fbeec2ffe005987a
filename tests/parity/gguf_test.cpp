// Keel's half of the comparison of GGUF reading with the Python packages (gguf_parity_test.py runs this, then judges):
// every file FOLDER/*.gguf becomes a safetensors file of all its tensors, and where it holds a model, a Hugging Face
// folder; where it holds a tokenizer alone, a folder with that.

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "keel/core/error.h"
#include "keel/core/files/file.h"
#include "keel/model/folder/convert_folder.h"
#include "keel/model/formats/safetensors/safetensors.h"

namespace keel {
namespace {

TEST(GgufParity, ReadsTheFilesThatThePythonPackagesWrote) {
  const char* folder = std::getenv("KEEL_GGUF_FOLDER");
  if (folder == nullptr) GTEST_SKIP() << "KEEL_GGUF_FOLDER is not set; gguf_parity_test.py sets it";
  for (const std::string& name : list_directory(folder)) {
    const std::filesystem::path path = std::filesystem::path(folder) / name;
    if (path.extension() != ".gguf") continue;
    GgufFile file = GgufFile::open(path);
    const std::string out = (path.parent_path() / path.stem()).string();
    std::vector<std::pair<std::string, Tensor>> tensors;
    for (const GgufTensor& tensor : file.tensors()) tensors.emplace_back(tensor.name, file.read(tensor.name));
    write_safetensors(out + ".safetensors", tensors, {});
    write_atomically(out + ".metadata.json", file.metadata().tree().dump());
    if (file.contains("token_embd.weight")) {
      write_gguf_as_folder(GgufModel(std::move(file)), out, at::kFloat);
    } else if (file.metadata().find("tokenizer.ggml.model") != nullptr) {
      const GgufTokenizer tokenizer = tokenizer_from_gguf(file.metadata());
      create_directories(out);
      write_atomically(std::filesystem::path(out) / "tokenizer.json", tokenizer.tokenizer.dump());
      write_atomically(std::filesystem::path(out) / "tokenizer_config.json", tokenizer.tokenizer_config.dump());
    }
  }
}

}  // namespace
}  // namespace keel
