#pragma once

#include <string>

#include "libs/hftext/jinja/syntax/ast.h"

namespace keel::jinja {

/// Parses a template. Throws an Error with the line if it is invalid; `location` names the template.
TemplateTree parse_template(std::string source, const std::string& location);

}  // namespace keel::jinja
