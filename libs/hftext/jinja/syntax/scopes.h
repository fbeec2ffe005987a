#pragma once

#include <set>
#include <string>

#include "libs/hftext/jinja/syntax/ast.h"

namespace keel::jinja {

/// Decides for every variable of the tree where it lives, as Jinja's compiler does, and refuses what that refuses:
/// unknown filters and tests, assignments to `loop`.
///
/// A name means the variable of the innermost frame (template, loop body, macro, block) that assigns or, failing that,
/// first reads it. Frames that are functions in Jinja's generated code (macros, call blocks, recursive loops, loop
/// conditions) have their own slots; the others share those of the function around them.
void place_variables(TemplateTree& tree, const std::string& place);

/// The names that a placed tree reads without having assigned them: what it asks its caller for.
std::set<std::string> context_names(const TemplateTree& tree);

}  // namespace keel::jinja
