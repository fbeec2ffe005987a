#pragma once

#include <set>
#include <string>

#include "libs/hftext/jinja/syntax/ast.h"

namespace keel::jinja {

/// Resolves every variable of the tree to a slot, as Jinja's compiler does. Rejects unknown filters and tests, and
/// assignments to `loop`.
///
/// A name means the variable of the innermost frame (template, loop body, macro, block) that assigns or, if none does,
/// first reads it. Frames that are functions in Jinja's generated code (macros, call blocks, recursive loops, loop
/// conditions) have their own slots; the others share those of the function around them.
void resolve_variables(TemplateTree& tree, const std::string& location);

/// Names that a resolved tree reads from the context, that is, without assigning them first.
std::set<std::string> context_names(const TemplateTree& tree);

}  // namespace keel::jinja
