#pragma once

#include <string>

#include "libs/hftext/jinja/syntax/ast.h"

namespace keel::jinja {

/// Parses a template; an Error with the line when it is not one. `place` names it there.
TemplateTree parse_template(std::string source, const std::string& place);

}  // namespace keel::jinja
