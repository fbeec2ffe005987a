"""The vocabulary of random templates."""

VARIABLES = ["s", "t", "w", "n", "m", "x", "l", "ls", "d", "dd", "z", "b", "u", "messages", "nested", "e", "ns", "tools"]
TEXTS = ["''", "'abc'", "'Hello World'", "' pad '", "'a,b,c'", "'äÖß'", "'x\\ny'", '"it\'s"', "'A'", "'%s-%s'", "'{}{}'", "'key'", "'🙂é'",
         "'<b>&'", "'12'", "'3.7'", "'role'", "'\\t'", "'ǆ'", "'Σας ΣΑΣ'", "'1_000'", "'0x1f'", "'aXbX'"]
INTEGERS = ["0", "1", "2", "3", "-1", "-2", "7", "10", "100", "0x1f", "1_000"]
FLOATS = ["0.5", "1.0", "2.5", "-1.25", "1e3", "0.1", "1e16", "1.5e-7", "123456.789"]
TESTS = ["defined", "undefined", "none", "string", "mapping", "iterable", "sequence", "number", "integer", "float", "boolean", "true",
         "false", "odd", "even", "callable", "lower", "upper", "escaped"]
TESTS_WITH = ["equalto", "==", "eq", "ne", "in", "divisibleby", "lt", "gt", "le", "ge", "sameas", "lessthan", "greaterthan"]
SIMPLE_FILTERS = ["tojson", "trim", "length", "list", "first", "last", "upper", "lower", "title", "capitalize", "string", "int", "float",
                  "abs", "sum", "min", "max", "sort", "unique|list", "reverse|list", "safe", "escape", "items|list", "dictsort", "count",
                  "wordcount", "urlencode", "join", "round", "default", "e", "reverse", "forceescape", "indent", "unique"]
METHODS = ["strip()", "lstrip()", "rstrip()", "split()", "upper()", "lower()", "title()", "capitalize()", "splitlines()", "isdigit()",
           "isalpha()", "isupper()", "islower()", "isspace()", "swapcase()", "items()", "keys()", "values()", "copy()", "isalnum()",
           "isnumeric()", "isdecimal()", "istitle()", "isascii()", "expandtabs()", "rsplit()", "bit_length()", "is_integer()"]
ATTRIBUTES = ["role", "content", "key", "a", "b", "name", "items", "missing", "0", "real", "count", "__class__", "append"]
