#pragma once

#include <map>
#include <string>
#include <vector>

#include "keel/core/json.h"

namespace keel::compat {

class Import;

/// Converts the value of another program's key. Returns kNoValue to set nothing. Throws Error (without the key's name,
/// which is added) for an unsupported value.
using Conversion = Json (*)(const Json& value);
inline const Json kNoValue = Json(Json::value_t::discarded);

/// Reads several keys together and calls Import::set.
using Computation = void (*)(Import& recipe);

enum class RowKind { kMaps, kRefuses, kIgnores, kComputed };

struct KeyRow {
  RowKind kind = RowKind::kIgnores;
  std::string target = {};  // kMaps: the Keel setting; kComputed: the Keel settings, for help only
  Conversion conversion = nullptr;
  std::string unit = {};       // kMaps: how the value is converted, for help and comments
  std::string reason = {};     // kRefuses
  std::vector<Json> harmless;  // kRefuses: values that change nothing, next to null and the program's default
};

/// Maps the keys of one program to Keel. A row applies to its key and everything below it; the longest key takes
/// precedence. Lists of keys are separated by blanks, and "a.b.{c d}" means "a.b.c a.b.d".
class KeyTable {
 public:
  explicit KeyTable(std::string program) : program_(std::move(program)) {}

  /// The key corresponds to a Keel setting.
  void maps(const char* keys, const char* target, Conversion conversion = nullptr, const char* unit = "");
  /// Rejects values other than the harmless ones (a JSON list), because they would change the training.
  void refuses(const char* keys, const char* reason, const char* harmless = "[]");
  /// The key has no effect on the training.
  void ignores(const char* keys);
  /// The computation reads these keys, after all `maps` rows, in the order of these calls. `targets` is for help.
  void computes(const char* keys, const char* targets, Computation computation);
  /// Defaults of the program: a JSON object of dotted keys. They apply to absent keys of `maps` rows, are harmless for
  /// `refuses` rows, and Import::value returns them.
  void defaults(const char* json);

  const std::string& program() const { return program_; }
  /// The row of a key or of the nearest section above it; nullptr if there is none.
  const KeyRow* find(const std::string& key) const;
  /// The row of exactly this key.
  const KeyRow* exact(const std::string& key) const;
  /// Returns whether a row is below this section.
  bool has_below(const std::string& section) const;
  const Json* default_of(const std::string& key) const;
  const std::map<std::string, KeyRow>& rows() const { return rows_; }
  const Json& all_defaults() const { return defaults_; }
  const std::vector<Computation>& computations() const { return computations_; }

 private:
  void add(const char* keys, const KeyRow& row);

  std::string program_;
  std::map<std::string, KeyRow> rows_;
  Json defaults_ = Json::object();
  std::vector<Computation> computations_;
};

// Computations: TRL 1.16.0 (with transformers 5 and PEFT 0.21.2), verl 0.9.1.
void add_grpo_rules(KeyTable& table);
void add_sft_rules(KeyTable& table);
void add_verl_rules(KeyTable& table);

const KeyTable& trl_grpo_table();
const KeyTable& trl_sft_table();
const KeyTable& verl_table();
/// All tables.
std::vector<const KeyTable*> key_tables();

/// Whether only full names match a key, or also its last part.
enum class Names { kWhole, kSuffixes };

/// Describes another program's key, for errors about unknown keys and for `keel help`: "TRL's num_generations is
/// rollout.samples_per_prompt". Empty if no program has it.
std::string describe_key(const std::string& key, Names names = Names::kWhole);

}  // namespace keel::compat
