#include "keel/model/formats/safetensors/safetensors_format.h"

#include <algorithm>

#include "keel/core/untrusted_text.h"

namespace keel::safetensors {

std::string known_dtypes() {
  std::string list;
  for (const DtypeName& known : kDtypes) list.append(list.empty() ? "" : " ").append(known.name);
  return list;
}

const char* find_name_error(std::string_view name) {
  constexpr size_t kMaxNameBytes = 1024;
  if (name.empty()) return "is empty";
  if (name.size() > kMaxNameBytes) return "is longer than 1024 bytes";
  if (name == kMetadataKey) return "is reserved";
  if (name.find('/') != name.npos || name.find('\\') != name.npos) return "holds a slash";
  if (name.find("..") != name.npos) return "holds \"..\"";
  if (first_bad_utf8(name)) return "is not UTF-8";
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  if (std::any_of(name.begin(), name.end(), is_control)) return "holds a control character";
  return nullptr;
}

}  // namespace keel::safetensors
