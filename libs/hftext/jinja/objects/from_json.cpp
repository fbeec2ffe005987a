#include "libs/hftext/jinja/objects/from_json.h"

#include "keel/core/untrusted_text.h"
#include "libs/hftext/jinja/objects/python_str.h"
#include "libs/hftext/jinja/objects/runtime.h"

namespace keel::jinja {

Value from_json(Runtime& runtime, const Json& tree, bool untrusted) {
  const Runtime::NestingGuard guard(runtime);
  const auto text = [&](const std::string& bytes) {
    if (first_bad_utf8(bytes)) runtime.fail("a string given to the template is not valid UTF-8");
    return runtime.text(TracedText(bytes, untrusted));
  };
  switch (tree.type()) {
    case Json::value_t::boolean:
      return tree.get<bool>();
    case Json::value_t::number_float:
      return tree.get<double>();
    case Json::value_t::number_integer:
      return tree.get<int64_t>();
    case Json::value_t::number_unsigned:
      if (tree.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) {
        runtime.fail("the integer ", tree.get<uint64_t>(),
                     " given to the template does not fit into a signed 64-bit integer");
      }
      return tree.get<int64_t>();
    case Json::value_t::string:
      return text(tree.get_ref<const std::string&>());
    case Json::value_t::array: {
      std::vector<Value> items;
      for (const Json& item : tree) items.push_back(from_json(runtime, item, untrusted));
      return runtime.list(std::move(items));
    }
    case Json::value_t::object: {
      auto* dict = runtime.make<Dict>();
      for (const auto& [key, value] : tree.items()) dict->set(runtime, text(key), from_json(runtime, value, untrusted));
      return dict;
    }
    default:
      return None{};
  }
}

}  // namespace keel::jinja
