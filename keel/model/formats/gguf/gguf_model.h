#pragma once

// A GGUF file seen as a Hugging Face model: config.json, parameters under their names there, tokenizer.

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "keel/core/json.h"
#include "keel/core/tensor/tensor.h"
#include "keel/model/formats/gguf/gguf_architecture.h"
#include "keel/model/formats/gguf/gguf_file.h"
#include "keel/model/formats/gguf/gguf_tokenizer.h"

namespace keel {

/// A model of a known architecture whose tensors are all there, in the shapes that the metadata promises, and no
/// others.
class GgufModel {
 public:
  /// Opens and checks the file; a fault is an Error (kBadInput) that names the file, the tensor or key, what was found
  /// and what was wanted.
  static GgufModel open(const std::filesystem::path& path) { return GgufModel(GgufFile::open(path)); }
  explicit GgufModel(GgufFile file);

  const GgufFile& file() const { return file_; }
  /// config.json of the Hugging Face folder. Its dtype is float32, what the parameters are read as.
  const Json& config() const { return config_; }
  /// generation_config.json of that folder.
  Json generation() const;
  /// Without lm_head.weight where it is tied to the embedding.
  const std::vector<GgufParameter>& parameters() const { return parameters_; }
  int64_t parameter_count() const;

  /// Reads a parameter by its Hugging Face name into fresh CPU memory, as float32.
  Tensor read(std::string_view name) const;
  /// Reads it into memory with room for exactly its elements.
  void read_into(std::string_view name, std::span<float> to) const;
  Tensor read(const GgufParameter& parameter) const;
  void read_into(const GgufParameter& parameter, std::span<float> to) const;

  GgufTokenizer tokenizer() const { return tokenizer_from_gguf(file_.metadata()); }

 private:
  const GgufParameter& at(std::string_view name) const;
  void check_parameters() const;

  GgufFile file_;
  Json config_;
  std::vector<GgufParameter> parameters_;
};

}  // namespace keel
