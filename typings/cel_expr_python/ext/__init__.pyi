from cel_expr_python.ext import ext_optional as ext_optional, ext_strings as ext_strings
