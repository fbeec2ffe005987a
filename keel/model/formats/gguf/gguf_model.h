#pragma once

// A GGUF file as a Hugging Face model: config.json, parameters with Hugging Face names, and the tokenizer.

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

/// A model of a supported architecture, whose tensors and shapes match the metadata exactly.
class GgufModel {
 public:
  /// Opens and validates the file. Fails (kBadInput) with the file, the tensor or key, and the expected value.
  static GgufModel open(const std::filesystem::path& path) { return GgufModel(GgufFile::open(path)); }
  explicit GgufModel(GgufFile file);

  const GgufFile& file() const { return file_; }
  /// The config.json and generation_config.json of the Hugging Face folder, with dtype float32.
  const Json& config() const { return config_; }
  Json generation() const;
  /// All parameters, without lm_head.weight if it is tied to the embedding.
  const std::vector<GgufParameter>& parameters() const { return parameters_; }
  int64_t parameter_count() const;

  /// Reads a parameter by its Hugging Face name as float32 into new CPU memory.
  Tensor read(std::string_view name) const;
  /// Reads a parameter into `to`, which must have exactly its size.
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
